"""From samples to a runtime and a comparison: made-up times come back, and runs stay out."""

from __future__ import annotations

import dataclasses
import json
import sys

import numpy as np
import pytest

from hw_profiles import load_runtime
from hw_profiles.views import check
from simulator.adapters.measured import bandwidths, observations_of, peak_bandwidth, plain_seconds_per_token
from simulator.adapters.observations import MeasurementError, read_observations
from simulator.analytic import predict
from simulator.cli import measure as command
from simulator.lowering import lower
from simulator.studies import calibrate as calibration
from simulator.studies.live import steps_of

TARGET, DEVICE, BUILD = "smollm2_135m@bf16", "generic:20", "bf16"
DRAFTERS = {
    "mtp_head": "smollm2_mtp_head@bf16", "standalone_body": "smollm2_standalone_body@bf16", "ngram": "ngram",
}  # fmt: skip
TRUE = {
    "mbu_large": 0.7, "mbu_small": 0.5, "mbu_kv": 0.2, "floor_per_pass_s": 4e-4, "floor_per_layer_s": 1.5e-4,
    "floor_per_draft_pass_s": 6e-4, "host_per_row_s": 1e-4, "floor_per_step_s": 2e-5,
    "prefill_macs_per_s_fraction": 0.2, "prefill_floor_s": 4e-3,
}  # fmt: skip
CURVE = {1: 1.0, 2: 1.1, 3: 1.15, 5: 1.2, 9: 1.5}
REQUESTS = {"chat/test/0/00000": 90, "code/test/0/00000": 250}


def the_machine():
    """A runtime with the true numbers, as an object that predictions take."""
    prior = load_runtime("prior_cpu")
    like = prior.floor_per_pass_s
    new = {name: (getattr(prior, name) or like).model_copy(update={"value": value, "low": None, "high": None,
                                                                  "kind": "measured"})
           for name, value in TRUE.items() if name in type(prior).model_fields}  # fmt: skip
    sizes = {"large_model_bytes": 269e6, "small_model_bytes": 23.8e6}
    new |= {name: getattr(prior, name).model_copy(update={"value": value}) for name, value in sizes.items()}
    curve = prior.verify_curve.model_copy(
        update={"value": tuple((float(w), c) for w, c in CURVE.items()), "low": None, "high": None}
    )
    return prior.model_copy(update={**new, "verify_curve": curve, "devices": ("*",)})


def samples(*, noise=0.0, stretch_runs=1.0):
    """What `reference_impl.measure` would give on that machine."""
    rng = np.random.default_rng(0)
    machine = the_machine()

    def seen(seconds):
        return float(seconds) * (1 + noise * rng.standard_normal())

    cases = {name: lower(device=DEVICE, target=TARGET, runtime=machine, drafter=drafter)
             .bind(prompt_tokens=64.0, output_tokens=2.0) for name, drafter in DRAFTERS.items()}  # fmt: skip
    plain = cases["ngram"]
    found = []
    for _ in range(6):
        found += [{"kind": "bandwidth", "method": method, "bytes_per_s": rate}
                  for method, rate in (("copy", 20e9), ("sum", 17e9))]  # fmt: skip
        per_pass, per_layer = TRUE["floor_per_pass_s"], TRUE["floor_per_layer_s"]
        found += [{"kind": "floor", "layers": n, "seconds": per_pass + n * per_layer} for n in (2, 32)]
        found.append({"kind": "step_host", "seconds": 2e-5})
        for context in (64, 1024):
            found += [{"kind": "pass", "width": width, "context": context,
                       "seconds": seen(plain.verify_cost(width).time_at(context))}
                      for width in CURVE]  # fmt: skip
            for name, widths in (("mtp_head", (1,)), ("standalone_body", (1, 2))):
                found += [{"kind": "draft_pass", "drafter": name, "width": width, "context": context,
                           "seconds": seen(cases[name].draft_cost(width).time_at(context))}
                          for width in widths]  # fmt: skip
        for tokens in (64, 1024):
            case = lower(device=DEVICE, target=TARGET, runtime=machine).bind(
                prompt_tokens=float(tokens), output_tokens=2.0
            )
            found.append({"kind": "prefill", "tokens": tokens, "seconds": seen(case.target_prefill().time_s)})
    return [*found, *runs(cases, stretch_runs)]


