"""The ops of a target: what a pass reads, exactly, and the invariants of the ledger."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.errors import UnknownNameError
from simulator.ops import Op, ledger, prefill_ops, target_ops
from simulator.specs import list_targets, load_target

ops_strategy = st.lists(
    st.builds(
        Op,
        name=st.just("op"),
        part=st.sampled_from(["layers", "lm_head", "kv_cache"]),
        weight_bytes=st.floats(0, 1e9),
        bytes_per_row=st.floats(0, 1e6),
        kv_bytes_per_context=st.floats(0, 1e5),
        macs_per_row=st.floats(0, 1e9),
        macs_per_row_per_context=st.floats(0, 1e5),
        macs_per_pass=st.floats(0, 1e9),
        window=st.sampled_from([None, 16, 512]),
        dtype=st.sampled_from(["int8", "f16"]),
    ),
    max_size=6,
)
width = st.integers(1, 16)
context = st.integers(0, 8192)


@given(ops_strategy, ops_strategy, width, context, st.sampled_from(["once", "per_row"]))
def test_ops_are_additive(first, second, w, n, kv_reads):
    one, two = ledger(first, w, n, kv_reads), ledger(second, w, n, kv_reads)
    both = ledger([*first, *second], w, n, kv_reads)
    assert both.total_bytes == pytest.approx(one.total_bytes + two.total_bytes)
    assert both.total_macs == pytest.approx(one.total_macs + two.total_macs)
    assert both.total_bytes == pytest.approx(both.weight_bytes + both.row_bytes + both.kv_bytes)


@given(ops_strategy, width, width, context, context, st.sampled_from(["once", "per_row"]))
def test_monotone_in_width_and_context(ops, w1, w2, n1, n2, kv_reads):
    small = ledger(ops, min(w1, w2), min(n1, n2), kv_reads)
    large = ledger(ops, max(w1, w2), max(n1, n2), kv_reads)
    assert large.total_bytes >= small.total_bytes
    assert large.total_macs >= small.total_macs


@given(st.sampled_from(list_targets()), st.integers(1, 12), st.integers(0, 8192))
def test_real_targets_are_monotone(name, w, n):
    ops = target_ops(load_target(name))
    here = ledger(ops, w, n)
    assert ledger(ops, w + 1, n).total_bytes > here.total_bytes
    assert ledger(ops, w, n + 1).total_bytes > here.total_bytes
    assert ledger(ops, w, n, "per_row").total_bytes >= here.total_bytes


@pytest.mark.parametrize("name", list_targets())
def test_a_decoded_token_reads_the_streamed_weights_and_the_cache(name):
    target = load_target(name)
    pass_ = ledger(target_ops(target), 1, 3000)
    assert pass_.weight_bytes == pytest.approx(target.streamed_bytes())
    assert pass_.kv_bytes == pytest.approx(target.kv_read_bytes(3000))
    written = target.kv_bytes_per_token() + target.kv_windowed_bytes_per_token()
    rows = target.hidden_size * target.quant.bits("embedding") / 8
    rows += (
        target.num_hidden_layers
        * target.hidden_size_per_layer_input
        * target.quant.bits("per_layer_embedding")
        / 8
    )
    assert pass_.row_bytes == pytest.approx(rows + written)
    assert len(target_ops(target)) <= 15


@pytest.mark.parametrize("name", [n for n in list_targets() if not n.startswith("gemma_3n")])
def test_a_row_multiplies_every_streamed_weight_once(name):
    target = load_target(name)
    attention = 2 * sum(
        layer.q_dim * (min(700, target.sliding_window) if layer.is_local else 700) for layer in target.layers
    )
    assert ledger(target_ops(target), 1, 700).total_macs == pytest.approx(
        target.streamed_params() + attention
    )


def test_e2b_by_hand():
    """Two layers' worth of the E2B arithmetic, written out: 28 local and 7 global layers, 8 query heads."""
    ops = {op.name: op for op in target_ops(load_target("gemma_4_e2b@bf16"))}
    assert ops["local attention"].kv_bytes_per_context == 28 * 1024
    assert ops["global attention"].kv_bytes_per_context == 7 * 2048
    assert (ops["local attention"].window, ops["global attention"].window) == (512, None)
    assert ops["global attention"].macs_per_row_per_context == 7 * 8 * 512 * 2
    assert ops["KV write"].bytes_per_row == 12 * 1024 + 3 * 2048
    assert ops["per-layer embedding"].bytes_per_row == 35 * 256 * 2
    assert ops["MLP"].macs_per_row == 3 * 1536 * (15 * 6144 + 20 * 12288)
    assert ops["LM head"].weight_bytes == 2 * 402653184


