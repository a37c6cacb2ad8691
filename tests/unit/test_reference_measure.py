"""Measuring with tiny models: what is timed, that nothing is lost, and what the journal refuses."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise

import pytest

torch = pytest.importorskip("torch")

from reference_impl.decode import decode  # noqa: E402
from reference_impl.errors import ReferenceImplError  # noqa: E402
from reference_impl.measure import PLAIN, Journal, Settings, chosen, measure, plan  # noqa: E402
from reference_impl.measure_meter import CLOCKS, Rapl, Watched  # noqa: E402
from reference_impl.measure_parts import TINY_LAYERS, bandwidth, floors, one_pass, tiny_model  # noqa: E402
from simulator.errors import UnknownNameError  # noqa: E402
from tests.reference_samples import tiny_backbone, tiny_drafters, tiny_prompts  # noqa: E402

DRAFTERS = ("mtp_head", "standalone_body", "ngram")


class Target:
    """The tiny backbone, with prompts of a few tokens."""

    def __init__(self) -> None:
        self.backbone = tiny_backbone()

    def encode_chat(self, messages):
        return [1 + len(messages[-1]["content"]) % 90, 5, 7, 9, 11]


def settings(**changes):
    given = {
        "dtype": "float32", "threads": 1, "clock": "wall", "drafters": DRAFTERS, "draft_lengths": (1, 3),
        "contexts": (16, 32), "widths": (1, 2, 4), "tasks": ("chat", "code"), "prompts": 1, "new_tokens": 8,
    }  # fmt: skip
    return Settings(**{**given, **changes})


def run(path, asked, **options):
    target = Target()
    journal = Journal(path, asked)
    measure(target, tiny_drafters(target.backbone)[:3], asked, journal, bandwidth_bytes=2**16, **options)
    return journal


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    return run(tmp_path_factory.mktemp("measured") / "journal.jsonl", settings())


def test_every_round_has_every_arm_with_plain_runs_in_between():
    asked = settings(draft_lengths=tuple(range(1, 9)), prompts=2)
    units = plan(asked)
    assert len({unit.name for unit in units}) == len(units)
    orders = []
    for number in range(4):
        inside = [unit for unit in units if unit.round == number]
        assert [unit.part for unit in inside[:2]] == ["machine", "passes"]
        arms = [(unit.drafter, unit.draft_length) for unit in inside[2:]]
        speculative = [arm for arm in arms if arm[0] != PLAIN]
        assert sorted(speculative) == sorted((d, k) for d in DRAFTERS for k in range(1, 9))
        assert arms[0][0] == arms[-1][0] == PLAIN
        gaps = [i for i, arm in enumerate(arms) if arm[0] == PLAIN]
        assert max(b - a for a, b in pairwise(gaps)) <= 5
        orders.append(speculative)
    assert len({tuple(order) for order in orders}) == 4
    assert plan(asked) == units


def test_what_is_timed(measured):
    kinds = Counter(each["kind"] for each in measured.samples)
    # two rounds, two contexts, three widths; head 1, standalone 2 widths; 2 prefills; 6 arms and 3 plain runs
    assert kinds == {"bandwidth": 6, "floor": 4, "step_host": 2, "pass": 12, "draft_pass": 12, "prefill": 4,
                     "run": 18}  # fmt: skip
    assert all(each.get("seconds", 1) > 0 for each in measured.samples if each["kind"] != "step_host")
    draft = Counter((e["drafter"], e["width"]) for e in measured.samples if e["kind"] == "draft_pass")
    assert draft == {("mtp_head", 1): 4, ("standalone_body", 1): 4, ("standalone_body", 2): 4}


def test_runs_count_what_was_decoded(measured):
    runs = [each for each in measured.samples if each["kind"] == "run"]
    assert len({(each["request"], each["text"]) for each in runs}) == 2  # one text a prompt, whatever the arm
    for each in runs:
        assert each["energy_j"] is None or each["energy_j"] >= 0
        if each["drafter"] == PLAIN:
            assert "steps" not in each and each["draft_s"] == 0
            continue
        assert sum(emitted for *_, emitted in each["steps"]) == each["output_tokens"]
        assert each["draft_s"] < each["seconds"]
        if each["drafter"] != "ngram":
            assert {proposed for _, proposed, _, _ in each["steps"]} == {each["draft_length"]}


def test_a_stopped_run_goes_on_and_loses_nothing(tmp_path):
    path, lines = tmp_path / "journal.jsonl", []

    def stop(_line):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"of 22 units are kept in .*journal.jsonl; the same command"):
        run(path, settings(), report=stop)
    kept = path.read_text()
    with path.open("a") as file:
        file.write('{"unit": "run/1/mtp')  # killed while it wrote
    done = run(path, settings(), report=lines.append)
    assert any(line.startswith("going on: 11 of 22 units") for line in lines)
    assert path.read_text().startswith(kept)
    assert len(done.samples) == 58
    before = path.read_text()
    run(path, settings())
    assert path.read_text() == before


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "new_tokens 9, there 8"),
        ("", "is no journal"),
        ('{"unit": 1}\n', "is no journal"),
        ('{"schema_version": 2, "settings": {}}\n', "new_tokens 9, there None"),
        ("not json\n", "is no journal"),
        ('{"schema_version": 1}\n[]\n', "is no journal"),
    ],
)
def test_journals_that_are_refused(tmp_path, content, words):
    path = tmp_path / "journal.jsonl"
    if content is None:
        Journal(path, settings())
    else:
        path.write_text(content)
    with pytest.raises(ReferenceImplError, match=words) as caught:
        Journal(path, settings(new_tokens=9))
    assert str(path) in str(caught.value)


def test_drafters_by_name():
    shipped = tiny_drafters(tiny_backbone())
    assert [each.id for each in chosen(("ngram", "mtp_head"), shipped)] == ["ngram", "mtp_head"]
    with pytest.raises(UnknownNameError, match=r"--drafters.*'mtp'.*'mtp_head'"):
        chosen(("mtp",), shipped)


def test_a_watched_drafter_changes_nothing_and_counts_its_time():
    backbone = tiny_backbone()
    prompt = tiny_prompts(1)[0]
    plain = decode(backbone, prompt, max_new_tokens=12)
    ticks = iter(range(10_000))
    watched = Watched(None, lambda: next(ticks))
    assert decode(backbone, prompt, watched, draft_length=0, max_new_tokens=12).tokens == plain.tokens
    assert watched.draft_s == 0
    assert watched.taken()[0] == 1  # the clock was read at the end of prefill and now


def test_tiny_models_have_the_layers_and_heads_asked_for():
    config = tiny_backbone().config
    for layers in TINY_LAYERS:
        model = tiny_model(config, layers, torch.float32)
        assert model.config.num_hidden_layers == layers
        assert model.config.num_attention_heads == config.num_attention_heads
        assert one_pass(model, [1, 2], model.new_cache(capacity=8), 0) == [0, 0]
    found = floors(tiny_backbone(), CLOCKS["wall"], repeats=3)
    few, many = (each["seconds"] for each in found if each["kind"] == "floor")
    assert many > few


def test_a_copy_counts_twice():
    ticks = iter(range(1000))
    found = {each["method"]: each["bytes_per_s"]
             for each in bandwidth(lambda: next(ticks), size=2**14, repeats=2)}  # fmt: skip
    assert found == {"copy": 2**15, "sum": 2**14, "matrix times vector": 2**14}


def test_energy_counters(tmp_path):
    assert Rapl.found(tmp_path).joules((), ()) is None
    assert "no RAPL counter" in Rapl.found(tmp_path).reason
    for name, value in (("intel-rapl:0", 900), ("intel-rapl:0:0", 5), ("intel-rapl:1", 100)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "energy_uj").write_text(f"{value}\n")
        (tmp_path / name / "max_energy_range_uj").write_text("1000\n")
    rapl = Rapl.found(tmp_path)
    before = rapl.read()
    assert before == (900, 100)
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text("50\n")  # went round
    (tmp_path / "intel-rapl:1" / "energy_uj").write_text("300\n")
    assert rapl.joules(before, rapl.read()) == pytest.approx(350e-6)
    (tmp_path / "intel-rapl:1" / "energy_uj").write_text("")
    assert "cannot be read" in Rapl.found(tmp_path).reason


def test_the_journal_is_json_lines(measured):
    head, *entries = [json.loads(line) for line in measured.path.read_text().splitlines()]
    assert head["settings"]["drafters"] == list(DRAFTERS)
    assert len(entries) == 22 and all(entry["samples"] for entry in entries)