def runs(cases, stretch):
    """Plain and speculative runs of every request; of K drafts 0, 1, ... K, 0, ... are accepted in turn."""
    found = []
    for request, prompt in REQUESTS.items():
        about = {"kind": "run", "task": request.partition("/")[0], "request": request,
                 "prompt_tokens": prompt, "energy_j": None, "text": 1}  # fmt: skip
        for _ in range(3):
            cost = cases["ngram"].verify_cost(1)
            found.append({**about, "drafter": "none", "draft_length": 0, "output_tokens": 40, "draft_s": 0.0,
                          "seconds": float(sum(cost.time_at(prompt + i) for i in range(40)))})  # fmt: skip
        for name, params in cases.items():
            for length in (1, 2, 4, 8):
                context, seconds, draft_s, steps = prompt, 0.0, 0.0, []
                full = False
                for turn in range(20):
                    proposed = length if name != "ngram" or turn % 2 else 0
                    accepted = min(turn % (length + 1), proposed)
                    if name != "ngram":
                        first = params.draft_cost(2 if full and name == "standalone_body" else 1)
                        moves = name == "standalone_body"
                        drafts = [first.time_at(context)] + [
                            params.draft_cost(1).time_at(context + moves * i) for i in range(1, proposed)
                        ]
                        draft_s += float(sum(drafts))
                    seconds += float(params.verify_cost(proposed + 1).time_at(context)) + 2e-5
                    full = accepted == proposed > 0
                    steps.append([context, proposed, accepted, accepted + 1])
                    context += accepted + 1
                found.append({**about, "drafter": name, "draft_length": length, "steps": steps,
                              "output_tokens": context - prompt, "draft_s": draft_s * stretch,
                              "seconds": (seconds + draft_s) * stretch})  # fmt: skip
    return found


def evaluate(folder, taken):
    return command.evaluate(taken, out=folder, target=TARGET, build=BUILD, drafters=list(DRAFTERS), about="t")


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    folder = tmp_path_factory.mktemp("measured")
    return folder, *evaluate(folder, samples(noise=1e-3))


def test_a_known_machine_is_predicted(exact):
    """Counts of a run and a runtime calibrated without it give its time: drafts, catching up, wide passes."""
    _, rows, _, extra = exact
    assert len(rows) == 3 * 4
    for row in rows:
        assert row.error == pytest.approx(0, abs=0.01), row
        assert row.predicted_draft_s == pytest.approx(row.draft_s, rel=0.02, abs=1e-6)
        assert row.measured_low <= row.measured_speedup <= row.measured_high
    assert extra["median_error"] < 0.005
    assert extra["device"] == "generic:20"
    lookups = [row for row in rows if row.drafter == "ngram"]
    assert all(row.predicted_from_length < row.predicted_speedup for row in lookups)


def test_fields_come_back_from_passes_of_target_and_drafters(exact):
    found = load_runtime(str(exact[0] / "runtime.toml"))
    for name in ("mbu_large", "mbu_kv", "floor_per_layer_s", "prefill_macs_per_s_fraction"):
        assert getattr(found, name).value == pytest.approx(TRUE[name], rel=0.1), name
    assert found.floor_per_layer_s.kind == "measured"
    assert found.devices == ("*",)
    assert not [problem for name in ("runtime", "start") for problem in check(str(exact[0] / f"{name}.toml"))]


def test_calibration_sees_no_speculative_run(tmp_path, monkeypatch):
    """Runs twice as slow change what is compared, and not a byte of the profile but the file's hash."""
    seen = []
    original = calibration.calibrate

    def watched(files, **options):
        seen.extend(files)
        return original(files, **options)

    monkeypatch.setattr(calibration, "calibrate", watched)
    rows, profiles = {}, {}
    for factor in (1.0, 2.0):
        folder = tmp_path / str(factor)
        taken = samples(noise=0.01, stretch_runs=factor)
        rows[factor] = evaluate(folder, taken)[0]
        profiles[factor] = load_runtime(str(folder / "runtime.toml"))
    assert len(seen) == 2
    assert all(not file.runs and file.passes and file.draft_passes for file in seen)
    assert seen[0].passes == seen[1].passes
    one, two = (dict(profile.model_dump(exclude={"references"})) for profile in profiles.values())
    assert one == two
    for before, after in zip(rows[1.0], rows[2.0], strict=True):
        assert after.measured_speedup == pytest.approx(before.measured_speedup / 2)
        assert after.predicted_speedup == before.predicted_speedup


def test_the_file_holds_the_runs_and_predict_takes_the_profile(exact):
    folder, _, notes, extra = exact
    file = read_observations(folder / "measurement.json")
    assert len(file.runs) == 2 * 12 and len(file.draft_passes) == 6
    run = next(each for each in file.runs if each.drafter == DRAFTERS["mtp_head"] and each.draft_length == 4)
    assert run.output_tokens == run.accepted_tokens + run.steps
    assert any("RAPL" in note for note in notes)
    assert json.loads(json.dumps(extra)) == extra
    found = predict(device=DEVICE, target=TARGET, drafter=DRAFTERS["mtp_head"], acceptance=0.7,
                    runtime=extra["runtime"], draft_length=4, prompt_tokens=64, output_tokens=64)  # fmt: skip
    low, high = found.intervals["speedup"]
    assert 0 < low < found["speedup"] < high
    text = command.as_markdown(*exact[1:])
    assert "Median error of the predicted speedup: 0." in text and "draftscope predict --device" in text


