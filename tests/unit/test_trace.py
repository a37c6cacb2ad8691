"""Trace files: round trip, every check with its message, atomic writing, shipped files."""

from __future__ import annotations

import errno
import resource

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from simulator.acceptance import trace as trace_module
from simulator.acceptance.schema import COLUMNS, TraceError, TraceMetadata, trace_from_columns
from simulator.acceptance.trace import (
    read_trace,
    write_trace,
)
from simulator.errors import UnknownNameError
from tests.trace_samples import columns, metadata, random_trace


@pytest.fixture
def sample(rng):
    return columns(rng, [5, 1, 7], depth=8, short_proposals=True)


@pytest.fixture
def written(sample, tmp_path):
    path = tmp_path / "toy_target" / "toy_head.parquet"
    write_trace(path, sample, metadata(8))
    return path


def test_round_trip(sample, written):
    trace = read_trace(written)
    assert trace.metadata == metadata(8)
    assert (trace.n_requests, trace.n_rows, trace.tasks) == (3, 13, ("code", "chat"))
    assert trace.request_ids == ("r0", "r1", "r2")
    assert trace.start.tolist() == [0, 5, 6, 13]
    assert trace.remaining.tolist() == [4, 3, 2, 1, 0, 0, 6, 5, 4, 3, 2, 1, 0]
    for name in COLUMNS[2:-1]:
        np.testing.assert_array_equal(trace[name], sample[name], err_msg=name)
    np.testing.assert_allclose(trace.train_overlap, [0, 0.1, 0.2])


def test_confidence_survives_storage_unrounded(sample, written):
    """A confidence stop compares with a threshold: float16 would move drafts across it."""
    np.testing.assert_array_equal(read_trace(written)["draft_top1_prob"], sample["draft_top1_prob"])


def test_arrays_are_read_only(written):
    with pytest.raises(ValueError, match="read-only"):
        read_trace(written)["token"][0] = 1


def test_unknown_column_asked_for_offers_the_nearest(written):
    with pytest.raises(UnknownNameError, match="Did you mean 'draft_token'"):
        read_trace(written)["draft_tokens"]


def test_metadata_has_the_keys_of_the_contract(written):
    import json

    stored = json.loads(pq.read_schema(written).metadata[b"draftscope"])
    assert set(stored) == {
        "schema_version",
        "target",
        "drafter",
        "dtype",
        "max_depth",
        "task_set",
        "date",
        "note",
    }
    assert set(stored["target"]) == {"id", "sha256"}
    assert set(stored["drafter"]) == {"id", "family", "sha256", "params"}


def test_filtered_by_overlap_and_task(rng):
    trace = random_trace(rng, [3, 4, 5, 6, 2])  # overlaps 0, .1, .2, .3, 0
    kept = trace.filtered()
    assert kept.request_ids == ("r0", "r1", "r2", "r4")
    np.testing.assert_array_equal(kept["token"][-2:], trace["token"][-2:])
    assert trace.filtered(max_overlap=None) is trace
    assert trace.filtered(tasks=["code"]).request_ids == ("r0", "r2", "r4")
    assert trace.filtered(max_overlap=0.0, tasks=["chat"]).n_rows == 0
    with pytest.raises(UnknownNameError, match="Did you mean 'code'"):
        trace.filtered(tasks=["cod"])
    with pytest.raises(TraceError, match=r"max_overlap: given nan"):
        trace.filtered(max_overlap=float("nan"))


# ------------------------------------------------------------------------------------------ bad files
def test_missing_file(tmp_path):
    with pytest.raises(TraceError, match="no such file"):
        read_trace(tmp_path / "none.parquet")


def test_empty_file(tmp_path):
    path = tmp_path / "empty.parquet"
    path.touch()
    with pytest.raises(TraceError, match=r"empty\.parquet: the file is empty"):
        read_trace(path)


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9, 0.99])
def test_truncated_file(written, kept):
    data = written.read_bytes()
    written.write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(
        TraceError, match=r"toy_head\.parquet: not a readable Parquet file \(truncated or damaged\)"
    ):
        read_trace(written)


def test_damaged_pages(written):
    data = bytearray(written.read_bytes())
    data[4:400] = bytes(396)
    written.write_bytes(bytes(data))
    with pytest.raises(TraceError, match="not a readable Parquet file"):
        read_trace(written)


def test_foreign_parquet(tmp_path):
    path = tmp_path / "other.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(TraceError, match="no metadata key 'draftscope'"):
        read_trace(path)


