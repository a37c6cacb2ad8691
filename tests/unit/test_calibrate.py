"""Calibration: known numbers come back within their errors, and what the data cannot tell is said."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from hw_profiles import load_runtime
from hw_profiles.views import check
from simulator.adapters.observations import PrefillTime, SpeculativeRun
from simulator.analytic import predict
from simulator.errors import DraftscopeError
from simulator.lowering import lower
from simulator.studies.calibrate import ADVICE, FITTED, FOLLOWS, KEPT, calibrate
from simulator.studies.calibration.data import error_of
from simulator.studies.calibration.fit import identified
from simulator.studies.calibration.held_out import INCONSISTENT, PREDICTED, SCORED, SKIPPED
from simulator.studies.calibration.problem import FIELDS
from simulator.studies.calibration.profile import as_toml
from tests.calibration_samples import CONTEXTS, DEVICE, RUNTIME, SIZES, a_file, plain_pass, sample

TRUE = {
    "mbu_large": 0.3, "mbu_small": 0.2, "mbu_kv": 0.15, "floor_per_pass_s": 0.006, "host_per_row_s": 3e-4,
    "prefill_macs_per_s_fraction": 0.05, "prefill_floor_s": 0.03,
}  # fmt: skip
CURVE = {2: 1.35, 3: 1.675, 4: 2.0, 5: 2.35, 8: 3.4}


def by_field(found):
    return {row.field: row for row in found.fields}


def three_sizes(rng=None, **options):
    return [sample(target, axes=TRUE, rng=rng, **options) for target in SIZES]


def test_exact_times_give_the_numbers_back():
    found = calibrate(three_sizes(noise=1e-5), runtime=RUNTIME)
    rows = by_field(found)
    for name, value in TRUE.items():
        assert rows[name].status == FITTED
        assert rows[name].value == pytest.approx(value, rel=2e-3), name
    for width, cost in CURVE.items():
        assert rows[f"verify_curve[{width}]"].value == pytest.approx(cost, rel=2e-3)
    assert found.converged and found.residual < 1e-5


def test_errors_cover_the_truth_over_seeds():
    """95 % ranges hold the truth in about 95 % of noisy repetitions, and standard errors are not idle."""
    inside, off = [], []
    points = [(1, 64), (1, 2048), *((width, 64) for width in CURVE)]
    for seed in range(40):
        found = calibrate(three_sizes(np.random.default_rng(seed), points=points), runtime=RUNTIME)
        truth = TRUE | {f"verify_curve[{width}]": cost for width, cost in CURVE.items()}
        for name, value in truth.items():
            row = by_field(found)[name]
            if row.status == FITTED:
                inside.append(row.low <= value <= row.high)
                off.append((row.value - value) / row.stderr)
    assert len(inside) >= 40 * 11
    assert 0.93 <= np.mean(inside) <= 0.99
    assert 0.85 <= np.std(off) <= 1.15


def test_a_kept_field_widens_the_others():
    """With one size the floor stays at the prior, and its range is part of the error of the bandwidth."""
    truths = np.random.default_rng(5).normal(size=30)
    prior = load_runtime(RUNTIME).floor_per_pass_s
    sd = (prior.high - prior.low) / 3.92
    off = []
    for seed, z in enumerate(truths):
        axes = {"mbu_large": 0.4, "floor_per_pass_s": max(prior.value + z * sd, 0.0)}
        file = sample("gemma_4_e4b", axes=axes, prompts=(), points=[(1, 32)], rng=np.random.default_rng(seed))
        row = by_field(calibrate([file], runtime=RUNTIME))["mbu_large"]
        assert row.status == FITTED
        off.append(np.log(row.value / 0.4) / (row.stderr / row.value))
    assert 0.5 < np.std(off) < 1.5


def test_one_size_cannot_tell_floor_from_bandwidth():
    found = calibrate([sample("gemma_4_e4b", prompts=(), points=[(1, 32)])], runtime=RUNTIME)
    rows, start = by_field(found), load_runtime(RUNTIME)
    assert rows["mbu_large"].status == FITTED
    floor = rows["floor_per_pass_s"]
    assert floor.status == KEPT
    assert "cannot be told from mbu_large" in floor.reason and ADVICE["floor_per_pass_s"] in floor.reason
    assert (floor.value, floor.low, floor.high) == tuple(
        getattr(start.floor_per_pass_s, end) for end in ("value", "low", "high")
    )
    assert rows["prefill_floor_s"].reason.startswith("nothing measured depends on it")
    assert rows["prefill_floor_s"].share == pytest.approx(1)
    tied = {frozenset(pair[:2]): pair[2] for pair in found.correlations}
    assert tied[frozenset(("floor_per_pass_s", "mbu_large"))] > 0.9
    kept = found.runtime.floor_per_pass_s
    assert (kept.kind, kept.source) == (start.floor_per_pass_s.kind, start.floor_per_pass_s.source)


def test_two_sizes_can():
    files = [sample(target, prompts=(), points=[(1, 32)]) for target in ("gemma_4_e2b", "gemma_4_e4b")]
    rows = by_field(calibrate(files, runtime=RUNTIME))
    assert rows["mbu_large"].status == rows["floor_per_pass_s"].status == FITTED


def test_small_models_and_the_cache_follow_the_bandwidth_where_nothing_tells():
    rows = by_field(calibrate([sample("gemma_4_e4b", axes={"mbu_large": 0.4}, prompts=(), points=[(1, 0)])],
                              runtime=RUNTIME))  # fmt: skip
    start = load_runtime(RUNTIME)
    for name in ("mbu_small", "mbu_kv"):
        assert rows[name].status == FOLLOWS
        ratio = rows[name].value / rows["mbu_large"].value
        assert ratio == pytest.approx(getattr(start, name).value / start.mbu_large.value)
        assert rows[name].low < rows[name].value < rows[name].high


def test_cliffs_survive():
    costs = {2: 1.02, 3: 1.05, 4: 1.07, 5: 2.4, 6: 2.41, 7: 2.42, 8: 2.43, 9: 4.1}
    start = load_runtime(RUNTIME)
    curve = start.verify_curve.model_copy(update={
        "value": ((1.0, 1.0), *((float(w), c) for w, c in costs.items())), "low": None, "high": None,
    })  # fmt: skip
    cliffy = start.model_copy(update={"verify_curve": curve})
    rng = np.random.default_rng(2)
    files = [sample(target, runtime=cliffy, points=[(w, 64) for w in (1, *costs)], prompts=(), rng=rng)
             for target in ("gemma_4_e2b", "gemma_4_e4b")]  # fmt: skip
    found = calibrate(files, runtime=RUNTIME)
    for width, cost in costs.items():
        row = by_field(found)[f"verify_curve[{width}]"]
        assert row.low <= cost <= row.high and row.high / row.low < 1.15
    assert not any("were not timed" in note for note in found.notes)


def test_how_the_cache_is_read_is_found_out():
    start = load_runtime(RUNTIME)
    per_row = start.model_copy(update={"kv_reads": "per_row"})
    points = [(w, n) for w in (1, 2, 4, 8) for n in (64, 8192)]
    files = [sample(target, runtime=per_row, points=points, prompts=(), rng=np.random.default_rng(1))
             for target in ("gemma_4_e2b", "gemma_4_e4b")]  # fmt: skip
    found = calibrate(files, runtime=RUNTIME)
    assert found.runtime.kv_reads == "per_row"
    assert any("reads the cache per row" in note for note in found.notes)
    assert calibrate(three_sizes(), runtime=RUNTIME).runtime.kv_reads == "once"


def test_scatter_beyond_the_stated_errors_widens_them():
    noisy = three_sizes(np.random.default_rng(4), noise=0.05)
    sure = [type(file)(**{**vars(file), "passes": tuple(
        type(each)(**{**vars(each), "stderr_s": each.seconds * 0.005}) for each in file.passes
    ), "prefills": ()}) for file in noisy]  # fmt: skip
    found = calibrate(sure, runtime=RUNTIME)
    assert 5 < found.spread < 20
    assert found.chi2 == pytest.approx(found.freedom, rel=0.3)
    assert any("scatter" in note for note in found.notes)


def test_an_outlier_counts_less_with_the_robust_loss():
    files = three_sizes(np.random.default_rng(8))
    hot = list(files[1].passes)
    hot[4] = type(hot[4])(**{**vars(hot[4]), "seconds": hot[4].seconds * 1.3})
    files[1] = type(files[1])(**{**vars(files[1]), "passes": tuple(hot)})
    found = {loss: calibrate(files, runtime=RUNTIME, loss=loss) for loss in ("linear", "soft_l1")}
    off = {loss: abs(by_field(each)["verify_curve[3]"].value / 1.675 - 1) for loss, each in found.items()}
    assert off["soft_l1"] < off["linear"] / 2


def test_data_against_the_start_move_what_they_cannot_identify_and_say_so(tmp_path):
    """The start's floor is longer than the whole pass, so it cannot be kept."""
    start = load_runtime(RUNTIME)
    slow = start.floor_per_pass_s.model_copy(update={"value": 0.5, "low": 0.4995, "high": 0.5005})
    file = sample("gemma_4_e4b", prompts=(), points=[(1, 32)])
    path = start.model_copy(update={"floor_per_pass_s": slow})
    written = tmp_path / "start.toml"
    written.write_text(as_toml(path))
    found = calibrate([file], runtime=str(written))
    floor = by_field(found)["floor_per_pass_s"]
    assert floor.status == "moved"
    assert floor.value < file.passes[0].seconds
    assert found.runtime.floor_per_pass_s.kind == "assumed"


