"""Our own measurement files, CSV and JSON, and what holds for every importer."""

from __future__ import annotations

import dataclasses
import json

import pytest

from simulator.adapters.generic_csv import COLUMNS
from simulator.adapters.measure import write_observations
from simulator.adapters.observations import (
    FORMATS,
    MeasurementError,
    Observations,
    PassTime,
    PrefillTime,
    SpeculativeRun,
    read_observations,
)
from simulator.errors import UnknownNameError
from tests.adapter_samples import FORMAT_OF, SAMPLES, changed, read, refused


@pytest.mark.parametrize(("name", "format"), FORMAT_OF.items())
def test_every_sample_is_recognised_and_survives_our_own_file(name, format, tmp_path):
    found = read(name)
    assert found.format == format
    assert found.source == str(SAMPLES / name)
    assert all(
        one.where.startswith(found.source + ":") for one in (*found.passes, *found.prefills, *found.runs)
    )
    assert read_observations(SAMPLES / name, format) == found
    path = write_observations(tmp_path / "measurement.json", found)
    assert read_observations(path) == found


def test_every_format_has_a_sample():
    assert set(FORMAT_OF.values()) | {"measure"} == set(FORMATS)


def test_generic_csv():
    found = read("generic.csv")
    assert (found.device, found.runtime, found.model) == ("my_phone", "my_engine", "gemma_4_e2b")
    assert found.weight_bytes == 1.5e9
    assert [(one.width, one.context, one.passes) for one in found.passes] == [(1, 64, 128), (4, 64, 40)]
    assert found.passes[0].seconds == pytest.approx(14.5e-3)
    assert found.passes[0].stderr_s == pytest.approx(0.2e-3)
    assert (found.prefills[0].tokens, found.prefills[0].seconds) == (512, pytest.approx(0.9))
    (run,) = found.runs
    assert (run.drafter, run.draft_length, run.steps, run.output_tokens) == ("assistant", 3, 100, 240)
    assert (run.drafted_tokens, run.accepted_tokens, run.task) == (300, 140, "code")
    assert (run.decode_s, run.baseline_tokens_per_s) == (pytest.approx(5.6), 69)


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("pass,1,64,,14.5", "pass,1,64,,nan", (":3: field 'time_ms'", "'nan'")),
        ("pass,1,64,,14.5", "pass,1,64,,-14.5", (":3: field 'time_ms'", "> 0")),
        ("pass,1,64,,14.5", "pass,,64,,14.5", (":3: field 'width' is missing",)),
        ("pass,1,64,,14.5", "pass,1,64,,", (":3: field 'time_s'", "given none", "time_ms")),
        ("pass,1,64,,14.5", "pass,1,64,,1e308", (":3: seconds: given 1e+305", "at most 10000")),
        ("prefill,,,512,900", "prefill,,,512,1e-300", (":5: seconds: given ", ">= 1e-09")),
        ("14.5,0.2", "14.5,1e9", (":3: stderr_s: given 1e+06", "at most 10000")),
        ("pass,4,64", "pass,1e9,64", (":4: width: given 1e+09", "at most 1024")),
        ("pass,4,64", "pass,1.5,64", (":4: field 'width'", "'1.5'", "a whole number >= 1")),
        ("pass,1,64", "pass,1,1e9", (":3: context: given 1e+09", "at most 1e+07")),
        ("prefill,,,512", "prefill,,,1e9", (":5: tokens: given 1e+09", "at most 1e+07")),
        ("pass,1,64", "pas,1,64", (":3: field 'kind'", "Did you mean 'pass'?")),
        ("time_ms,stderr", "time_min,stderr", (":2: unknown column 'time_min'", "nearest: 'time_ms'")),
        ("width,context", "width,width", (":2: column 'width' stands twice",)),
        ("pass,4,64,,86.8,,40,,,,,,,,,,,,", "pass,4,64,,86.8", (":4: 5 fields", "header has 19")),
        (
            "pass,4,64,,86.8,,40,,,,,,,,,,,,",
            "pass,4,64,,86.8,,40,,,,,,,,,,,gemma_4_e4b,",
            (":4", "one model"),
        ),
        ("300,140,240", "300,340,240", (":6: accepted_tokens: given 340, allowed: at most drafted_tokens",)),
        ("300,140,240", "300,140,139", (":6: accepted_tokens: given 140, allowed: at most output_tokens",)),
    ],
)
def test_damaged_csv(tmp_path, old, new, parts):
    path = changed(tmp_path, "generic.csv", (old, new))
    if "Did you mean 'pass'?" in parts:
        with pytest.raises(UnknownNameError) as caught:
            read_observations(path)
        assert all(part in str(caught.value) for part in (str(path), *parts))
    else:
        refused(path, *parts)


