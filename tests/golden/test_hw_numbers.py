"""Stored hardware numbers against what their sources say. Values are typed in again, not read back.

Sources: the keys of references.bib beside each value. Tolerance 1e-6 unless the source rounds.
"""

from __future__ import annotations

import pytest

from hw_profiles import cited_values, list_devices, list_runtimes, load_device, load_runtime
from hw_profiles.measurements import decode_table, facts, rows
from hw_profiles.verify_curves import row_cost_table
from hw_profiles.views import FORMULA_TOLERANCE, formula_error, formula_names, load_any

GIB = 2**30
RAM_GIB = {"pixel_8_pro": 12, "pixel_9": 12, "pixel_9_pro": 16, "pixel_9_pro_xl": 16}
RAM_GIB |= {"pixel_10": 12, "pixel_10_pro": 16, "pixel_10_pro_xl": 16}
BATTERY_MAH = {"pixel_8_pro": 5050, "pixel_9": 4700, "pixel_9_pro": 4700, "pixel_9_pro_xl": 5060}
BATTERY_MAH |= {"pixel_10": 4970, "pixel_10_pro": 4870, "pixel_10_pro_xl": 5200}
BATTERY_MWH = {"pixel_8_pro": 19594, "pixel_9": 18236, "pixel_9_pro_xl": 19633, "pixel_10_pro": 18896}
DISPLAY = {"pixel_8_pro": (1344, 2992), "pixel_9": (1080, 2424), "pixel_9_pro": (1280, 2856)}
DISPLAY |= {"pixel_10": (1080, 2424), "pixel_10_pro_xl": (1344, 2992)}
AI_RESERVE = {
    "pixel_9": 0,
    "pixel_9_pro": 2.6e9,
    "pixel_9_pro_xl": 2.6e9,
    "pixel_10": 3.0e9,
    "pixel_10_pro": 3.0e9,
}
CODENAMES = {"pixel_8_pro": "husky", "pixel_9": "tokay", "pixel_9_pro": "caiman", "pixel_9_pro_xl": "komodo"}
CODENAMES |= {"pixel_10": "frankel", "pixel_10_pro": "blazer", "pixel_10_pro_xl": "mustang"}


@pytest.mark.parametrize("name", [*list_devices(), *list_runtimes()])
def test_every_derived_number_follows_from_its_formula(name):
    profile = load_any(name)
    names = formula_names(profile)
    for key, cited in cited_values(profile):
        if cited.kind == "derived":
            assert formula_error(cited, names) <= FORMULA_TOLERANCE, key


@pytest.mark.parametrize(("name", "gib"), RAM_GIB.items())
def test_ram(name, gib):
    assert load_device(name).ram_bytes.value == gib * GIB


@pytest.mark.parametrize(("name", "mah"), BATTERY_MAH.items())
def test_battery_capacity(name, mah):
    assert load_device(name).battery.capacity_mah.value == mah


@pytest.mark.parametrize(("name", "mwh"), BATTERY_MWH.items())
def test_battery_energy_at_3_88_volt(name, mwh):
    assert load_device(name).battery.energy_j.value == pytest.approx(mwh * 3.6, rel=1e-4)


@pytest.mark.parametrize(("name", "size"), DISPLAY.items())
def test_display(name, size):
    display = load_device(name).display
    assert (display.width_px.value, display.height_px.value, display.refresh_hz.value) == (*size, 120)


@pytest.mark.parametrize(
    ("size", "rate"), [("pixel_9", 1.26e9), ("pixel_9_pro", 1.75e9), ("pixel_9_pro_xl", 1.93e9)]
)
def test_scan_out(size, rate):
    assert load_device(size).display.scanout_bytes_per_s.value == pytest.approx(rate, rel=5e-3)


@pytest.mark.parametrize(("name", "reserve"), AI_RESERVE.items())
def test_memory_reserved_for_the_system_model(name, reserve):
    assert load_device(name).ai_reserved_ram_bytes.value == reserve


@pytest.mark.parametrize(("name", "codename"), CODENAMES.items())
def test_codenames(name, codename):
    assert load_device(name).codename.value == codename


@pytest.mark.parametrize(
    ("name", "peak", "sustained"),
    [
        ("pixel_8_pro", 59.904e9, 25e9),  # 3744 MHz x 16 B; scaled from Tensor G5
        ("pixel_9", 59.904e9, 27e9),
        ("pixel_10", 68.264e9, 38e9),  # 8533 MT/s x 8 B; most CPU+GPU traffic seen
        ("galaxy_s26_ultra", 85.336e9, 67.13e9),  # 10667 MT/s x 8 B; 4.5 GB x 14.92 token/s
    ],
)
def test_bandwidth(name, peak, sustained):
    dram = load_device(name).dram
    assert dram.peak_bandwidth_bytes_per_s.value == pytest.approx(peak)
    assert dram.sustained_bandwidth_bytes_per_s.value == pytest.approx(sustained, rel=1e-3)