def test_the_file_gives_the_fitted_times_back(tmp_path):
    """Written, read again and predicted with: the same times to the last digits."""
    found = calibrate(three_sizes(np.random.default_rng(0)), runtime=RUNTIME)
    path = tmp_path / "mine.toml"
    path.write_text(as_toml(found.runtime))
    assert check(str(path)) == []
    mine = load_runtime(str(path))
    assert mine == found.runtime.model_copy(update={"id": "mine"})
    for row in found.times:
        if row.sort == "pass" and row.width == 1:
            result = predict(device=DEVICE, runtime=str(path), target=row.model, prompt_tokens=1,
                             output_tokens=9, axes={"context": row.context}, intervals=False)  # fmt: skip
            assert result["tpot_s"] == pytest.approx(row.fitted_s, rel=1e-9)
            continue
        prompt = row.width if row.sort == "prefill" else 1.0
        params = lower(device=DEVICE, target=row.model, runtime=str(path)).bind(prompt_tokens=prompt,
                                                                              output_tokens=2.0)  # fmt: skip
        time = params.target_prefill().time_s if row.sort == "prefill" else (
            params.verify_cost(row.width).time_at(row.context)
        )  # fmt: skip
        assert float(time) == pytest.approx(row.fitted_s, rel=1e-9)


