"""Reports of practitioners, predicted: every check gives the verdict that its file states."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tests.field_report_checks import CHECKS, Asked
from tests.field_report_page import page
from tests.field_reports import (
    FOLDER,
    INSIDE,
    MISSED,
    RIGHT,
    Case,
    Check,
    Report,
    read_excluded,
    read_report,
    read_reports,
)

REPORTS = read_reports()


@pytest.fixture(scope="module")
def asked():
    return {stem: Asked(report) for stem, report in REPORTS.items()}


@pytest.mark.parametrize("stem", REPORTS)
def test_verdict(stem, asked):
    each = asked[stem]
    shown = "\n".join(f"{finding.verdict}: {finding.text}" for finding in each.findings)
    assert each.verdict == each.report.verdict, f"{stem}: the file is to be updated\n{shown}"


def test_most_reports_come_out(asked):
    found = [each.verdict for each in asked.values()]
    assert sum(verdict != MISSED for verdict in found) >= 2 * len(found) / 3


def test_numbers_are_those_of_the_files():
    excluded = {each.nr for each in read_excluded()}
    numbers = [report.nr for report in REPORTS.values()]
    assert len(set(numbers)) == len(numbers) and not excluded & set(numbers)
    assert all(int(stem.split("_")[0]) == report.nr for stem, report in REPORTS.items())


def test_every_model_file_is_used():
    text = "".join(path.read_text() for path in FOLDER.glob("*.toml"))
    unused = [path.stem for path in FOLDER.glob("models/*.toml") if f"models/{path.stem}" not in text]
    assert not unused


def test_page_is_what_the_command_writes(asked, repo_root):
    written = (repo_root / "docs/background/field_reports.md").read_text(encoding="utf-8")
    assert written == page(asked, read_excluded()), "run: python docs/build.py field_reports"


CASE = {
    "name": "one", "device": "apple_m4_pro", "runtime": "mlx_metal_wide", "target": "gemma_4_31b",
    "drafter": "gemma_4_31b_assistant@bf16", "draft_length": 3, "tokens_per_pass": 2.1,
}  # fmt: skip
REPORT = {
    "nr": 1, "title": "t", "source": "https://example.org", "happened": "h", "assumed": "a",
    "verdict": "right", "case": [CASE], "check": [{"what": "sign"}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"verdict": "missed"}, "why: missing"),
        ({"check": [{"what": "sign", "cases": ["two"]}]}, "check.cases"),
        ({"check": [{"what": "luck"}]}, "what"),
        ({"case": [CASE, CASE]}, "different names"),
        ({"case": [{**CASE, "acceptance_rate": 0.5}]}, "give one of"),
        ({"date": "today"}, "Extra inputs"),
    ],
)
def test_a_wrong_file_is_refused(changed, message):
    with pytest.raises(ValidationError, match=message):
        Report.model_validate({**REPORT, **changed})


def judged(measured, what="sign", **changes):
    """Verdicts of a made-up report whose speculative speed is ``measured`` times the plain one."""
    cases = [{**CASE, **changes, "name": str(i), "speedup": each} for i, each in enumerate(measured)]
    for i, case in enumerate(cases):
        case["draft_length"] = 3 - i
        case["tokens_per_pass"] = 2.1 - i
    asked = Asked(Report.model_validate({**REPORT, "case": cases, "check": [{"what": what}]}))
    return [finding.verdict for finding in asked.findings]


def test_sign_can_be_wrong_and_inside():
    value = Asked(Report.model_validate(REPORT)).result(Case.model_validate(CASE))
    low, high = value.intervals["speedup"]
    assert low < 0.9 < 1 < float(value["speedup"]) < high
    assert judged([1.5]) == [RIGHT]
    assert judged([(low + 1) / 2]) == [INSIDE]
    assert judged([low / 2]) == [MISSED]


def test_optimum_can_be_wrong():
    assert judged([1.5, 1.1], "optimum") == [RIGHT]
    assert judged([1.1, 9.0], "optimum")[0] in (INSIDE, MISSED)


def test_falls_can_be_wrong():
    report = Report.model_validate(
        {**REPORT, "case": [CASE, {**CASE, "name": "two", "tokens_per_pass": 1.2}]}
    )
    asked = Asked(report)
    for order, verdict in ((("one", "two"), RIGHT), (("two", "one"), MISSED)):
        check = Check.model_validate({"what": "falls", "cases": order})
        assert [finding.verdict for finding in CHECKS["falls"](asked, check)] == [verdict]


def test_a_report_reads_its_own_models():
    report = read_report(FOLDER / "10_gemma_31b_e4b_macbook.toml")
    assert "models/" not in report.case[0].target
    assert report.case[0].arguments()["acceptance"].mean_acceptance_length(3) == pytest.approx(2.1)