def whole():
    return Observations(
        source="draftscope measure",
        format="measure",
        device="A machine",
        runtime="torch 2.13.0",
        model="smollm2_135m",
        weight_bytes=269060736.0,
        peak_bandwidth_bytes_per_s=41.3e9,
        passes=(
            PassTime(width=1, context=128, seconds=0.1 + 0.2, stderr_s=1e-17, passes=20, where="plain"),
            PassTime(width=9, context=512.5, seconds=1 / 3, where="verify, K = 8"),
        ),
        prefills=(PrefillTime(tokens=100, seconds=2 / 3, stderr_s=0.0, where="prefill"),),
        runs=(
            SpeculativeRun(drafter="smollm2_mtp_head", draft_length=4, steps=30, drafted_tokens=120,
                           accepted_tokens=61, output_tokens=91, decode_s=4.25, draft_s=1.5, verify_s=2.5,
                           baseline_tokens_per_s=23.1, task="smart_reply", where="run 1",
                           per_position_acceptance_rate=(0.9, 0.5)),
            SpeculativeRun(drafter="ngram", where="run 2"),
        ),
        ignored=("warm-up", "é"),
    )  # fmt: skip


def test_our_own_file_is_exact(tmp_path):
    path = write_observations(tmp_path / "new" / "measurement.json", whole())
    assert read_observations(path) == whole()
    assert json.loads(path.read_text())["schema_version"] == 1


ONE = {"width": 1, "context": 0, "seconds": 1, "where": "a"}


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"schema_version": 2}, ("field 'schema_version'", "given 2, allowed: 1")),
        ({"schema_version": True}, ("field 'schema_version'", "True")),
        ({"format": "measured"}, ("field 'format'", "Did you mean 'measure'?")),
        ({"source": None}, ("field 'source' is missing",)),
        ({"weight_bytes": -1}, ("field 'weight_bytes'", ">= 0")),
        ({"weight_bytes": "1 GB"}, ("field 'weight_bytes'", "'1 GB'")),
        ({"wieght_bytes": 1}, ("field 'wieght_bytes' is not known", "nearest: 'weight_bytes'")),
        ({"passes": 3}, ("field 'passes'", "a list of objects")),
        ({"passes": [3]}, ("passes[0]", "an object")),
        ({"passes": [{"width": 1, "context": 0, "where": "a"}]}, ("passes[0]: field 'seconds' is missing",)),
        ({"passes": [{**ONE, "width": 0}]}, ("passes[0]", "width: given 0")),
        ({"passes": [{**ONE, "ms": 1}]}, ("passes[0]: field 'ms'",)),
        ({"runs": [{"drafter": "d", "where": "a", "per_position_acceptance_rate": [0.5, 0.6]}]},
         ("runs[0]", "given 0.6, allowed: 0..0.5")),
        ({"ignored": "x"}, ("field 'ignored'", "a list of texts")),
    ],
)  # fmt: skip
def test_damaged_own_file(tmp_path, change, parts):
    path = tmp_path / "measurement.json"
    data = {"schema_version": 1, "content": "draftscope measurement", **dataclasses.asdict(whole()), **change}
    path.write_text(json.dumps(data, indent=1))
    with pytest.raises((MeasurementError, UnknownNameError)) as caught:
        read_observations(path)
    message = str(caught.value)
    assert all(part in message for part in (str(path), *parts)), message


def test_nothing_is_written_where_it_cannot_be(tmp_path):
    with pytest.raises(MeasurementError, match="is a folder"):
        write_observations(tmp_path, whole())


@pytest.mark.parametrize(
    "values",
    [
        {"seconds": float("nan")}, {"seconds": 0}, {"seconds": float("inf")}, {"width": 0.5}, {"context": -1},
        {"stderr_s": -1}, {"passes": 0},
    ],
)  # fmt: skip
def test_a_pass_cannot_hold_nonsense(values):
    with pytest.raises(MeasurementError, match=f"here: {next(iter(values))}: given"):
        PassTime(**{"width": 1, "context": 0, "seconds": 1, "where": "here", **values})


def test_unknown_files(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("it felt fast")
    refused(path, "no known tool", "llama_bench", "generic_csv")
    path.write_bytes(b"")
    refused(path, "is empty")
    path.write_bytes(b"\xff\xfe{\n\xff")
    refused(path, "no known tool")
    refused(path, ":1: is not UTF-8 text", format="mlx")
    refused(tmp_path / "absent", "no such file")
    refused(tmp_path, "is a folder")
    with pytest.raises(UnknownNameError, match="Did you mean 'llama_bench'"):
        read_observations(path, "lama_bench")


def test_a_file_without_a_measurement(tmp_path):
    path = tmp_path / "bench.jsonl"
    line = (SAMPLES / "llama_bench_widths.jsonl").read_text().splitlines()[-1]
    path.write_text(line)
    refused(path, "no measurement", "prompt and generation share one time")


def test_columns_and_formats_are_documented(repo_root):
    page = (repo_root / "docs/reference/file_formats.md").read_text()
    section = page.partition("## Measurement files")[2].partition("\n## ")[0]
    for name in (*COLUMNS, *FORMATS):
        assert f"`{name}`" in section, name


def test_the_documented_table_is_read(repo_root, tmp_path):
    page = (repo_root / "docs/reference/file_formats.md").read_text()
    table = page.partition("```\nkind,")[2].partition("```")[0]
    path = tmp_path / "my.csv"
    path.write_text("kind," + table)
    found = read_observations(path)
    assert (found.device, found.model) == ("my_phone", "gemma_4_e2b")
    assert [one.seconds for one in found.passes] == pytest.approx([14.5e-3, 86.8e-3])