def rewrite(path, change=lambda table: table, **meta):
    import json

    table = pq.read_table(path)
    stored = {**json.loads(table.schema.metadata[b"draftscope"]), **meta}
    text = json.dumps({key: value for key, value in stored.items() if value is not None})
    pq.write_table(change(table).replace_schema_metadata({"draftscope": text}), path)


def test_other_schema_version(written):
    rewrite(written, schema_version=2)
    with pytest.raises(TraceError, match="schema_version 2, allowed: 1"):
        read_trace(written)


def test_incomplete_metadata(written):
    rewrite(written, target=None)
    with pytest.raises(TraceError, match="metadata key 'draftscope' is incomplete: 'target'"):
        read_trace(written)


def test_metadata_that_is_not_json():
    with pytest.raises(TraceError, match="not JSON"):
        TraceMetadata.from_json("{", "x.parquet")


def test_depth_mismatch(written):
    rewrite(written, max_depth=4)
    with pytest.raises(
        TraceError, match=r"column 'draft_token': shape \(13, 8\), allowed: \(13, 4\) \(max_depth 4"
    ):
        read_trace(written)


def test_missing_and_unknown_column(written):
    rewrite(written, lambda table: table.drop_columns(["rank"]))
    with pytest.raises(TraceError, match="column 'rank' is missing"):
        read_trace(written)
    rewrite(
        written,
        lambda table: table.rename_columns([{"token": "tokens"}.get(n, n) for n in table.column_names]),
    )
    with pytest.raises(TraceError, match="unknown column 'tokens'; nearest: 'token'"):
        read_trace(written)


def test_wrong_type(written):
    def as_text(table):
        return table.set_column(
            table.schema.get_field_index("token"), "token", table["token"].cast(pa.string())
        )

    rewrite(written, as_text)
    with pytest.raises(TraceError, match="column 'token': type <U"):
        read_trace(written)


def test_null(written):
    def with_null(table):
        values = [None, *table["token"].to_pylist()[1:]]
        return table.set_column(table.schema.get_field_index("token"), "token", pa.array(values, pa.int32()))

    rewrite(written, with_null)
    with pytest.raises(TraceError, match="column 'token', row 0: missing value"):
        read_trace(written)


def test_no_rows(written):
    rewrite(written, lambda table: table.slice(0, 0))
    with pytest.raises(TraceError, match=r"empty \(no rows\)"):
        read_trace(written)


# ----------------------------------------------------------------------------------------- bad values
def put(name, index, value):
    def change(sample):
        sample[name][index] = value

    return change


# 13 rows: requests of 5, 1 and 7 tokens; row 6 opens the third request, with all 8 drafts
BAD_VALUES = {
    "negative token": (put("token", 3, -5), r"column 'token', row 3, request 'r0': given -5, allowed: >= 0"),
    "unsorted positions": (put("position", 2, 7), r"column 'position', row 2, .* given 7, allowed: 0, 1, 2"),
    "context jumps": (
        put("context_length", 8, 99),
        r"column 'context_length', row 8, request 'r2': given 99",
    ),
    "negative context": (put("context_length", 0, -1), r"column 'context_length', row 0, .* allowed: >= 0"),
    "task changes": (put("task", 1, "chat"), r"column 'task', row 1, .* given chat, allowed: one task"),
    "too many drafts": (put("proposed", 0, 9), r"column 'proposed', row 0, .* given 9, allowed: 0..8"),
    "drafts in a last row": (
        put("proposed", 4, 1),
        r"column 'proposed', row 4, .* allowed: 0 in the last row",
    ),
    "missing draft": (
        put("draft_token", (6, 1), -1),
        r"column 'draft_token', row 6, depth 2, .* given -1, allowed: >= 0",
    ),
    "draft without proposal": (
        put("draft_token", (5, 3), 1),
        r"column 'draft_token', row 5, depth 4, .* given 1, allowed: -1",
    ),
    "NaN confidence": (
        put("draft_top1_prob", (6, 0), np.nan),
        r"column 'draft_top1_prob', row 6, depth 1, .* given nan",
    ),
    "confidence without draft": (
        put("draft_top1_prob", (5, 0), 0.5),
        r"column 'draft_top1_prob', row 5, depth 1, .* NaN beyond",
    ),
    "rank": (put("rank", (6, 0), -2), r"column 'rank', row 6, depth 1, .* given -2, allowed: >= -1"),
    "rank beyond the end": (put("rank", (11, 1), 0), r"column 'rank', row 11, depth 2, .* -1 beyond the end"),
    "probability": (
        put("draft_prob", (6, 0), 1.5),
        r"column 'draft_prob', row 6, depth 1, .* given 1.5, allowed: 0..1",
    ),
    "NaN draft_prob": (put("draft_prob", (6, 0), np.nan), r"column 'draft_prob', row 6, .* given nan"),
    "draft_prob without rank": (
        put("draft_prob", (5, 0), 0.5),
        r"column 'draft_prob', row 5, .* 0 where rank is -1",
    ),
    "NaN target_prob": (
        put("target_prob_of_draft", (6, 0), np.nan),
        r"column 'target_prob_of_draft', row 6, depth 1",
    ),
    "NaN top-1": (
        put("target_top1_prob", 6, np.nan),
        r"column 'target_top1_prob', row 6, .* NaN only in a last row",
    ),
    "negative entropy": (put("target_entropy", 6, -0.1), r"column 'target_entropy', row 6, .* given -0.1"),
    "infinite entropy": (put("target_entropy", 6, np.inf), r"column 'target_entropy', row 6, .* finite"),
    "overlap": (put("train_overlap", slice(0, 5), 1.2), r"column 'train_overlap', row 0, .* allowed: 0..1"),
    "overlap changes": (
        put("train_overlap", 1, 0.4),
        r"column 'train_overlap', row 1, .* one value for all rows",
    ),
}


