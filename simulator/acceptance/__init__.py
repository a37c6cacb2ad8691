"""How many drafts a target accepts: replayed traces and models of acceptance; it does not know cost.

Files are read and written by `simulator.acceptance.trace` and `simulator.acceptance.steps` (they need
pyarrow).
"""

from simulator.acceptance.base import Acceptance, AcceptanceError, TransferError, sample_accepted
from simulator.acceptance.iid import IidAcceptance, LengthAcceptance
from simulator.acceptance.positional import PositionalAcceptance
from simulator.acceptance.published import PublishedAcceptance, list_published, load_published
from simulator.acceptance.replay import StepTable, anchors, replay, replay_many
from simulator.acceptance.schema import Trace, TraceError, TraceMetadata, trace_from_columns
from simulator.acceptance.statistics import AcceptanceStatistics, bootstrap, statistics_of, walk
from simulator.acceptance.summary import diff, is_regression, summarise
from simulator.acceptance.traced import TraceAcceptance

__all__ = [
    "Acceptance",
    "AcceptanceError",
    "AcceptanceStatistics",
    "IidAcceptance",
    "LengthAcceptance",
    "PositionalAcceptance",
    "PublishedAcceptance",
    "StepTable",
    "Trace",
    "TraceAcceptance",
    "TraceError",
    "TraceMetadata",
    "TransferError",
    "anchors",
    "bootstrap",
    "diff",
    "is_regression",
    "list_published",
    "load_published",
    "replay",
    "replay_many",
    "sample_accepted",
    "statistics_of",
    "summarise",
    "trace_from_columns",
    "walk",
]
