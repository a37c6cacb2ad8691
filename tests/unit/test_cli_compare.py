"""``draftscope compare`` and ``claims``: tables, formats, errors."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from simulator.drafters import build_drafter
from simulator.specs import load_target
from simulator.studies.claims import COLUMNS as CLAIM_COLUMNS
from simulator.studies.rows import COLUMNS
from tests.study_samples import write_sample

QUICK = ("--no-intervals", "--draft-length", "2")


def test_two_labelled_blocks(draftscope, shipped):
    ran = draftscope("compare", "--device", "pixel_9", *QUICK)
    assert ran.code == 0
    assert ran.err == ""
    first, second = (ran.out.index(f"# Block {n}:") for n in (1, 2))
    assert first < ran.out.index("smollm2_mtp_head") < second < ran.out.index("gemma_4_e4b_assistant")
    assert "measured here" in ran.out[:second]
    assert "as published" in ran.out[second:]
    assert "cost only" in ran.out[second:]
    assert "Fastest: " in ran.out


def test_json_schema_is_stable(draftscope, shipped):
    ran = draftscope("compare", "--device", "pixel_9", *QUICK, "-o", "json")
    document = json.loads(ran.out)
    assert list(document) == ["command", "version", "rows", "notes"]
    assert document["command"] == "compare"
    assert all(tuple(row) == COLUMNS for row in document["rows"])
    assert {row["block"] for row in document["rows"]} == {"traced", "published"}


def test_formats_hold_the_same_rows(draftscope, shipped):
    arguments = ("compare", "--drafters", "mtp_head", *QUICK)
    whole = json.loads(draftscope(*arguments, "-o", "json").out)["rows"]
    lines = [json.loads(line) for line in draftscope(*arguments, "-o", "jsonl").out.splitlines()]
    cells = list(csv.DictReader(io.StringIO(draftscope(*arguments, "-o", "csv").out)))
    assert lines == whole
    assert (
        [row["drafter"] for row in cells] == [row["drafter"] for row in whole] == ["none", "smollm2_mtp_head"]
    )


def test_notes_go_to_stderr_beside_data(draftscope, nothing_shipped):
    ran = draftscope("compare", "--target", "smollm2_135m", *QUICK, "-o", "csv")
    assert "No acceptance trace" not in ran.out
    assert "note: No acceptance trace on smollm2_135m" in ran.err


def test_out_writes_a_file(draftscope, shipped, tmp_path):
    path = tmp_path / "rows.jsonl"
    ran = draftscope("compare", "--drafters", "mtp_head", *QUICK, "-o", "jsonl", "--out", path)
    assert ran.out == ""
    assert f"wrote {path}" in ran.err
    assert len(path.read_text().splitlines()) == 2


def test_detail_and_every_length(draftscope, shipped):
    rows = json.loads(draftscope("compare", "--drafters", "mtp_head", *QUICK, "--detail", "-o", "json").out)[
        "rows"
    ]
    assert len({row["task"] for row in rows}) > 3
    rows = json.loads(
        draftscope(
            "compare",
            "--drafters",
            "ngram",
            "--target",
            "smollm2_135m",
            "--no-intervals",
            "--draft-length",
            "1,3",
            "--every-length",
            "-o",
            "json",
        ).out
    )["rows"]
    assert [row["draft_length"] for row in rows] == [0, 1, 3]


def test_lists_of_devices_and_batches(draftscope, shipped):
    rows = json.loads(
        draftscope(
            "compare",
            "--device",
            "pixel_9,pixel_10",
            "--batch",
            "1,64",
            "--drafters",
            "mtp_head",
            *QUICK,
            "-o",
            "json",
        ).out
    )["rows"]
    places = [(row["device"], row["batch"]) for row in rows if row["drafter"] != "none"]
    assert places == [("pixel_9", 1), ("pixel_9", 64), ("pixel_10", 1), ("pixel_10", 64)]


def test_set_overrides_an_input(draftscope, shipped):
    def speed(*more: str) -> float:
        ran = draftscope("compare", "--drafters", "mtp_head", *QUICK, "-o", "json", *more)
        return json.loads(ran.out)["rows"][0]["decode_tokens_per_s"]

    assert speed("--set", "device.dram.peak_bandwidth_bytes_per_s=120e9") > 1.2 * speed()


def test_transfer_labels_rows(draftscope, shipped, sample_folder):
    file = shipped / "mtp_head.parquet"
    arguments = ("compare", "--target", "gemma_4_e2b", "--drafters", "gemma_4_e2b_assistant", *QUICK)
    refused = draftscope(*arguments, "--acceptance-trace", file)
    assert refused.code == 2
    assert "--transfer" in refused.err
    rows = json.loads(draftscope(*arguments, "--acceptance-trace", shipped, "--transfer", "-o", "json").out)[
        "rows"
    ]
    assert {row["acceptance_kind"] for row in rows if row["acceptance"]} == {"assumed"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--device", "pixel9"), ("device", "'pixel_9'")),
        (("--device", ""), ("--device", "one or more names")),
        (("--drafters", "mtp_hed"), ("drafter", "'mtp_head'")),
        (("--tasks", "cod"), ("tasks", "'code'")),
        (("--runtime", "idea"), ("runtime", "'ideal'")),
        (("--runtime", "ideal", "--engine", "npu"), ("engine", "cpu")),
        (("--target", "gemma_4_e2"), ("target", "'gemma_4_e2b'")),
        (("--draft-length", "0"), ("--draft-length", ">= 1")),
        (("--draft-length", "x"), ("--draft-length", "1-8")),
        (("--batch", "0"), ("--batch", ">= 1")),
        (("--max-overlap", "2"), ("--max-overlap", "<= 1")),
        (("--min-prob", "-1"), ("--min-prob", ">= 0")),
        (("--prompt-tokens", "nan"), ("--prompt-tokens", "number >= 1")),
        (("--set", "mbu_larg=1"), ("--set", "'mbu_large'")),
        (("--set", "mbu_large=x"), ("--set mbu_large", "number")),
        (("--acceptance-trace", "missing.parquet"), ("missing.parquet", "no such file")),
        (("-o", "xml"), ("--output", "'md'")),
        (("--devise", "pixel_9"), ("--devise", "--device")),
    ],
    ids=lambda value: " ".join(value),
)
def test_bad_input_is_one_clear_error(draftscope, shipped, arguments, words):
    ran = draftscope("compare", *arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("error: ")
    assert len(ran.err.splitlines()) == 1
    for word in words:
        assert word in ran.err


def test_damaged_traces_are_one_clear_error(draftscope, tmp_path):
    good = write_sample(tmp_path, "ngram").read_bytes()
    for name, content in (("empty", b""), ("cut", good[: len(good) // 2]), ("other", b"PAR1 nonsense")):
        path = tmp_path / f"{name}.parquet"
        path.write_bytes(content)
        ran = draftscope("compare", "--acceptance-trace", path)
        assert ran.code == 2
        assert str(path) in ran.err
        assert "Traceback" not in ran.err


def test_claims_table_and_json(draftscope, nothing_shipped):
    ran = draftscope("claims")
    assert ran.code == 0
    for number in range(1, 10):
        assert f"## {number}. " in ran.out
    rows = json.loads(draftscope("claims", "-o", "json").out)["rows"]
    assert all(tuple(row) == CLAIM_COLUMNS for row in rows)


def test_claims_errors(draftscope, tmp_path):
    path = write_sample(tmp_path, "ngram", target="gemma_4_e2b")
    ran = draftscope("claims", "--acceptance-trace", path)
    assert ran.code == 2
    assert "smollm2_135m" in ran.err
    assert draftscope("claims", "--device", "pixel_99").code == 2


def test_builds_keep_their_own_numbers(draftscope, shipped, tmp_path):
    """``id@scheme`` and a file with a shipped id are costed as asked for, not as the shipped default."""
    import simulator.specs.load as load

    own = tmp_path / "gemma_3_1b.toml"
    text = (load.MODELS / "gemma_3_1b.toml").read_text()
    own.write_text(re.sub(r"(?m)^default_quant = .*$", 'default_quant = "f32"', text))
    targets = ("gemma_3_1b", "gemma_3_1b@bf16", "gemma_3_1b@int8", str(own))
    asked = ("--device", "pixel_10", "--prompt-tokens", "64", "--output-tokens", "16")

    def found(command: str, *more: str) -> list[dict]:
        ran = draftscope(command, *asked, "--target", ",".join(targets), *more, "-o", "json")
        assert ran.code == 0, ran.err
        return json.loads(ran.out)["rows"]

    wanted = [load_target(name).resident_bytes() for name in targets]
    assert len(set(wanted)) == 4
    closed, engine = found("predict", "--no-intervals"), found("simulate", "--replications", "2")
    for row, size in zip(closed, wanted, strict=True):
        assert row["ram_ledger"]["target_weights"] == pytest.approx(size)
    assert [row["inputs"]["target"] for row in closed[:3]] == list(targets[:3])
    assert [row["metrics"]["peak_ram_bytes"] for row in engine] == pytest.approx(
        [row["metrics"]["peak_ram_bytes"] for row in closed]
    )
    plain = [row for row in found("compare", *QUICK) if row["drafter"] == "none"]
    assert [row["target"] for row in plain[:3]] == list(targets[:3])
    assert [row["peak_ram_bytes"] for row in plain] == pytest.approx(
        [row["metrics"]["peak_ram_bytes"] for row in closed]
    )


def test_drafter_builds_and_files_keep_their_own_numbers(draftscope, shipped, tmp_path):
    from simulator.drafters import DATA

    own = tmp_path / "gemma_4_e2b_assistant.toml"
    text = (DATA / own.name).read_text()
    own.write_text(re.sub(r"(?m)^quant = .*$", 'quant = "f32"', text))
    names = ("gemma_4_e2b_assistant", "gemma_4_e2b_assistant@bf16", "gemma_4_e2b_assistant@int4", str(own))
    arguments = ("--device", "pixel_10", "--target", "gemma_4_e2b", "--prompt-tokens", "64",
                 "--output-tokens", "16", "-o", "json", "--draft-length", "3")  # fmt: skip
    closed = json.loads(
        draftscope("predict", *arguments, "--drafter", ",".join(names), "--acceptance-rate", "0.5").out
    )["rows"]
    compared = json.loads(draftscope("compare", *arguments, "--drafters", ",".join(names)).out)["rows"]
    expected = [build_drafter(name, load_target("gemma_4_e2b")).resident_bytes for name in names]
    assert len(set(expected)) == 4
    for row, size in zip(closed, expected, strict=True):
        parts = {key: value for key, value in row["ram_ledger"].items() if key.startswith("drafter_")}
        assert sum(parts.values()) >= size
        assert sum(parts.values()) == pytest.approx(size, rel=0.2)
    assert [row["inputs"]["drafter"] for row in closed[:3]] == list(names[:3])
    rams = {row["peak_ram_bytes"] for row in compared if row["drafter"] != "none"}
    assert len(rams) == 4
    assert set(names[:3]) <= {row["drafter"] for row in compared}


def test_device_and_runtime_files_are_the_files(draftscope, shipped, tmp_path):
    import hw_profiles

    root = Path(hw_profiles.__file__).parent
    arguments = ("--drafters", "mtp_head", *QUICK, "-o", "json")

    def speed(*more: str) -> float:
        ran = draftscope("compare", *arguments, *more)
        assert ran.code == 0, ran.err
        return json.loads(ran.out)["rows"][0]["decode_tokens_per_s"]

    runtime = hw_profiles.load_device("pixel_9").default_runtime
    copy = tmp_path / f"{runtime}.toml"
    text = next(root.rglob(copy.name)).read_text()
    head, mark, tail = text.partition("[mbu_small]")
    assert mark
    copy.write_text(head + mark + re.sub(r"value = [\d.e+-]+", "value = 0.01", tail, count=1))
    try:
        changed = speed("--runtime", str(copy))
    except AssertionError as error:
        assert "mbu_small" in str(error)
    else:
        assert changed < 0.9 * speed()
