"""Every packaged profile loads, cites its sources, and is as complete as the model needs."""

from __future__ import annotations

import math
from importlib.resources import files
from itertools import pairwise

import pytest
from pydantic import ValidationError

from hw_profiles import (
    CitedValue,
    ProfileError,
    cited_values,
    engine_for,
    list_devices,
    list_runtimes,
    load_device,
    load_runtime,
    references,
    runtimes_for,
)
from hw_profiles.cited import KINDS, flat_numbers
from hw_profiles.views import check, load_any

DEVICES = (
    "galaxy_s26_ultra",
    "pixel_10",
    "pixel_10_pro",
    "pixel_10_pro_xl",
    "pixel_8_pro",
    "pixel_9",
    "pixel_9_pro",
    "pixel_9_pro_xl",
)
PROFILES = [*list_devices(), *list_runtimes()]


def test_the_devices_of_the_first_issue_are_there():
    assert set(DEVICES) <= set(list_devices())


@pytest.mark.parametrize(
    "name", ["ideal", "litert_lm_cpu", "litert_lm_tpu", "litert_lm_gpu_mali", "tuned_cpu"]
)
def test_the_runtimes_of_the_first_issue_are_there(name):
    assert name in list_runtimes()


@pytest.mark.parametrize("name", PROFILES)
def test_every_source_resolves(name):
    for key, cited in cited_values(load_any(name)):
        assert cited.sources, key
        for source in cited.sources:
            assert source in references(), f"{key}: {source}"


@pytest.mark.parametrize("name", PROFILES)
def test_every_value_has_its_evidence(name):
    for key, cited in cited_values(load_any(name)):
        assert cited.kind in KINDS
        assert cited.unit, key
        assert all(math.isfinite(number) and number >= 0 for number in flat_numbers(cited.value)), key
        if cited.kind == "assumed":
            assert cited.note, key
            if list(flat_numbers(cited.value)):
                assert cited.low is not None and cited.high is not None, key
        assert (cited.formula is not None) == (cited.kind == "derived"), key


def test_all_packaged_data_passes_its_own_check():
    assert check() == []


@pytest.mark.parametrize("name", list_devices())
def test_default_runtime_runs_on_its_device(name):
    device = load_device(name)
    assert device.default_runtime in runtimes_for(name)
    assert device.default_runtime_note


@pytest.mark.parametrize("name", list_devices())
def test_ideal_and_a_runtime_of_its_own_exist_for_every_engine(name):
    fitting = runtimes_for(name)
    assert "ideal" in fitting
    engines = {load_runtime(each).engine for each in fitting}
    needed = {"cpu"} & set(load_device(name).engines) or {"gpu"}  # a graphics card has its own memory, no CPU
    assert needed <= engines


@pytest.mark.parametrize("name", list_runtimes())
def test_every_runtime_is_of_use_on_some_device(name):
    assert any(name in runtimes_for(device) for device in list_devices())


@pytest.mark.parametrize("name", [each for each in list_runtimes() if each != "ideal"])
def test_runtime_numbers_are_in_order(name):
    runtime = load_runtime(name)
    assert 0 < runtime.mbu_large.value <= 1
    assert runtime.floor_per_draft_pass_s.value <= runtime.floor_per_pass_s.value
    costs = [cost for _, cost in runtime.verify_curve.value]
    assert costs[0] == 1
    if name != "llama_cpp_cuda_ampere":  # its ninth row takes another kernel and is cheaper than the eighth
        assert all(later >= 0.95 * earlier for earlier, later in pairwise(costs))
    for label in ("mbu_large", "floor_per_pass_s"):
        cited = getattr(runtime, label)
        assert cited.low is not None, f"{name}: {label} decides predictions and needs a range"


def test_ideal_is_a_definition():
    ideal = load_runtime("ideal")
    assert ideal.ideal
    assert ideal.verify_curve is None
    assert ideal.mbu_large.value == ideal.mbu_small.value == ideal.mbu_kv.value == 1
    assert ideal.floor_per_pass_s.value == ideal.floor_per_step_s.value == ideal.host_per_row_s.value == 0
    kinds = {key: cited.kind for key, cited in cited_values(ideal)}
    assert kinds.pop("prefill_skips_shared_kv_layers") == "published"
    assert set(kinds.values()) == {"derived"}


@pytest.mark.parametrize("name", list_devices())
def test_peak_and_sustained_bandwidth_are_kept_apart(name):
    dram = load_device(name).dram
    assert dram.sustained_bandwidth_bytes_per_s.value < dram.peak_bandwidth_bytes_per_s.value


@pytest.mark.parametrize("name", list_devices())
def test_engines_are_complete(name):
    device = load_device(name)
    for engine in device.engines.values():
        rates = [engine.peak_macs_per_s[dtype].value for dtype in ("int8", "f16", "f32")]
        energies = [engine.energy_per_mac_j[dtype].value for dtype in ("int8", "f16", "f32")]
        assert rates == sorted(rates, reverse=True)
        assert energies == sorted(energies)
        assert engine.idle_power_w.value < engine.active_power_w.value
    assert 0 < device.free_ram_bytes < device.ram_bytes.value


def test_sister_phones_share_their_soc_values():
    one, other = load_device("pixel_9"), load_device("pixel_9_pro_xl")
    assert one.dram == other.dram
    assert one.engines == other.engines
    assert one.battery != other.battery


def test_transfer_is_known():
    tpu = load_runtime("litert_lm_tpu")
    assert not tpu.is_transfer(load_device("pixel_10"))
    assert tpu.is_transfer(load_device("pixel_9"))
    assert tpu.applies_to(load_device("pixel_9"))
    assert not tpu.applies_to(load_device("galaxy_s26_ultra"))
    assert not load_runtime("ideal").is_transfer(load_device("galaxy_s26_ultra"))


def test_engine_choice():
    pixel, galaxy, ideal = load_device("pixel_9"), load_device("galaxy_s26_ultra"), load_runtime("ideal")
    assert engine_for(pixel, ideal) == "tpu"
    assert engine_for(galaxy, ideal) == "gpu"
    assert engine_for(pixel, ideal, "cpu") == "cpu"
    assert engine_for(pixel, load_runtime("litert_lm_cpu")) == "cpu"


def test_engine_choice_refuses_what_is_not_there():
    galaxy = load_device("galaxy_s26_ultra")
    with pytest.raises(ProfileError, match="Allowed: cpu, gpu"):
        engine_for(galaxy, load_runtime("ideal"), "tpu")
    with pytest.raises(ProfileError, match=r"given 'gpu'.*runs on 'cpu' only"):
        engine_for(galaxy, load_runtime("litert_lm_cpu"), "gpu")


def test_profiles_cannot_be_changed():
    device = load_device("pixel_9")
    with pytest.raises(ValidationError):
        device.ram_bytes = None
    with pytest.raises(ValidationError):
        device.dram.peak_bandwidth_bytes_per_s.value = 1.0
    assert isinstance(device.dram.levels_hz.value, tuple)
    assert load_device("pixel_9") is device


def test_package_data_are_reachable_without_a_checkout():
    root = files("hw_profiles")
    for folder in ("devices", "runtimes", "socs", "measurements"):
        assert any(item.is_file() for item in (root / folder).iterdir())
    assert (root / "references.bib").is_file()


def test_sources_of_a_value_in_order():
    cited = CitedValue[float](value=1.0, unit="s", kind="published", source="b, a")
    assert cited.sources == ("b", "a")
