"""Predictions of other people's measurements, judged: what is asked, how it is predicted and scored."""

from simulator.studies.validation.modes import MODES, Verdict, validate
from simulator.studies.validation.report import report
from simulator.studies.validation.scores import Summary, summarise
from simulator.studies.validation.table import Measured, read_measurements, shipped_measurements

__all__ = [
    "MODES",
    "Measured",
    "Summary",
    "Verdict",
    "read_measurements",
    "report",
    "shipped_measurements",
    "summarise",
    "validate",
]
