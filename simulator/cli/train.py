"""``draftscope train``: train a drafter on cached features of the frozen target (`reference_impl`, torch)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from simulator.cli.output import say
from simulator.cli.parsing import whole_numbers
from simulator.errors import DraftscopeError, UnknownNameError

DRAFTERS = ("mtp_head", "standalone_total", "standalone_body")


def train(
    *,
    drafter: str,
    features: Path,
    out: Path,
    positions: str,
    resume: Annotated[bool, Parameter(negative="")] = False,
    start: Path | None = None,
    seed: str = "0",
) -> int:
    """Train a drafter; the target itself stays as it is.

    A run that was interrupted or killed goes on with --resume: its state is kept beside the checkpoint. Needs
    the extra "reference".

    Parameters
    ----------
    drafter
        mtp_head, standalone_total or standalone_body.
    features
        Folder of feature shards: what the target computed on its own training responses.
    out
        Checkpoint to write (.safetensors).
    positions
        Anchors to train on, all epochs together.
    resume
        Go on from the state of an earlier run.
    start
        Go on from this checkpoint's weights instead of a fresh start.
    seed
        Seed of the initial weights and of the order of batches.
    """
    if drafter not in DRAFTERS:
        raise UnknownNameError("--drafter", drafter, DRAFTERS)
    (count,) = whole_numbers(positions, where="--positions", minimum=1)[:1]
    (weights_seed,) = whole_numbers(seed, where="--seed")[:1]
    if out.suffix != ".safetensors":
        raise DraftscopeError(f"--out: {str(out)!r} given; allowed: a file ending in .safetensors.")
    state = out.with_suffix(".state.safetensors")
    if state.exists() and not resume:
        raise DraftscopeError(f"{state}: an unfinished run stands there; add --resume, or delete it.")
    if resume and not state.exists():
        raise DraftscopeError(f"--resume: {state} does not exist; start the run without --resume.")
    if not features.is_dir():
        raise DraftscopeError(f"--features: {features} is no folder of feature shards.")
    _train(drafter, features, out, state, count, weights_seed, start)
    return 0


def _train(
    drafter: str, features: Path, out: Path, state: Path, positions: int, seed: int, start: Path | None
) -> None:
    from reference_impl import fetch
    from reference_impl.checkpoint import load_weights, save_drafter
    from reference_impl.features import FeatureStore
    from reference_impl.pipeline import HEAD_DIMS, PROMPT_ANCHORS, build_drafter, draft_vocabulary
    from reference_impl.train import TrainConfig
    from reference_impl.train import train as run

    target = fetch.load_target(fetch.torch.bfloat16)
    embedding = target.backbone.weights.embedding
    layers = HEAD_DIMS["kv_layers"] if drafter == "mtp_head" else ()
    store = FeatureStore(features, layers, prompt_anchors=PROMPT_ANCHORS)
    vocabulary = draft_vocabulary(store, embedding.shape[0])
    fresh = start is None and not state.exists()
    model = build_drafter(drafter, target, vocabulary, store if fresh else None, seed=seed)
    if start is not None:
        load_weights(start, model, target_sha256=target.sha256)
    say(f"{drafter}: {sum(each.numel() for each in model.parameters()) / 1e6:.2f} M parameters, "
        f"{store.anchor_count()} anchors a pass")  # fmt: skip
    try:
        config = TrainConfig(positions=positions, seed=seed)
        found = run(model, store, embedding, config, state_path=state, report=say)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"its state is in {state}; add --resume to go on") from None
    save_drafter(out, model, drafter_id=drafter, target_id=target.id, target_sha256=target.sha256)
    state.unlink(missing_ok=True)
    say(f"wrote {out} ({found['positions']} anchors, {found['seconds']:.0f} s)")