def test_the_profile_carries_its_evidence(tmp_path):
    path = tmp_path / "run.csv"
    path.write_text("what was measured\n")
    file = sample("gemma_4_e2b")
    file = type(file)(**{**vars(file), "source": str(path)})
    found = calibrate([file], runtime=RUNTIME, date="2031-02-03")
    (reference,) = found.runtime.references.values()
    assert str(tmp_path) not in as_toml(found.runtime)
    assert reference.title == "Measurement file run.csv (generic_csv)"
    for word in (hashlib.sha256(path.read_bytes()).hexdigest(), "2031-02-03", "gemma_4_e2b", DEVICE):
        assert word in reference.note
    for row in found.fields:
        if row.status == FITTED and row.field in FIELDS:
            assert getattr(found.runtime, row.field).kind == "measured"
    assert found.runtime.verify_curve.kind == "measured"
    assert found.runtime.measured_socs == ("tensor_g4",)


def test_numbers_of_another_chip_become_assumed():
    """A start that was never seen on this chip lends no measured numbers."""
    files = [sample(target, device="pixel_10", runtime=RUNTIME) for target in ("gemma_4_e2b", "gemma_4_e4b")]
    found = calibrate(files, runtime=RUNTIME)
    for name in ("floor_per_step_s", "floor_per_draft_pass_s", "prefill_skips_shared_kv_layers"):
        assert getattr(found.runtime, name).kind == "assumed"
    assert found.runtime.mbu_large.kind == "measured"
    assert found.runtime.measured_socs == ("tensor_g5",)


