"""Profiles that build on others: a SoC on a family, a runtime on a runtime; what is nearest wins."""

from __future__ import annotations

from importlib.resources import files

import pytest

from hw_profiles import ProfileError, load_device, load_runtime, load_runtime_file, runtimes_for

CHIPS = [f"apple_{name}" for generation in ("m1", "m2", "m3", "m4", "m5")
         for name in (generation, f"{generation}_pro", f"{generation}_max")]  # fmt: skip
CHIPS += ["apple_m1_ultra", "apple_m2_ultra", "apple_m3_ultra"]


def test_a_chip_takes_values_from_generation_macs_and_family():
    chip, phone = load_device("apple_m1_max"), load_device("iphone_17_pro")
    assert chip.process_node.value == "5 nm"
    assert chip.thermal == load_device("apple_m4_max").thermal
    assert chip.dram.energy_per_byte_j == phone.dram.energy_per_byte_j
    assert chip.thermal != phone.thermal


def test_the_nearest_value_wins():
    assert load_device("apple_m1_ultra").base_power_w.value > load_device("apple_m1_max").base_power_w.value
    desktop, laptop = load_device("apple_m1_ultra").thermal, load_device("apple_m1_max").thermal
    assert desktop.sustained_fraction != laptop.sustained_fraction
    assert desktop.skin_time_constant_s == laptop.skin_time_constant_s


def test_a_runtime_builds_on_a_runtime():
    rows, wide = load_runtime("mlx_metal_rows"), load_runtime("mlx_metal_wide")
    assert rows.host_per_row_s == wide.host_per_row_s
    assert rows.verify_curve != wide.verify_curve
    assert not set(rows.devices) & set(wide.devices)


@pytest.fixture
def own_runtime(tmp_path):
    def write(text: str) -> str:
        path = tmp_path / "my_stack.toml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def test_a_file_of_the_user_may_build_on_a_packaged_runtime(own_runtime):
    path = own_runtime('base = "mlx_metal_m5"\nname = "mine"\nmeasured_socs = []\n')
    mine = load_runtime_file(path)
    assert (mine.id, mine.name) == ("my_stack", "mine")
    assert mine.mbu_large == load_runtime("mlx_metal_m5").mbu_large
    assert mine.host_per_row_s == load_runtime("mlx_metal_wide").host_per_row_s


def test_an_unknown_base_offers_the_nearest(own_runtime):
    path = own_runtime('base = "mlx_metal_m6"\n')
    with pytest.raises(ProfileError, match=r"base: unknown runtime 'mlx_metal_m6'\. Did you mean 'mlx_metal"):
        load_runtime_file(path)


def test_a_misspelt_base_is_known(own_runtime):
    packaged = (files("hw_profiles") / "runtimes" / "tuned_cpu.toml").read_text(encoding="utf-8")
    with pytest.raises(ProfileError, match=r"bass: unknown key 'bass'\. Did you mean 'base'"):
        load_runtime_file(own_runtime(f'bass = "x"\n{packaged}'))


@pytest.mark.parametrize("chip", CHIPS)
def test_every_mac_has_both_metal_stacks_and_a_cpu(chip):
    fitting = runtimes_for(chip)
    assert load_device(chip).default_runtime in fitting
    assert any(name.startswith("llama_cpp_metal") for name in fitting)
    assert sum(name.startswith("mlx_metal") and name != "mlx_metal_f16" for name in fitting) == 1
    assert "llama_cpp_cpu_arm" in fitting


@pytest.mark.parametrize("phone", ["iphone_15_pro", "iphone_16_pro", "iphone_17_pro"])
def test_every_iphone_has_the_neural_engine(phone):
    assert {"coreml_ane", "litert_lm_gpu_metal", "litert_lm_cpu_apple"} <= set(runtimes_for(phone))
    assert load_device(phone).engines["tpu"].name == "Apple Neural Engine"


def test_where_numbers_are_carried_over():
    assert not load_runtime("litert_lm_gpu_metal").is_transfer(load_device("iphone_17_pro"))
    assert load_runtime("litert_lm_gpu_metal").is_transfer(load_device("iphone_15_pro"))
    assert load_runtime("litert_lm_gpu_adreno_older").is_transfer(load_device("galaxy_s24_ultra"))
    assert load_runtime("mlx_metal_m5").is_transfer(load_device("apple_m5_pro"))
