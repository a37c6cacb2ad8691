"""Result: what it writes, what it refuses, and the metric registry."""

import json
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from simulator.errors import DraftscopeError, UnknownNameError
from simulator.results import KINDS, METRICS, Result, StepRecord, digest_of, metric, weakest_kind

RESULT = Result(
    inputs={"device": "pixel_9", "drafter": "mtp_head", "draft_length": 4, "task": None},
    metrics={"speedup": 1.5, "decode_tokens_per_s": 30.0},
    byte_ledger={"layers": 2e8, "kv_cache": 1e6},
    ram_ledger={"target_weights": 8e8},
    energy_ledger={"rail": {"dram": 1.0}, "phase": {"verify": 1.0}, "rejected_share": 0.1},
    intervals={"speedup": (1.2, 1.8)},
    confidence="derived",
    references=("a_paper",),
    inputs_digest="00",
    version="0",
    notes=("A note.",),
    steps=(StepRecord(0, 0, 10, 4, 2, 3, 0.0, 0.1, 0.2, 0.0),),
)


def test_result_is_frozen_and_indexable():
    assert RESULT["speedup"] == 1.5
    with pytest.raises(FrozenInstanceError):
        RESULT.seed = 1
    with pytest.raises(UnknownNameError, match="speedup"):
        RESULT["speedupp"]


def test_json_holds_everything_but_the_steps(tmp_path):
    path = tmp_path / "result.json"
    text = RESULT.to_json(path)
    assert path.read_text() == text
    assert list(tmp_path.iterdir()) == [path]
    loaded = json.loads(text)
    assert loaded["metrics"]["speedup"] == 1.5
    assert loaded["intervals"]["speedup"] == [1.2, 1.8]
    assert "steps" not in loaded


def test_not_a_number_becomes_null_in_json():
    odd = replace(
        RESULT, metrics={"speedup": float("nan"), "ttft_s": np.float64("inf"), "steps": np.int64(3)}
    )
    assert json.loads(odd.to_json())["metrics"] == {"speedup": None, "ttft_s": None, "steps": 3}


def test_markdown_shows_value_unit_and_interval():
    text = RESULT.to_markdown()
    assert "|speedup|1.50|x|1.20to1.80|" in text.replace(" ", "")
    assert "Confidence: derived. Sources: a_paper." in text
    assert "- A note." in text


def test_markdown_is_in_units_to_read():
    """Units stand beside the numbers or in the head; an interval is in the unit of its value."""
    metrics = {"ttft_s": 0.157, "energy_per_token_j": 0.0754, "peak_ram_bytes": 7.983e8,
               "bytes_per_token": 4.6e8}  # fmt: skip
    seen = replace(RESULT, metrics=metrics, intervals={"ttft_s": (0.109, 1.2)}, energy_ledger={
        "rail": {"dram": 0.7278, "host": 0.02091}, "phase": {"draft": 0.0}, "rejected_share": 0.1,
    })  # fmt: skip
    text = seen.to_markdown().replace(" ", "")
    for row in (
        "|timetofirsttoken|157|ms|109to1,200|", "|energypertoken|75.4|mJ/token||", "|peakRAM|761|MiB||",
        "|bytespertoken|460|MB/token||", "|bytespertoken|MB/token|", "|layers|200|", "|kv_cache|1.00|",
        "|RAM|MiB|", "|target_weights|763|", "|energyofaresponsebyrail|mJ|", "|dram|728|", "|host|20.9|",
        "|energyofaresponsebyphase|J|", "|draft|0|", "|task|-|",
    ):  # fmt: skip
        assert row in text
    assert "e+" not in text


def test_markdown_of_many_designs_gives_their_range():
    many = replace(RESULT, metrics={"ttft_s": np.array([0.05, 0.2])}, intervals={})
    assert "| 2 values, 50.0 to 200 | ms" in many.to_markdown()


def test_parquet_has_one_row_a_design(tmp_path):
    path = tmp_path / "result.parquet"
    many = replace(RESULT, metrics={"speedup": np.array([1.0, 2.0]), "ttft_s": 0.5}, intervals={})
    many.to_parquet(path)
    table = pq.read_table(path)
    assert table["speedup"].to_pylist() == [1.0, 2.0]
    assert table["ttft_s"].to_pylist() == [0.5, 0.5]
    assert table["bytes.layers"].to_pylist() == [2e8, 2e8]
    extra = json.loads(table.schema.metadata[b"draftscope"])
    assert extra["references"] == ["a_paper"]
    assert list(tmp_path.iterdir()) == [path]


def test_failed_write_leaves_no_file(tmp_path):
    with pytest.raises(DraftscopeError, match="there is no folder"):
        RESULT.to_json(tmp_path / "missing" / "result.json")
    assert list(tmp_path.iterdir()) == []


def test_registry_names_units_and_nearest():
    assert set(RESULT.metrics) <= set(METRICS)
    for name, each in METRICS.items():
        assert each.name == name and each.label and each.description.endswith(".")
        assert each.better in ("higher", "lower", "")
    suffixes = {"_s": "s", "_w": "W", "_bytes": "B", "_tokens_per_s": "tok/s"}
    for name, each in METRICS.items():
        ending = next((unit for suffix, unit in suffixes.items() if name.endswith(suffix)), None)
        if name.endswith("_per_s"):
            assert each.unit == "tok/s"
        elif ending is not None:
            assert each.unit == ending
    with pytest.raises(UnknownNameError, match="ttft_s"):
        metric("ttft")


def test_weakest_kind_is_the_last_of_the_order():
    assert weakest_kind([]) == KINDS[0] == "published"
    assert weakest_kind(["measured", "published"]) == "measured"
    assert weakest_kind(["derived", "assumed", "published"]) == "assumed"


def test_digest_depends_on_values_not_on_order_or_type():
    one = digest_of({"a": 1.5, "b": [1, 2], "c": np.array([1, 2])})
    assert one == digest_of({"c": [1, 2], "b": (1, 2), "a": np.float64(1.5)})
    assert one != digest_of({"a": 1.5, "b": [1, 3], "c": [1, 2]})
    assert len(one) == 64