@pytest.fixture
def full_sample(rng):
    return columns(rng, [5, 1, 7], depth=8)


@pytest.mark.parametrize("case", BAD_VALUES)
def test_bad_values_name_file_column_and_row(case, full_sample):
    change, message = BAD_VALUES[case]
    change(full_sample)
    with pytest.raises(TraceError, match=r"bad\.parquet: " + message):
        trace_from_columns(full_sample, metadata(8), "bad.parquet")


def test_requests_must_be_contiguous(full_sample):
    full_sample["request_id"][6:] = "r0"
    with pytest.raises(
        TraceError, match="column 'request_id', row 6: rows of request 'r0' are not contiguous"
    ):
        trace_from_columns(full_sample, metadata(8))


def test_floats_are_no_tokens_and_tokens_must_fit(full_sample):
    with pytest.raises(TraceError, match="column 'token': type float64, allowed: integers"):
        trace_from_columns({**full_sample, "token": full_sample["token"] * 1.0}, metadata(8))
    with pytest.raises(TraceError, match="column 'token': a value does not fit int32"):
        trace_from_columns(
            {**full_sample, "token": full_sample["token"].astype(np.int64) + 2**40}, metadata(8)
        )


# ------------------------------------------------------------------------------------- atomic writing
def test_bad_columns_write_nothing(full_sample, tmp_path):
    full_sample["token"][0] = -1
    with pytest.raises(TraceError, match="column 'token', row 0"):
        write_trace(tmp_path / "t.parquet", full_sample, metadata(8))
    assert list(tmp_path.iterdir()) == []


def test_full_disk_leaves_the_old_file_and_no_temporary(written, full_sample, monkeypatch):
    before = written.read_bytes()

    def full(_table, where, **_options):
        where.write_bytes(b"half a file")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(trace_module.write_table.__globals__["pq"], "write_table", full)
    with pytest.raises(
        TraceError, match=r"could not be written, nothing was changed: .*No space left on device"
    ):
        write_trace(written, full_sample, metadata(8))
    assert written.read_bytes() == before
    assert list(written.parent.iterdir()) == [written]


def test_file_size_limit_of_the_system(rng, tmp_path):
    """A real failing write, not a simulated one: the process may write at most 4 KiB to a file."""
    big = columns(rng, [2000], depth=8)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
        with pytest.raises(TraceError, match="could not be written, nothing was changed"):
            write_trace(tmp_path / "t.parquet", big, metadata(8))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_interrupt_leaves_no_temporary(full_sample, tmp_path, monkeypatch):
    def interrupted(_table, where, **_options):
        where.write_bytes(b"half a file")
        raise KeyboardInterrupt

    monkeypatch.setattr(trace_module.write_table.__globals__["pq"], "write_table", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_trace(tmp_path / "t.parquet", full_sample, metadata(8))
    assert list(tmp_path.iterdir()) == []


def test_folder_that_cannot_be_made(full_sample, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(TraceError, match="could not be written"):
        write_trace(tmp_path / "file" / "t.parquet", full_sample, metadata(8))


@pytest.mark.parametrize("values", [[b"\xff"] * 3, [["a"]] * 3, [["a"], ["b", "c"], []]])
def test_names_that_are_no_text_are_refused(rng, values):
    sample = columns(rng, [3], depth=8)
    array = np.empty(3, dtype=object)
    array[:] = values
    for name in ("request_id", "task"):
        with pytest.raises(TraceError, match=f"column '{name}': is no column of text"):
            trace_from_columns({**sample, name: array}, metadata(8), "x.parquet")