def test_only_width_one_keeps_the_curve():
    files = [sample(target, points=[(1, n) for n in CONTEXTS]) for target in SIZES]
    found = calibrate(files, runtime=RUNTIME)
    assert found.runtime.verify_curve == load_runtime(RUNTIME).verify_curve
    assert any("Only passes of width 1" in note for note in found.notes)


def test_a_model_of_which_only_the_weights_are_known():
    passes = [plain_pass(w * 30, width=w, line=w + 1, stderr=0.3) for w in (1, 2, 4)]
    found = calibrate([a_file(*passes, model="some 8B Q4", weight_bytes=1.5e9)], runtime=RUNTIME)
    assert by_field(found)["mbu_kv"].status == FOLLOWS
    assert "nothing measured depends on it" in by_field(found)["mbu_kv"].reason
    assert found.residual < 1e-3
    assert any("only the 1.5 GB of weights are known" in note for note in found.notes)


def test_times_without_an_error_and_with_zero_count_alike():
    noted, silent = (
        calibrate([a_file(*(plain_pass(t, width=w, line=w, stderr=error) for w, t in ((1, 90), (2, 130))))],
                  runtime=RUNTIME)
        for error in (None, 0.0)
    )  # fmt: skip
    assert [row.value for row in noted.fields] == [row.value for row in silent.fields]
    assert any("without a standard error" in note for note in silent.notes)
    curve = noted.runtime.verify_curve
    assert curve.high[1][1] / curve.low[1][1] > 1.2


def test_an_error_that_no_clock_has_counts_as_the_floor():
    time = PrefillTime(tokens=1, seconds=2.0, stderr_s=1e-308, where="x")
    assert error_of(time) == pytest.approx(2e-6)
    assert error_of(PrefillTime(tokens=1, seconds=2.0, stderr_s=0.1, where="x")) == 0.1


def test_equations_without_a_solution_are_one_clear_error(monkeypatch):
    def singular(matrix):
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr(np.linalg, "inv", singular)
    with pytest.raises(DraftscopeError, match=r"cannot be fitted together \(Singular matrix\)"):
        calibrate([sample("gemma_4_e2b")], runtime=RUNTIME)


def test_prefills_behind_a_cached_prompt_are_left_out():
    file = sample("gemma_4_e2b")
    late = PrefillTime(tokens=100, seconds=9.0, context=500, where="x.csv:9")
    file = type(file)(**{**vars(file), "prefills": (*file.prefills, late)})
    found = calibrate([file], runtime=RUNTIME)
    assert sum(row.sort == "prefill" for row in found.times) == 2
    assert any("cached prompt" in note for note in found.notes)


@pytest.mark.parametrize(
    ("files", "options", "words"),
    [
        ([], {}, "no file given"),
        ([a_file()], {}, "no time of a target pass"),
        ([a_file(plain_pass(90, width=4))], {}, r"width 4 only.*plain decoding"),
        ([a_file(plain_pass(90)), a_file(plain_pass(90), device="pixel_10")], {}, "files of 2 devices"),
        ([a_file(plain_pass(90))], {"device": "pixel_10"}, "measured on 'pixel_9'"),
        ([a_file(plain_pass(90), device="Fairphone 9")], {}, r"--device: missing.*Fairphone 9"),
        ([a_file(plain_pass(90))], {"device": "pixel_99"}, "unknown device 'pixel_99'"),
        ([a_file(plain_pass(90), model="gemma_4_e2")], {}, r"no weight_bytes.*Did you mean 'gemma_4_e2b'"),
        ([a_file(plain_pass(90), model=None)], {}, "model"),
        ([a_file(plain_pass(90)), a_file(plain_pass(90), model="gemma_4_e4b")], {"targets": ["gemma_4_e2b"]},
         "files of 2 models"),
        ([a_file(plain_pass(90))], {"targets": ["gemma_4_e2b", "gemma_4_e4b"]}, "2 given for 1 files"),
        ([a_file(plain_pass(90), model="m", weight_bytes=1e9),
          a_file(plain_pass(90), model="m", weight_bytes=2e9)], {}, r"weight_bytes.*one build"),
        ([a_file(plain_pass(90), plain_pass(290, line=7))], {}, r"x.csv:2 and x.csv:7.*contradict"),
        ([a_file(plain_pass(1))], {}, r"x.csv:2: a pass of 1 ms.*at least"),
        ([a_file(plain_pass(90))], {"runtime": "ideal"}, "roofline"),
        ([a_file(plain_pass(90))], {"runtime": "litert"}, "unknown runtime"),
        ([a_file(plain_pass(90))], {"loss": "huber"}, "loss: unknown name 'huber'"),
    ],
)  # fmt: skip
def test_bad_input_is_one_clear_error(files, options, words):
    with pytest.raises(ValueError, match=words) as caught:
        calibrate(files, **{"runtime": RUNTIME, **options})
    assert isinstance(caught.value, DraftscopeError) or type(caught.value).__module__ == "hw_profiles.errors"