def test_samples_become_medians():
    taken = [{"kind": "pass", "width": 1, "context": 64, "seconds": value} for value in (1.0, 2.0, 9.0)]
    taken += [{"kind": "bandwidth", "method": m, "bytes_per_s": v}
              for m, v in (("copy", 3e9), ("sum", 5e9), ("copy", 7e9))]  # fmt: skip
    taken += [{"kind": "run", "drafter": "none", "request": "r", "task": "t", "prompt_tokens": 10,
               "output_tokens": 5, "seconds": s, "energy_j": 2.0} for s in (10.0, 5.0)]  # fmt: skip
    found = observations_of(taken, source="x", device="d", runtime="r", model="m", drafters={},
                            weight_bytes=1.0, notes=["n"])  # fmt: skip
    one, plain = found.passes
    assert (one.seconds, one.passes) == (2.0, 3) and one.stderr_s == pytest.approx(1.2533 * 1.4826 / 3**0.5)
    assert (plain.width, plain.context, plain.seconds, plain.passes) == (1, 12, 1.5, 10)
    assert bandwidths(taken) == {"copy": 5e9, "sum": 5e9}
    assert plain_seconds_per_token(taken) == {"r": 1.5}
    with pytest.raises(MeasurementError, match="bandwidth was not measured"):
        peak_bandwidth([])


def test_energy_is_told_per_token():
    taken = [{"kind": "run", "drafter": name, "draft_length": k, "output_tokens": 4, "energy_j": joules}
             for name, k, joules in (("none", 0, 8.0), ("mtp_head", 2, 4.0))]  # fmt: skip
    assert "plain decoding 2e+03 mJ, mtp_head 1e+03 mJ" in command._energy_note(taken)


def test_steps_of_several_requests_stay_apart():
    table = steps_of([
        {"request": "a", "task": "t", "steps": [[10, 2, 2, 3], [13, 2, 0, 1]]},
        {"request": "b", "task": "t", "steps": [[20, 1, 1, 2]]},
    ])  # fmt: skip
    assert table.n_requests == 2 and list(table.request) == [0, 0, 1]
    assert list(table.remaining) == [4, 1, 2] and list(table.draft_passes) == [2, 2, 1]


def test_draft_passes_need_a_known_target(exact):
    from simulator.errors import DraftscopeError

    file = command.without_runs(read_observations(exact[0] / "measurement.json"))
    unknown = dataclasses.replace(file, model="mystery")
    with pytest.raises(DraftscopeError, match=r"a pass of drafter .* --target"):
        calibration.calibrate([unknown], device=DEVICE, runtime=str(exact[0] / "start.toml"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--clock", "cpuu"), ("--clock", "'cpu'")),
        (("--dtype", "bf16"), ("--dtype", "'bfloat16'")),
        (("--draft-length", "0"), ("--draft-length", "whole numbers >= 1")),
        (("--prompts", "x"), ("--prompts", "whole numbers >= 1")),
        (("--threads", "0"), ("--threads", "whole numbers >= 1")),
        (("--drafters", ","), ("--drafters", "nothing given")),
        (("--output", "xml"), ("--output", "'xml'")),
        (("--quik",), ("--quick",)),
    ],
    ids=lambda value: " ".join(value),
)
def test_bad_options_are_refused_before_torch_is_loaded(draftscope, tmp_path, monkeypatch, options, words):
    monkeypatch.setitem(sys.modules, "torch", None)
    ran = draftscope("measure", "--out", tmp_path / "m", *options)
    assert ran.code == 2 and not ran.out
    assert all(word in ran.err for word in words), ran.err
    assert not (tmp_path / "m").exists()


def test_without_torch_it_says_what_to_install(draftscope, tmp_path, monkeypatch):
    for name in list(sys.modules):
        if name.partition(".")[0] == "reference_impl":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    ran = draftscope("measure", "--out", tmp_path / "m")
    assert ran.code == 2 and len(ran.err.splitlines()) == 1
    assert "[reference]'" in ran.err and "'torch'" in ran.err


def test_out_must_be_a_folder(draftscope, tmp_path):
    file = tmp_path / "m.json"
    file.write_text("kept")
    ran = draftscope("measure", "--out", file)
    assert ran.code == 2 and "is a file; allowed: a folder" in ran.err
    assert file.read_text() == "kept"
    assert draftscope("measure").code == 2