def test_planned_bandwidth_of_the_kernel():
    dram = load_device("pixel_8_pro").dram
    assert dram.planning_utilization.value == 0.65
    assert dram.realtime_utilization_cap.value == 0.40
    assert dram.planned_bandwidth_bytes_per_s.value == pytest.approx(38.9e9, rel=1e-3)


def test_memory_clock_ladder_and_governor_of_tensor_g3():
    dram = load_device("pixel_8_pro").dram
    mhz = (421, 546, 676, 845, 1014, 1352, 1539, 1716, 2028, 2730, 3172, 3744)
    assert dram.levels_hz.value == tuple(level * 1e6 for level in mhz)
    governor = dram.governor
    assert governor.target_load.value == (0.2, 0.4)
    assert (governor.sample_s.value, governor.hold_s.value) == (0.020, 0.060)
    assert (governor.step_up_limit.value, governor.step_down_limit.value) == (2, 0.5)
    assert governor.latency_vote_poll_s.value == 0.010
    assert governor.gpu_floor_hz.value[0] == (890e6, 3172e6)
    assert governor.codec_floor_hz.value[3] == (1202239, 1014e6)
    assert governor.fabric_hz.value == ((3744e6, 664e6), (3172e6, 533e6), (2028e6, 356e6), (1539e6, 178e6))


def test_memory_clock_hints_of_tensor_g4_and_boot_floor_of_tensor_g5():
    assert load_device("pixel_9").dram.governor.hint_levels_hz.value == (1014e6, 1352e6, 1539e6)
    assert load_device("pixel_10").dram.governor.boot_floor_hz.value == 3148e6


@pytest.mark.parametrize("name", ["pixel_8_pro", "pixel_9"])
def test_tpu_clock_ladder_and_wake(name):
    tpu = load_device(name).engines["tpu"]
    assert tpu.freq_levels_hz.value == tuple(m * 1e6 for m in (226, 455, 627, 712, 845, 1066, 1119))
    assert (tpu.wake_latency_s.low, tpu.wake_latency_s.high) == (100e-6, 150e-6)
    assert tpu.shutdown_delay_s.value == 200e-6
    assert tpu.low_power_timeout_s.value == 0.030


def test_tpu_rates():
    assert load_device("pixel_10").engines["tpu"].peak_macs_per_s["int8"].value == 9e12  # 18 TOPS leaked
    g4 = load_device("pixel_9").engines["tpu"].peak_macs_per_s["int8"]
    assert g4.value == pytest.approx(9e12 / 1.14)  # 14 % below
    assert g4.low == pytest.approx(9e12 / 1.6, rel=1e-4)  # a claimed 60 %


def test_thermal_of_the_pixel_9_family():
    thermal = load_device("pixel_9").thermal
    assert thermal.skin_thresholds_c.value == (39, 43, 45, 46.5, 52, 55)
    assert (thermal.passive_poll_s.value, thermal.normal_poll_s.value) == (7, 300)
    found = {
        b.name: (b.at_skin_c.value, b.max_power_w.value, b.setpoint_power_w.value) for b in thermal.budgets
    }
    assert found == {
        "cpu light": (39, 4.6, 0.8),
        "cpu mid": (41, 2.8, 0.7),
        "cpu high": (43, 1.6, 0.6),
        "soc with tpu": (45, 3.9, 0.8),
        "gpu": (45, 2.5, 0.473),
    }
    gains = {b.name: b.proportional_w_per_c.value for b in thermal.budgets}
    assert (gains["cpu light"], gains["soc with tpu"], gains["gpu"]) == (0.4, 0.3, 0.7)
    assert all(b.integral.value == 5 for b in thermal.budgets)


def test_modelled_currents_of_the_pixel_9_family():
    device = load_device("pixel_9_pro")
    cores = device.engines["cpu"].core_current_a.value
    assert cores["cortex_x4_3105mhz"] == pytest.approx(0.25383)
    assert device.base_current_a.value["screen_full"] == pytest.approx(0.470)
    assert device.engines["cpu"].active_power_w.value == pytest.approx(2.4, rel=0.01)  # 628 mA at 3.85 V


