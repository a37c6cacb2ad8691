"""LiteRT-LM: text of its programs and the metrics proto, by hand, and what is refused."""

from __future__ import annotations

import struct

import pytest

from simulator.adapters.observations import read_observations
from tests.adapter_samples import SAMPLES, changed, cut, read, refused


def test_benchmark_info():
    found = read("litert_lm_info.log")
    (prefill,), (plain,) = found.prefills, found.passes
    assert (prefill.tokens, prefill.seconds) == (18, pytest.approx(0.09241119))
    assert (plain.width, plain.passes, plain.context) == (1, 115, 18 + 57)
    assert plain.seconds == pytest.approx(3.86435584 / 115)


def test_a_drafter_that_speaks_up_makes_it_a_run():
    found = read("litert_lm_mtp.log")
    assert not found.passes
    (run,) = found.runs
    assert (run.drafted_tokens, run.accepted_tokens, run.output_tokens) == (315, 138, 244)
    assert (run.steps, run.decode_s) == (106, 16.85)


def test_a_rate_alone_gives_no_counts(tmp_path):
    path = changed(
        tmp_path, "litert_lm_mtp.log", ("Num drafted tokens: 315", ""), ("Num verified tokens: 138", "")
    )
    found = read_observations(path)
    assert found.runs[0].accepted_tokens is None
    assert any("0.438095" in reason for reason in found.ignored)


def test_command():
    found = read("litert_lm_command.txt")
    assert (found.model, found.runtime) == ("gemma-4-E4B-it.litertlm", "LiteRT-LM cpu")
    assert found.passes[0].seconds == pytest.approx(1 / 6.28)
    assert found.passes[0].context == 256 + 255 / 2
    assert found.prefills[0].seconds == pytest.approx(256 / 31.03)


@pytest.mark.parametrize(("said", "passes", "runs"), [("true", 0, 1), ("auto", 0, 0), ("false", 1, 0)])
def test_speculative_decoding_of_the_command(tmp_path, said, passes, runs):
    path = changed(
        tmp_path,
        "litert_lm_command.txt",
        ("Speculative decoding       : false", f"Speculative decoding : {said}"),
    )
    found = read_observations(path)
    assert (len(found.passes), len(found.runs)) == (passes, runs)


def test_proto_binary_and_text_say_the_same():
    binary, text = read("litert_lm_metrics.pb"), read("litert_lm_metrics.pb.txt")
    for found in (binary, text):
        assert [one.tokens for one in found.prefills] == [1024, 1024]
        assert found.prefills[0].seconds == pytest.approx(0.299687)
        assert found.passes[0].seconds == pytest.approx(5.635043 / 256)
        # the second iteration has rates only
        assert found.passes[1].seconds == pytest.approx(1 / 33.85)
        assert [one.context for one in found.passes] == [1024 + 255 / 2] * 2
    assert [one.seconds for one in binary.passes] == [one.seconds for one in text.passes]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1.2s", 1.2), ("764.48ms", 0.76448), ("1m2.5s", 62.5), ("512us", 5.12e-4), ("1h0m1s", 3601)],
)
def test_durations(tmp_path, text, seconds):
    speed = f"{18 / seconds:.2f}"
    path = changed(tmp_path, "litert_lm_info.log", ("92.41119ms", text), ("194.78", speed))
    assert read_observations(path).prefills[0].seconds == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("name", "old", "new", "parts"),
    [
        ("litert_lm_info.log", "92.41119ms", "92.41119", (":10: field 'duration'", "764.48ms")),
        ("litert_lm_info.log", "92.41119ms", "92.41119s", (":11: field 'Prefill Speed'", "another unit")),
        ("litert_lm_info.log", "92.41119ms", "-92.41119ms", (":10: field 'duration'",)),
        (
            "litert_lm_info.log",
            "29.76 tokens/sec",
            "29.76 ms/token",
            (":15: field 'Decode Speed'", "tokens/sec"),
        ),
        ("litert_lm_info.log", "194.78", "nan", (":11: field 'Prefill Speed'", "'nan'")),
        ("litert_lm_info.log", "Processed 115 tokens", "Processed 0 tokens", (":14: field 'Decode Turn'",)),
        ("litert_lm_mtp.log", "rate: 0.438095", "rate: 1.438095", (":17: field 'Success rate'", "0..1")),
        ("litert_lm_mtp.log", "verified tokens: 138", "verified tokens: 938", ("accepted_tokens", "at most")),
        ("litert_lm_command.txt", "6.28 tokens/s", "6.28 ms", (":10: field 'Decode speed'", "'tokens/s'")),
        (
            "litert_lm_command.txt",
            "Number of tokens in decode : 256\n",
            "",
            ("tokens in decode' is missing",),
        ),
        (
            "litert_lm_command.txt",
            "Decode speed:         6.28",
            "Decode speed:         -6.28",
            (":10:", "> 0"),
        ),
        (
            "litert_lm_metrics.pb.txt",
            "num_tokens: 1024",
            "num_token: 1024",
            (":12: field 'num_token'", "num_tokens"),
        ),
        (
            "litert_lm_metrics.pb.txt",
            "duration_us: 5635043",
            "duration_us: 5635",
            (":18: field", "another unit"),
        ),
        (
            "litert_lm_metrics.pb.txt",
            "tokens_per_second: 33.85",
            "tokens_per_second: nan",
            (":32: field", "'nan'"),
        ),
        ("litert_lm_metrics.pb.txt", "  }\n  time_to", "  time_to", ("is not closed", "truncated")),
    ],
)
def test_damaged(tmp_path, name, old, new, parts):
    refused(changed(tmp_path, name, (old, new)), *parts)


def test_two_models(tmp_path):
    path = changed(
        tmp_path, "litert_lm_command.txt", ("Backend ", "Benchmarking model: other.litertlm (x)\nBackend ")
    )
    refused(path, ":2: field 'model'", "one model a file")


def test_truncated(tmp_path):
    refused(cut(tmp_path, "litert_lm_info.log", "      Decode Speed"), "'Decode Speed' is missing")
    refused(cut(tmp_path, "litert_lm_command.txt", "Decode speed"), "'Decode speed' is missing")
    data = (SAMPLES / "litert_lm_metrics.pb").read_bytes()
    for length in range(2, len(data)):
        path = tmp_path / "cut.pb"
        path.write_bytes(data[:length])
        if length == 80:  # the first message ends here
            assert len(read_observations(path).passes) == 1
        else:
            refused(path, "byte", format="litert_lm")


def test_damaged_proto(tmp_path):
    data = (SAMPLES / "litert_lm_metrics.pb").read_bytes()
    rate = struct.pack("<d", 45.43)
    for value, part in ((float("nan"), "nan"), (-45.43, "-45.43"), (4.5, "another unit")):
        path = tmp_path / "rate.pb"
        path.write_bytes(data.replace(rate, struct.pack("<d", value)))
        refused(path, "byte 47", "'tokens_per_second'", part)
    path.write_bytes(b"\x12" + data[1:])
    refused(path, "not", format="litert_lm")
