"""Find a target by name or file; it does not know how targets are costed."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from simulator.errors import DraftscopeError, UnknownNameError
from simulator.specs.imports import from_gguf, from_hf_config, from_safetensors
from simulator.specs.quant import TARGET_SCHEMES
from simulator.specs.target import TargetSpec
from simulator.specs.validation import read_toml, validated

MODELS = Path(__file__).resolve().parent.parent / "models"
_SUFFIXES = (".toml", ".json", ".gguf", ".safetensors")


def list_targets() -> list[str]:
    """Names of the shipped targets."""
    return sorted(path.stem for path in MODELS.glob("*.toml"))


def load_target(name: str | Path) -> TargetSpec:
    """Load a target.

    Parameters
    ----------
    name : str or path
        A shipped name (:func:`list_targets`), a ``.toml`` of the same form, a Hugging Face ``config.json``, a
        GGUF or safetensors file, or a folder with one of them. ``@scheme`` at the end picks another build,
        for example ``gemma_4_e2b@int4``.

    Raises
    ------
    UnknownNameError
        No such target or build; names the nearest.
    DraftscopeError
        A corrupt, truncated or incomplete file.
    """
    base, _, quant = str(name).partition("@") if not Path(name).exists() else (str(name), "", "")
    target = _load(base)
    return target.with_quant(quant) if quant else target


def build_name(target: TargetSpec) -> str:
    """Id of a target for people, with ``@scheme`` where its build is not the one that the id stands for."""
    own = _load_shipped(target.id).quant.name if target.id in list_targets() else "file"
    other = target.quant.name != own and own in target.quant_schemes
    return f"{target.id}@{target.quant.name}" if other else target.id


@lru_cache(maxsize=64)
def _load_shipped(name: str) -> TargetSpec:
    return _from_toml(MODELS / f"{name}.toml")


def _load(name: str) -> TargetSpec:
    if name in list_targets():
        return _load_shipped(name)
    path = Path(name)
    if path.is_dir():
        return _from_folder(path)
    if path.suffix in _SUFFIXES or path.is_file():
        if not path.is_file():
            raise DraftscopeError(f"{path}: no such file.")
        return _from_file(path)
    raise UnknownNameError("target", name, list_targets())


def _from_file(path: Path) -> TargetSpec:
    if path.suffix == ".toml":
        return _from_toml(path)
    if path.suffix == ".json":
        name = path.parent.resolve().name if path.name == "config.json" else path.stem
        return _target(from_hf_config, name, path)
    if path.suffix == ".safetensors":
        return _target(from_safetensors, path.stem, path)
    if path.suffix == ".gguf" or _starts_with(path, b"GGUF"):
        return _target(from_gguf, path.stem, path)
    raise DraftscopeError(
        f"{path}: unknown kind of file; allowed: {', '.join(_SUFFIXES)}, or a folder with one."
    )


def _from_folder(path: Path) -> TargetSpec:
    name = path.resolve().name
    ggufs = sorted(path.glob("*.gguf"))
    if any(path.glob("*.safetensors")):
        return _target(from_safetensors, name, path)
    if (path / "config.json").is_file():
        return _target(from_hf_config, name, path / "config.json")
    if len(ggufs) == 1:
        return _from_file(ggufs[0])
    raise DraftscopeError(f"{path}: no config.json, *.safetensors or single *.gguf in this folder.")


def _target(read: Callable[[Path], dict[str, Any]], name: str, path: Path) -> TargetSpec:
    """Read a foreign file; whatever a damaged one makes of the arithmetic becomes one clear error."""
    try:
        fields = read(path)
    except DraftscopeError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise DraftscopeError(f"{path}: corrupt or unusual description of a model ({error}).") from None
    identity = {"id": name.replace("@", "_"), "name": fields.get("name", name), "sources": ("user_file",)}
    return validated(TargetSpec, {**fields, **identity}, where=str(path))


def _from_toml(path: Path) -> TargetSpec:
    """Read a TOML target: ``default_quant`` names one of ``[quant_schemes.*]`` or of the named schemes."""
    data = read_toml(path, "target")
    data.setdefault("id", path.stem)
    schemes = data.get("quant_schemes", {})
    if not isinstance(schemes, dict) or not all(isinstance(scheme, dict) for scheme in schemes.values()):
        raise DraftscopeError(f"{path}: quant_schemes: tables [quant_schemes.NAME] are wanted.")
    data["quant_schemes"] = {name: {"name": name, **scheme} for name, scheme in schemes.items()}
    default = data.pop("default_quant", None)
    if default is None and "quant" not in data:
        raise DraftscopeError(f"{path}: default_quant: missing, and required.")
    if default is not None:
        if default not in data["quant_schemes"] and default not in TARGET_SCHEMES:
            raise UnknownNameError(
                f"{path}: default_quant", default, {**data["quant_schemes"], **TARGET_SCHEMES}
            )
        data["quant"] = data["quant_schemes"].get(default) or TARGET_SCHEMES[default]
    return validated(TargetSpec, data, where=path.name if path.parent == MODELS else str(path))


def _starts_with(path: Path, magic: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(magic)) == magic