def test_not_a_number_never_enters():
    with pytest.raises(DraftscopeError, match=r"x.csv:2: seconds: given nan"):
        plain_pass(float("nan"))


def test_several_names_of_one_device_are_fine_when_it_is_said():
    files = [a_file(plain_pass(90), device="ARMv9 8 cores"), a_file(plain_pass(91, line=3), device="husky")]
    assert calibrate(files, device=DEVICE, runtime=RUNTIME).device_id == DEVICE


def test_identified_takes_the_most_telling_and_names_what_hides_the_rest():
    one, two = np.array([3.0, 0, 0]), np.array([0, 2.0, 0])
    slopes = np.zeros((3, len(FIELDS)))
    slopes[:, 0], slopes[:, 3], slopes[:, 4] = one, one * 0.9, two
    slopes[2, 5] = 0.1
    chosen, why = identified(slopes, np.zeros((3, 0)), range(len(FIELDS)))
    assert chosen == [0, 4]
    assert why[3] == "cannot be told from mbu_large"
    assert why[5].startswith("the data are too coarse") and why[1].startswith("nothing measured")
    chosen, why = identified(slopes, two[:, None], [0, 3, 4])
    assert chosen == [0] and why[4] == "cannot be told from verify_curve"
    assert why[6] == "the start states no range"


def run(**fields):
    given = {"drafter": "gemma_4_e2b_assistant", "draft_length": 3, "steps": 64, "output_tokens": 128,
             "decode_s": 20.0, "baseline_tokens_per_s": 5.0, "where": "x.csv:50", **fields}  # fmt: skip
    return SpeculativeRun(**given)


def test_speculative_runs_are_predicted_and_never_fitted():
    file = sample("gemma_4_e2b")
    with_runs = type(file)(**{**vars(file), "runs": (
        run(), run(decode_s=1.0), run(drafter="mystery"), run(draft_length=None),
        run(baseline_tokens_per_s=None), run(steps=20), run(steps=None, accepted_tokens=64.0),
        run(steps=None, per_position_acceptance_rate=(0.6, 0.4, 0.2), output_tokens=None),
    )})  # fmt: skip
    plain, found = (calibrate([each], runtime=RUNTIME, date="2030-01-01") for each in (file, with_runs))
    assert plain.fields == found.fields
    assert plain.held_out == ()
    status = [row.status for row in found.held_out]
    assert status == [SCORED, INCONSISTENT, SKIPPED, SKIPPED, PREDICTED, SKIPPED, SCORED, PREDICTED]
    scored = found.held_out[0]
    assert scored.tokens_per_step == pytest.approx(2)
    assert scored.measured_speedup == pytest.approx(128 / 20 / 5)
    assert scored.error == pytest.approx(scored.predicted_speedup / scored.measured_speedup - 1)
    assert scored.low < scored.predicted_speedup < scored.high
    assert "unknown name 'mystery'" in found.held_out[2].reason
    assert found.held_out[7].tokens_per_step == pytest.approx(2.2)
