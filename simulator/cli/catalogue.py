"""Names that --target, --drafter and --acceptance understand, as records and tables; it predicts nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from simulator.cli.output import table

Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """One kind of names.

    Attributes
    ----------
    records : callable
        Every name with what is known of it.
    head : tuple of str
        Columns for people.
    row : callable
        Cells of a record.
    """

    records: Callable[[], list[Record]]
    head: tuple[str, ...]
    row: Callable[[Record], tuple[str, ...]]

    def table(self, records: Sequence[Record]) -> str:
        """Records as a table for people."""
        return table(self.head, [self.row(record) for record in records], left=len(self.head))


def _targets() -> list[Record]:
    from simulator.specs import TARGET_SCHEMES, list_targets, load_target

    records = []
    for name in list_targets():
        spec = load_target(name)
        records.append({
            "id": name, "name": spec.name, "build": spec.quant.name,
            "builds": list(dict.fromkeys([*spec.quant_schemes, *TARGET_SCHEMES])),
            "weight_bytes": spec.weight_bytes(), "max_context": spec.max_position_embeddings,
        })  # fmt: skip
    return records


def _drafters() -> list[Record]:
    from simulator.drafters import list_drafters, load_drafter_spec

    records = []
    for name in list_drafters():
        spec = load_drafter_spec(name)
        records.append({
            "id": name, "name": spec.label or name, "family": spec.family, "targets": list(spec.targets),
            "trace": spec.trace_id or None, "published_as": spec.published_as or None,
        })  # fmt: skip
    return records


def _acceptances() -> list[Record]:
    from simulator.acceptance.published import list_published, load_published

    records = []
    for name in list_published():
        model = load_published(name)
        lengths = model.published_draft_lengths
        records.append({
            "id": name, "publication": model.sources[0], "target": model.target_id, "drafter": model.drafter,
            "family": model.drafter_family, "task": model.task, "kind": model.kind,
            "mean_acceptance_length": {k: float(model.mean_acceptance_length(k)) for k in lengths},
        })  # fmt: skip
    return sorted(records, key=lambda record: (record["publication"], record["id"]))


def _of_any(targets: Sequence[str]) -> str:
    return "any" if "*" in targets else ", ".join(targets)


def _lengths(record: Record) -> str:
    return ", ".join(f"K={k}: {length:.2f}" for k, length in record["mean_acceptance_length"].items())


CATALOGUES = {
    "targets": Catalogue(
        records=_targets,
        head=("target", "name", "build", "weights MiB", "context limit"),
        row=lambda row: (row["id"], row["name"], row["build"], f"{row['weight_bytes'] / 2**20:,.0f}",
                         f"{row['max_context']:,}"),
    ),
    "drafters": Catalogue(
        records=_drafters,
        head=("drafter", "name", "family", "for target", "trace"),
        row=lambda row: (row["id"], row["name"], row["family"], _of_any(row["targets"]), row["trace"] or "-"),
    ),
    "acceptances": Catalogue(
        records=_acceptances,
        head=("acceptance", "publication", "target", "family", "mean acceptance length"),
        row=lambda row: (row["id"], row["publication"], row["target"] or "any", row["family"], _lengths(row)),
    ),
}  # fmt: skip
"""By the word that ``draftscope profiles list`` takes."""