def test_prefill_computes_the_lm_head_for_one_row():
    target = load_target("gemma_4_e2b")
    decode, prefill = ledger(target_ops(target), 1024, 0), ledger(prefill_ops(target), 1024, 0)
    assert decode.total_macs - prefill.total_macs == pytest.approx(1023 * 402653184)
    assert decode.total_bytes == pytest.approx(prefill.total_bytes)


def test_prefill_that_skips_layers_without_kv_of_their_own():
    """Layers 0 to 14 of 35 for every row; the 20 others, twice as wide, and the LM head for one row."""
    target, rows = load_target("gemma_4_e2b"), 1000
    every, skipping = prefill_ops(target), prefill_ops(target, skip_shared_kv=True)
    shared = [layer for layer in target.layers if not layer.stores_kv]
    assert len(shared) == 20
    matrices = sum(target.layer_params(shared).values())
    q_dims = sum(layer.q_dim for layer in shared)
    saved = ledger(every, rows, 0).total_macs - ledger(skipping, rows, 0).total_macs
    assert saved == pytest.approx((rows - 1) * matrices)
    at_400 = ledger(every, rows, 400).total_macs - ledger(skipping, rows, 400).total_macs
    assert at_400 == pytest.approx(saved + rows * 400 * 2 * q_dims)
    for name in ("weight_bytes", "row_bytes", "kv_bytes"):
        mine, other = (getattr(ledger(ops, rows, 400), name) for ops in (every, skipping))
        assert mine == pytest.approx(other)


@pytest.mark.parametrize("target", ["gemma_3_1b", "smollm2_135m", "gemma_4_31b", "gemma_4_26b_a4b"])
def test_nothing_to_skip_where_every_layer_stores_kv(target):
    loaded = load_target(target)
    assert prefill_ops(loaded, skip_shared_kv=True) == prefill_ops(loaded)


def test_experts_of_skipped_layers_are_those_of_one_row():
    target = load_target("gemma_4_26b_a4b")
    fields = {**target.model_dump(), "layer_types": ("full_attention",) * 30, "num_kv_shared_layers": 10}
    sharing = type(target)(**fields)
    ops = prefill_ops(sharing, skip_shared_kv=True)
    early, late = (op for op in ops if op.name == "routed experts")
    assert (early.experts, late.experts) == (128, 0)
    assert late.weight_bytes_at(500) == late.weight_bytes == pytest.approx(early.weight_bytes / 2)


def test_arrays_and_words():
    np = pytest.importorskip("numpy")
    ops = target_ops(load_target("gemma_4_26b_a4b"))
    widths, contexts = np.array([1.0, 4.0]), np.array([100.0, 4000.0])
    together = ledger(ops, widths, contexts).total_bytes
    assert together.tolist() == [
        ledger(ops, w, n).total_bytes for w, n in zip([1.0, 4.0], [100.0, 4000.0], strict=True)
    ]
    with pytest.raises(UnknownNameError, match="Did you mean 'per_row'"):
        ledger(ops, 1, 1, "perrow")


def test_precision_decides_the_mac_type():
    assert {op.dtype for op in target_ops(load_target("smollm2_135m@int4"))} == {
        "int8",
        "f16",
    }  # KV is 16 bits
    assert {op.dtype for op in target_ops(load_target("smollm2_135m@bf16"))} <= {"int8", "f16"}
    by_name = {op.name: op.dtype for op in target_ops(load_target("smollm2_135m@f32"))}
    assert (by_name["MLP"], by_name["LM head"], by_name["global attention"]) == ("f32", "f32", "f16")