def test_energy_anchors_of_tensor_g5():
    device = load_device("pixel_10")
    picojoule_per_bit = device.dram.energy_per_byte_j.value / 8 * 1e12
    assert picojoule_per_bit == pytest.approx(3.7, rel=0.01)  # 142 mW x 90 s / 431 tokens / 1 GB
    assert device.dram.energy_per_byte_j.low / 8 * 1e12 == pytest.approx(2.2)
    assert device.dram.energy_per_byte_j.high / 8 * 1e12 == pytest.approx(4.4, rel=0.01)
    tpu = device.engines["tpu"]
    assert (tpu.active_power_w.value, tpu.active_power_w.low, tpu.active_power_w.high) == (
        0.442,
        0.343,
        0.534,
    )
    assert tpu.energy_per_mac_j["int8"].value == pytest.approx(0.15e-12)
    assert load_runtime("litert_lm_tpu").energy_per_token_j.value == pytest.approx(0.076, rel=2e-3)


@pytest.mark.parametrize("name", ["pixel_8_pro", "pixel_9", "galaxy_s26_ultra"])
def test_dram_energy_where_nothing_was_read(name):
    cited = load_device(name).dram.energy_per_byte_j
    assert cited.kind == "assumed"
    assert (cited.value, cited.low, cited.high) == pytest.approx((32e-12, 17.6e-12, 56e-12))


@pytest.mark.parametrize(
    ("name", "rail", "part"),
    [
        ("pixel_8_pro", "S7M_VDD_TPU", "tpu"),
        ("pixel_9", "S3M_VDD_CPUCL2", "cpu big"),
        ("pixel_10", "S2S_VDD_GPU", "gpu"),
        ("pixel_10", "S8S_VDD_GMC", "memory controller"),
    ],
)
def test_power_rails(name, rail, part):
    assert {r.name: r.part for r in load_device(name).power_rails}[rail] == part


def test_prefill_of_the_system_model():
    assert load_device("pixel_9").gemini_nano.prefix_tokens_per_s.value == 510
    assert load_device("pixel_10").gemini_nano.prefix_tokens_per_s.value == 940


@pytest.mark.parametrize(
    ("curve", "milliseconds"),
    [
        ("g5_cpu_packed_tuned", {1: 6.03, 2: 8.03, 4: 17.24}),
        ("g5_cpu_packed_tuned_cadence", {1: 7.27, 2: 9.71, 4: 20.6}),
        ("g5_cpu_packed_unboosted_cadence", {1: 28.5, 2: 44.4, 3: 58.5, 4: 67.8}),
        ("g5_cpu_f16", {1: 20.235, 2: 19.829, 4: 21.697, 8: 35.423}),
        ("g5_cpu_packed_plain", {1: 12.094, 2: 21.187, 4: 43.98, 8: 104.662}),
        ("g5_gpu_f16", {1: 14.51, 2: 30.21, 4: 86.77}),
    ],
)
def test_row_cost_curves(curve, milliseconds):
    stored = row_cost_table()[curve]
    for width, time in milliseconds.items():
        assert stored[f"m{width}"] == pytest.approx(time / 1e3)


def test_decode_measurements():
    table = decode_table()
    assert len(rows("decode.csv")) >= 91
    assert table["g5_tpu_gemma3_1b"]["decode_tokens_per_s"] == 8.51
    assert table["g4_gpu_gemma4_e4b"]["prefill_tokens_per_s"] == 111.1
    assert table["s26u_gpu_gemma4_e2b"]["decode_tokens_per_s"] == 52.1
    assert table["d9000_gpu_gemma4_e2b"]["decode_tokens_per_s"] == 19.16


def test_the_frozen_mtp_claim_is_not_misquoted():
    """The gain is over a standalone drafter, not over plain decoding."""
    note = next(row["note"] for row in rows("decode.csv") if row["id"] == "g4_tpu_nano_v3_mtp")
    assert "standalone drafter" in note
    assert "not than plain decoding" in note


def test_validation_set_is_whole():
    assert len(rows("speedups.csv")) == 313
    assert sum(row["device_class"] == "phone/tablet SoC" for row in rows("speedups.csv")) >= 10


def test_latencies_and_contention():
    latency = {fact["id"]: fact["value"] for fact in facts("latencies.json")}
    assert latency["cancel"] == [0.066, 0.284]
    assert latency["tpu_engine_start_g5"] == [1.15, 5.8]
    contention = {fact["id"]: fact["value"] for fact in facts("contention.json")}
    assert contention["realtime_cap_g3"] == pytest.approx(0.4 * 59.904, rel=1e-3)
