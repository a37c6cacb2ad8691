"""Safetensors files for drafters and for resumable training state; nothing is ever unpickled."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from simulator.files import whole_file

from .drafters.mtp_head import MTPHead, MTPHeadConfig
from .drafters.standalone import Standalone, StandaloneConfig
from .errors import ReferenceImplError

_TABLE = "embedding.weight"
_FAMILIES = {"mtp_head": (MTPHeadConfig, MTPHead), "standalone": (StandaloneConfig, Standalone)}


def _write(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    with whole_file(path, error=ReferenceImplError, make_folder=True) as temporary:
        save_file(
            {k: v.detach().contiguous().clone() for k, v in tensors.items()}, temporary, metadata=metadata
        )


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, framework="pt") as handle:
            return {k: handle.get_tensor(k) for k in handle.keys()}, handle.metadata() or {}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ReferenceImplError(f"{path}: not a readable safetensors file ({error})") from error


def save_drafter(
    path: Path,
    model: MTPHead | Standalone,
    *,
    drafter_id: str,
    target_id: str,
    target_sha256: str,
    dtype: torch.dtype = torch.float16,
) -> None:
    """Write a drafter with everything needed to rebuild it.

    Floating-point tensors are stored in ``dtype``, but for a standalone's large embedding table: 8-bit
    integers with one scale a row. What is measured is always the drafter as loaded from its file.
    """
    family = "mtp_head" if isinstance(model, MTPHead) else "standalone"
    state = dict(model.state_dict())
    tensors: dict[str, Tensor] = {}
    if family == "standalone":
        table = state.pop(_TABLE).float()
        scale = (table.abs().amax(dim=-1, keepdim=True) / 127).clamp(min=1e-12).half()
        tensors[f"{_TABLE}.scale"] = scale
        tensors[f"{_TABLE}.int8"] = (table / scale.float()).round().clamp(-127, 127).to(torch.int8)
    tensors |= {k: v.to(dtype) if v.is_floating_point() else v.to(torch.int32) for k, v in state.items()}
    metadata = {
        "family": family,
        "id": drafter_id,
        "target_id": target_id,
        "target_sha256": target_sha256,
        "config": json.dumps(dataclasses.asdict(model.config)),
    }
    _write(path, tensors, metadata)


def load_drafter(
    path: Path, *, target_sha256: str | None = None, dtype: torch.dtype = torch.float32
) -> tuple[MTPHead | Standalone, dict[str, str]]:
    """Rebuild a drafter; refuses a checkpoint that was trained for another target.

    Returns
    -------
    model, metadata
    """
    tensors, metadata = _read(path)
    family = metadata.get("family", "")
    if family not in _FAMILIES:
        raise ReferenceImplError(f"{path}: family: given {family!r}, allowed {sorted(_FAMILIES)}")
    if target_sha256 is not None and metadata.get("target_sha256") != target_sha256:
        raise ReferenceImplError(
            f"{path}: trained for the target with sha256 {metadata.get('target_sha256')}, "
            f"given {target_sha256}"
        )
    if f"{_TABLE}.int8" in tensors:
        tensors[_TABLE] = tensors.pop(f"{_TABLE}.int8").float() * tensors.pop(f"{_TABLE}.scale").float()
    config_type, model_type = _FAMILIES[family]
    raw = {k: tuple(v) if isinstance(v, list) else v for k, v in json.loads(metadata["config"]).items()}
    model = model_type(config_type(**raw), tensors["draft_ids"].long())
    floats = {k: v.to(dtype) if v.is_floating_point() else v.long() for k, v in tensors.items()}
    model.load_state_dict(floats)
    model = model.to(dtype).eval().requires_grad_(False)
    return model, metadata


def load_weights(path: Path, model: MTPHead | Standalone, *, target_sha256: str) -> None:
    """Take a checkpoint's weights over into a model of the same dimensions; its draft vocabulary stays.

    Raises
    ------
    ReferenceImplError
        Not a drafter, another target's, or other dimensions.
    """
    found, _ = load_drafter(path, target_sha256=target_sha256)
    if found.config != model.config:
        raise ReferenceImplError(f"{path}: given {found.config}, allowed {model.config}")
    model.load_state_dict({**found.state_dict(), "draft_ids": model.draft_ids})


def save_training_state(
    path: Path,
    model: nn.Module,
    optimisers: list[torch.optim.Optimizer],
    generator: torch.Generator,
    position: tuple[int, int, float],
) -> None:
    """Everything a run needs to go on: weights, optimiser moments, random state, position."""
    tensors = {f"model.{k}": v for k, v in model.state_dict().items()}
    tensors["generator"] = generator.get_state()
    for o, optimiser in enumerate(optimisers):
        for index, state in optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{o}.{index}.{k}": torch.as_tensor(v) for k, v in state.items()}
    _write(path, tensors, {"position": json.dumps(position)})


def load_training_state(
    path: Path, model: nn.Module, optimisers: list[torch.optim.Optimizer], generator: torch.Generator
) -> tuple[int, int, float]:
    """Restore what :func:`save_training_state` wrote; returns anchors seen, batches done, seconds spent."""
    tensors, metadata = _read(path)
    model.load_state_dict({k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")})
    generator.set_state(tensors["generator"])
    for o, optimiser in enumerate(optimisers):
        states: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith(f"optimiser.{o}."):
                _, _, index, key = name.split(".")
                states.setdefault(int(index), {})[key] = value
        optimiser.load_state_dict({**optimiser.state_dict(), "state": states})
    seen, batches, spent = json.loads(metadata["position"])
    return int(seen), int(batches), float(spent)
