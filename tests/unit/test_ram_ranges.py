"""Parts of assumed size: ranges from the drafter's file to the interval of the peak RAM."""

from __future__ import annotations

import pytest

from simulator.analytic import predict
from simulator.drafters import build_drafter, load_drafter_spec
from simulator.errors import DraftscopeError, UnknownNameError
from simulator.lowering import lower
from simulator.specs import Scenario, load_target

TARGET = "gemma_3n_e2b"
RANGED = ("standalone_128m", "frozen_mtp_nano", "mtp_own_kv_nano")
HEAD = {
    "id": "hand", "family": "frozen_mtp", "kind": "assumed", "hidden_size": 64, "intermediate_size": 128,
    "num_attention_heads": 2, "kv_layers": ["last_local"], "draft_vocab_size": 1000,
}  # fmt: skip


def parts_of(name):
    return {part.name: part for part in build_drafter(name, load_target(TARGET)).parts}


def predicted(drafter, **options):
    return predict(device="pixel_9", target=TARGET, drafter=drafter, draft_length=3, acceptance=0.7,
                   prompt_tokens=1024, output_tokens=256, **options)  # fmt: skip


def ranges(**change):
    return {"layers": {"low": 0.0, "high": 1e9, "source": "draftscope_judgement", "note": "wide"} | change}


@pytest.mark.parametrize("name", RANGED)
def test_every_part_of_weights_has_a_range_that_holds_it(name):
    for part in parts_of(name).values():
        if part.resident_bytes > 1e6:
            assert part.resident_low_bytes < part.resident_bytes <= part.resident_high_bytes


def test_cited_parts_bring_their_own_range():
    """Assumed: none to two copies of the layers for prefill, none to two tuned copies for applications."""
    parts = parts_of("standalone_128m")
    for name in ("prefill_variants", "per_app"):
        assert (parts[name].resident_low_bytes, parts[name].resident_high_bytes) == (0.0, 54.6e6)


def test_interval_of_the_peak_lies_between_the_sums_of_the_ends():
    for name in RANGED:
        result, parts = predicted(name), parts_of(name).values()
        low, high = result.intervals["peak_ram_bytes"]
        ranged = [part for part in parts if part.resident_low_bytes is not None]
        down = sum(part.resident_bytes - part.resident_low_bytes for part in ranged)
        up = sum(part.resident_high_bytes - part.resident_bytes for part in ranged)
        peak = result["peak_ram_bytes"]
        assert peak - down <= low < peak - 0.7 * down
        assert peak + 0.7 * up < high <= peak + up
        assert sum(result.ram_ledger.values()) == pytest.approx(peak)
        assert result.confidence_by_group["memory"] == "assumed"


def test_ram_that_is_known_has_no_interval():
    result = predict(device="pixel_9", target="gemma_4_e2b", drafter="gemma_4_e2b_assistant", draft_length=3,
                     acceptance=0.7, prompt_tokens=1024, output_tokens=256)  # fmt: skip
    assert "peak_ram_bytes" not in result.intervals
    assert "tpot_s" in result.intervals


def test_about_130_mb_less_for_each_instance_lies_in_the_interval():
    """Published: about 130 MB (google_frozen_mtp); the ends of one drafter with the middle of the other."""
    standalone, head = predicted("standalone_128m"), predicted("frozen_mtp_nano", intervals=False)
    saved = [bound - head["peak_ram_bytes"] for bound in standalone.intervals["peak_ram_bytes"]]
    assert saved[0] < 130e6 < saved[1]
    middle = standalone["peak_ram_bytes"] - head["peak_ram_bytes"]
    assert middle == pytest.approx(130e6, rel=0.1)


def test_axis_replaces_the_parts():
    lowered = lower(device="pixel_9", target=TARGET, drafter="frozen_mtp_nano")
    scenario = Scenario(prompt_tokens=10, output_tokens=10)
    sizes = dict.fromkeys(lowered.inputs["drafter_resident_bytes"].value, 1e6)
    changed = lowered.bind(scenario, drafter_resident_bytes=sizes)
    assert changed.drafter_resident_bytes == sizes
    assert sum(lowered.bind(scenario).drafter_resident_bytes.values()) == lowered.drafter.resident_bytes


def test_another_precision_widens_the_range_to_hold_the_part():
    parts = parts_of("standalone_128m@bf16")
    assert parts["embedding"].resident_high_bytes == parts["embedding"].resident_bytes == 2 * 100_663_296
    assert parts["embedding"].resident_low_bytes == 50_331_648


def test_wrong_ranges_are_refused():
    target = load_target(TARGET)
    assert build_drafter({**HEAD, "part_ranges": ranges()}, target).parts[2].resident_high_bytes == 1e9
    with pytest.raises(UnknownNameError, match="Did you mean 'layers'"):
        build_drafter({**HEAD, "part_ranges": {"layer": ranges()["layers"]}}, target)
    with pytest.raises(DraftscopeError, match=r"part_ranges\.layers: 0 to 1 given"):
        build_drafter({**HEAD, "part_ranges": ranges(high=1.0)}, target)
    with pytest.raises(DraftscopeError, match=r"part_ranges\.layers\.low"):
        load_drafter_spec({**HEAD, "part_ranges": ranges(low=-1.0)})
    with pytest.raises(DraftscopeError, match=r"part_ranges\.layers\.hihg: unknown key. Did you mean 'high'"):
        load_drafter_spec({**HEAD, "part_ranges": ranges(hihg=1.0)})
