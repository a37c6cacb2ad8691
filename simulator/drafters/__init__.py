"""Registry of drafters: families are files here, instances are TOML files in ``data``; it knows no device."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from simulator.drafters import frozen_mtp, gemma4_assistant, mtp_own_kv, ngram, none, standalone
from simulator.drafters.base import DrafterModel, Part
from simulator.drafters.spec import Built, DrafterSpec, assemble
from simulator.errors import DraftscopeError, UnknownNameError
from simulator.specs import QuantScheme, TargetSpec, list_targets, load_target
from simulator.specs.validation import read_toml, validated

__all__ = [
    "FAMILIES",
    "DrafterModel",
    "DrafterSpec",
    "Part",
    "build_drafter",
    "list_drafters",
    "load_drafter_spec",
]

DATA = Path(__file__).resolve().parent / "data"


Builder = Callable[[Any, TargetSpec, QuantScheme], Built]

FAMILIES: dict[str, tuple[type[DrafterSpec], Builder]] = {
    "none": (none.Spec, none.build),
    "ngram": (ngram.Spec, ngram.build),
    "frozen_mtp": (frozen_mtp.Spec, frozen_mtp.build),
    "mtp_own_kv": (mtp_own_kv.Spec, mtp_own_kv.build),
    "gemma4_assistant": (gemma4_assistant.Spec, gemma4_assistant.build),
    "standalone": (standalone.Spec, standalone.build),
}
"""Family -> fields of its files, and what computes parts and ops."""


def list_drafters(target_id: str | None = None) -> list[str]:
    """Names of the shipped drafters, plain decoding first.

    Parameters
    ----------
    target_id : str, optional
        Only those that work with this target.
    """
    names = sorted((path.stem for path in DATA.glob("*.toml")), key=lambda name: (name != "none", name))
    if target_id is None:
        return names
    return [name for name in names if {"*", target_id} & set(_shipped(name).targets)]


def load_drafter_spec(spec: str | Path | Mapping[str, Any]) -> DrafterSpec:
    """Read a drafter instance: a shipped name, a ``.toml`` file or a dictionary of the same form.

    Raises
    ------
    UnknownNameError
        No such drafter or family; names the nearest.
    DraftscopeError
        A missing, unknown or wrong field.
    """
    if isinstance(spec, Mapping):
        return _validated(dict(spec), f"drafter {spec.get('id', '(dictionary)')}")
    name = str(spec)
    if name in list_drafters():
        return _shipped(name)
    path = Path(name)
    if path.suffix == ".toml":
        return _validated({"id": path.stem, **read_toml(path, "drafter")}, str(path))
    if path.is_file() or (path / "config.json").is_file():
        raise DraftscopeError(
            f"drafter: {name} given; allowed: a name or a .toml file. To draft with this model, write one "
            f'with family = "standalone", kind = "published", model = {json.dumps(name)}.'
        )
    raise UnknownNameError("drafter", name, list_drafters())


def build_drafter(
    spec: str | Path | Mapping[str, Any] | DrafterSpec, target: TargetSpec, *, quant: str | None = None
) -> DrafterModel:
    """Build a drafter for a target.

    Parameters
    ----------
    spec : str, path, mapping or DrafterSpec
        Instance; ``name@scheme`` picks another precision, for example ``gemma_4_e2b_assistant@bf16``.
    target : TargetSpec
        The target that it drafts for.
    quant : str, optional
        Named precision instead of the file's.

    Raises
    ------
    UnknownNameError
        No such drafter, family or precision; names the nearest.
    DraftscopeError
        A wrong file, or a drafter that was made for another target.
    """
    if isinstance(spec, (str, Path)) and "@" in str(spec) and not Path(spec).exists():
        spec, _, named = str(spec).rpartition("@")
        quant = quant or named
    loaded = spec if isinstance(spec, DrafterSpec) else load_drafter_spec(spec)
    if "*" not in loaded.targets and not any(_fits(name, target) for name in loaded.targets):
        own = "" if isinstance(spec, (str, Path)) and str(spec) in list_drafters() else _about_targets(target)
        raise DraftscopeError(
            f"drafter {loaded.id}: made for {', '.join(loaded.targets)}; target {target.id!r} given. {own}"
            f"Allowed for it: {', '.join(list_drafters(target.id))}."
        )
    built = FAMILIES[loaded.family][1](loaded, target, loaded.scheme(quant))
    return assemble(loaded, target, built, own_precision=quant is None)


@lru_cache(maxsize=128)
def _shipped(name: str) -> DrafterSpec:
    return _validated({"id": name, **read_toml(DATA / f"{name}.toml", "drafter")}, f"{name}.toml")


def _validated(data: dict[str, Any], where: str) -> DrafterSpec:
    family = data.get("family")
    allowed = ", ".join(sorted(FAMILIES))
    if family is None:
        raise DraftscopeError(f"{where}: family: missing, and required. Allowed: {allowed}.")
    if family not in FAMILIES:
        raise UnknownNameError(f"{where}: family", family, FAMILIES)
    return validated(FAMILIES[str(family)][0], data, where=where)


def _about_targets(target: TargetSpec) -> str:
    """What the author of a drafter file must know to make it fit."""
    return (
        "'targets' in a drafter file names the targets that it drafts for: "
        f'add {target.id!r}, or write ["*"] for any. A target goes by its name, one from a file by the '
        "file's name without its ending (by its folder's for config.json), and so does the drafter itself. "
        f"Shipped targets: {', '.join(list_targets())}. "
    )


def _fits(name: str, target: TargetSpec) -> bool:
    """Same name, or a user's file with the same shapes as the named target."""
    if name == target.id:
        return True
    if name not in list_targets():
        return False
    other = load_target(name)
    shapes = (target.vocab_size, target.hidden_size, target.layers)
    return shapes == (other.vocab_size, other.hidden_size, other.layers)
