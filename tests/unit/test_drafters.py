"""Registry, families and invariants of the drafters, and what a wrong file is told."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.drafters import FAMILIES, build_drafter, list_drafters, load_drafter_spec
from simulator.errors import DraftscopeError, UnknownNameError
from simulator.ops import ledger
from simulator.specs import list_targets, load_target

SMOL = load_target("smollm2_135m")
CASES = [(name, target) for target in list_targets() for name in list_drafters(target)]
HEAD = {
    "id": "head", "family": "frozen_mtp", "kind": "assumed", "hidden_size": 64, "intermediate_size": 128,
    "num_attention_heads": 3, "kv_layers": [27, "last_global"],
}  # fmt: skip
ALONE = {"id": "x", "family": "standalone", "kind": "assumed"}


@pytest.mark.parametrize(("name", "target_id"), CASES)
def test_every_shipped_drafter_builds(name, target_id):
    target = load_target(target_id)
    model = build_drafter(name, target)
    assert model.target_id == target_id
    assert model.family in FAMILIES
    assert model.label
    assert model.trace_id
    assert model.params == sum(part.params for part in model.parts)
    assert model.resident_bytes == pytest.approx(sum(part.resident_bytes for part in model.parts))
    assert all(op.part.startswith("drafter_") for op in (*model.draft_ops, *model.prefill_ops))
    host_range = (model.host_s_low, model.host_s_high)
    if model.family == "ngram":
        assert host_range[0] <= model.host_s_per_step <= host_range[1]
    else:
        assert (model.host_s_per_step, *host_range) == (0.0, None, None)
    assert bool(model.draft_ops) == (model.passes_per_step != "none")
    of_the_target = sum(  # a head without an LM head of its own reads the target's
        op.weight_bytes
        for op in model.draft_ops
        if op.part == "drafter_lm_head" and any(p.name == "lm_head" and not p.params for p in model.parts)
    )
    assert model.draft_weight_bytes - of_the_target <= model.resident_bytes


@settings(max_examples=60)
@given(st.sampled_from(CASES), st.integers(1, 9), st.integers(0, 6000), st.sampled_from(["once", "per_row"]))
def test_monotone_and_additive(case, width, context, kv_reads):
    name, target_id = case
    ops = build_drafter(name, load_target(target_id)).draft_ops
    here = ledger(ops, width, context, kv_reads)
    assert here.total_bytes == pytest.approx(here.weight_bytes + here.row_bytes + here.kv_bytes)
    assert here.total_bytes == pytest.approx(
        sum(ledger([op], width, context, kv_reads).total_bytes for op in ops)
    )
    assert ledger(ops, width + 1, context, kv_reads).total_bytes >= here.total_bytes
    assert ledger(ops, width, context + 1, kv_reads).total_macs >= here.total_macs


@given(st.integers(1, 64), st.integers(1, 256), st.integers(1, 4), st.integers(1, 6))
def test_parameters_grow_with_every_dimension(width, ffn, layers, step):
    def params(**changes):
        spec = {**HEAD, "hidden_size": width, "intermediate_size": ffn, "kv_layers": [29] * layers, **changes}
        return build_drafter(spec, SMOL).params

    assert params(hidden_size=width + step) > params()
    assert params(intermediate_size=ffn + step) > params()
    assert params(kv_layers=[29] * (layers + 1)) > params()
    assert params(draft_vocab_size=100) < params()


def test_lists():
    assert list_drafters()[0] == "none"
    assert {"none", "ngram"} <= set(list_drafters("anything"))
    assert "gemma_4_e2b_assistant" in list_drafters("gemma_4_e2b")
    assert "gemma_4_e2b_assistant" not in list_drafters("smollm2_135m")
    traces = {load_drafter_spec(name).trace_id or name for name in list_drafters("smollm2_135m")}
    assert {"mtp_head", "standalone_total", "standalone_body", "ngram", "suffix"} <= traces


def test_own_kv_drafters_catch_up_and_prefill():
    nano = load_target("gemma_3n_e2b")
    for name in ("standalone_128m", "mtp_own_kv_nano"):
        model = build_drafter(name, nano)
        assert (model.context, model.catch_up_rows) == ("own", "bonus")
        assert model.prefill_ops
        assert "drafter_lm_head" not in {op.part for op in model.prefill_ops}
        assert model.own_kv_bytes(2000) == 2 * model.own_kv_bytes(1000) > 0


def test_conventional_mtp_stores_no_table_but_a_cache():
    """Static sharing saves the table, not the cache and not the prefill."""
    nano = load_target("gemma_3n_e2b")
    frozen, own = build_drafter("frozen_mtp_nano", nano), build_drafter("mtp_own_kv_nano", nano)
    assert {part.name: part.resident_bytes for part in own.parts}["embedding"] == 0
    assert own.own_kv_bytes(1024) == 4 * 2 * 512 * 2 * 1024
    assert frozen.own_kv_bytes(1024) == 0
    assert own.params > frozen.params  # keys and values


def test_head_variants():
    full = build_drafter(HEAD, SMOL)
    low_rank = build_drafter({**HEAD, "head_rank": 16}, SMOL)
    targets = build_drafter({**HEAD, "head": "target"}, SMOL)
    parts = {model.id: {p.name: p.params for p in model.parts} for model in (full,)}
    assert parts["head"]["lm_head"] == 64 * 49152
    assert {p.name: p.params for p in low_rank.parts}["lm_head"] == 64 * 16 + 16 * 49152
    assert {p.name: p.params for p in targets.parts}["lm_head"] == 0
    read = {op.name: op.weight_bytes for op in targets.draft_ops}
    assert read["LM head"] == SMOL.group_bytes()["lm_head"]
    some = build_drafter({**HEAD, "head": "target", "draft_vocab_size": 4096}, SMOL)
    read = {op.name: op.weight_bytes for op in some.draft_ops}
    assert read["LM head"] == pytest.approx(SMOL.group_bytes()["lm_head"] * 4096 / 49152)
    resident = {p.name: p.resident_bytes for p in some.parts}
    assert (resident["lm_head"], resident["vocabulary_map"]) == (0, 8 * 4096)


def test_draft_vocabulary_of_a_standalone_reads_fewer_rows_and_stores_all():
    some = build_drafter("smollm2_standalone_body", SMOL)
    spec = load_drafter_spec("smollm2_standalone_body")
    every = build_drafter(spec.model_copy(update={"draft_vocab_size": None}), SMOL)
    assert some.params == every.params
    assert (
        every.draft_weight_bytes - some.draft_weight_bytes == (49152 - 8192) * spec.architecture.hidden_size
    )


def test_a_shipped_target_can_draft():
    spec = {"id": "g270", "family": "standalone", "kind": "assumed", "model": "gemma_3_270m"}
    model = build_drafter(spec, load_target("gemma_4_e2b"))
    assert model.params == load_target("gemma_3_270m").total_params()
    assert model.own_kv_window == 512


def test_precision_is_chosen_by_name():
    target = load_target("gemma_4_e2b")
    eight, four = (build_drafter("gemma_4_e2b_assistant", target, quant=q) for q in ("int8", "int4"))
    assert eight.draft_weight_bytes == 2 * four.draft_weight_bytes
    assert build_drafter("gemma_4_e2b_assistant@int4", target).draft_weight_bytes == four.draft_weight_bytes
    with pytest.raises(UnknownNameError, match="Did you mean 'int4'"):
        build_drafter("gemma_4_e2b_assistant@int44", target)


def test_a_users_file_of_the_same_model_is_accepted():
    renamed = load_target("gemma_4_e2b").model_copy(update={"id": "my-gemma"})
    assert build_drafter("gemma_4_e2b_assistant", renamed).target_id == "my-gemma"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("gemma_4_e2b_asistant", "Did you mean 'gemma_4_e2b_assistant'"),
        ("gemma_4_e2b_assistant", "made for gemma_4_e2b; target 'smollm2_135m' given"),
        ({**HEAD, "family": "frozen_mpt"}, "Did you mean 'frozen_mtp'"),
        ({"id": "x"}, "family: missing"),
        ({**HEAD, "hidden_sice": 3}, "hidden_sice: unknown key. Did you mean 'hidden_size'"),
        ({**HEAD, "hidden_size": -3}, "hidden_size: -3 given"),
        ({**HEAD, "hidden_size": 3.5}, "hidden_size: 3.5 given"),
        ({**HEAD, "hidden_size": float("nan")}, "hidden_size: nan given"),
        ({**HEAD, "kv_layers": [30]}, "kv_layers: 30 given; allowed for smollm2_135m: 0 to 29"),
        ({**HEAD, "kv_layers": ["last_locl"]}, "Did you mean 'last_local'"),
        ({**HEAD, "kv_layers": ["last_local"]}, "smollm2_135m has no such layer"),
        ({**HEAD, "expected_params": 7}, "expected_params: 7 given, its dimensions give"),
        ({**HEAD, "quant": "int3"}, "quantisation: unknown name 'int3'"),
        ({"id": "x", "family": "frozen_mtp", "kind": "assumed"}, "missing, and required"),
        (ALONE, "either \\[architecture\\] or model"),
        ({**ALONE, "model": "gemma_3_270m"}, "shares the target's tokenizer"),
        ({"id": "x", "family": "ngram", "kind": "guess"}, "kind: 'guess' given"),
        (
            {"id": "x", "family": "ngram", "kind": "derived",
             "host_s_per_step": {"value": 1.0, "kind": "assumed", "source": "s"}},
            "an assumed value needs low and high",
        ),
        (
            {"id": "x", "family": "ngram", "kind": "derived",
             "host_s_per_step": {"value": 1.0, "low": 2.0, "high": 3.0, "kind": "assumed", "source": "s"}},
            "low <= value <= high",
        ),
        ("no_such_file.toml", "cannot be read"),
    ],
)  # fmt: skip
def test_messages(spec, message):
    with pytest.raises(DraftscopeError, match=message):
        build_drafter(spec, SMOL)


def test_toml_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('family = "none"\nkind = "measured"\n')
    assert build_drafter(path, SMOL).id == "mine"
    path.write_text("family = ")
    with pytest.raises(DraftscopeError, match=r"mine\.toml: drafter is not valid TOML"):
        build_drafter(path, SMOL)


def test_a_model_given_as_drafter_says_what_to_write(tmp_path):
    path = tmp_path / "config.json"
    path.write_text("{}")
    with pytest.raises(DraftscopeError, match=r'family = "standalone".*model = ".*config\.json"'):
        load_drafter_spec(str(path))
    with pytest.raises(UnknownNameError):
        load_drafter_spec(str(tmp_path / "none" / "config.json"))
