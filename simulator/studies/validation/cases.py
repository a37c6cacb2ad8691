"""What a row of a table says about machine, target and drafter, as numbers; it predicts nothing.

People write what they ran in their own words. These rules turn the words into the few things that a step's
cost depends on. What no rule knows becomes "other", never an error: an unknown machine still gets a wide
prediction.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hw_profiles.accelerators import find_accelerator
from simulator.studies.validation.table import Measured

MTP_RAM_BYTES = 1142 * 2**20
MTP_RAM_BYTES_PER_DRAFT = 150 * 2**20
"""What a head took beside its weights on one machine: sudoingX/qwen38-mtp, sweeps on an RTX 5090."""

USABLE_MEMORY = 0.96
BITS = (
    (r"nvfp4|mxfp4|fp4|q4|iq4|4-bit|int4|awq|w4", 4.8),
    (r"q8|int8|8-bit|fp8|w8", 8.5),
    (r"f16|fp16|float16|bf16|bfloat16|half", 16.0),
    (r"q6", 6.6),
    (r"q5", 5.6),
    (r"q3|iq3|3-bit", 3.9),
    (r"q2|iq2|2-bit", 2.9),
    (r"f32|fp32|float32", 32.0),
)
UNKNOWN_BITS = 5.0
UNKNOWN_PARAMS = 8e9
UNKNOWN_BANDWIDTH = 400e9
UNKNOWN_FLOP_PER_BYTE = 45.0
GEMMA = {"gemma4e2b": 2.279e9, "gemma4e4b": 4.644e9}
"""Parameters read a pass, embeddings left out (specs of this project)."""

GEMMA_MOBILE_BITS = 8 * 0.79e9 / 2.279e9
"""Of the mobile builds: text weights in memory over these parameters (``measurements/decode.csv``)."""

DRAFTERS = (
    ("gemma4_assistant", r"gemma.?4.*(assistant|mtp)|assistant"),
    ("block", r"dflash|dspark|block"),
    ("eagle", r"eagle|hass"),
    ("medusa", r"medusa|hydra|redrafter|heads"),
    ("ngram", r"n-gram|ngram|lookup|retrieval|suffix|lookahead|recycling"),
    ("mtp_head", r"mtp|nextn"),
    ("standalone", r"standalone|draft model|drafter"),
)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row as the cost model takes it.

    Attributes
    ----------
    row : Measured
        As the predictor may see it.
    family, drafter : str
        Kernel family (a key of ``kernel_families.toml``) and kind of drafter.
    target, task_class : str
        Normalised name; ``code``, ``prose`` or ``mixed``.
    draft_length : float or None
        Drafts a step asked for.
    width_factor : float
        Rows of the verify pass per draft (beams of a ReDrafter have several).
    tree_nodes : float or None
        Rows of a tree's verify pass.
    bits : float
        Mean bits a weight.
    params, active_params : float
        All, and those that a pass of one row reads.
    experts : bool
        Mixture of experts.
    bandwidth_bytes_per_s, flop_per_byte : float
        Of the machine; assumed where nothing is known.
    known_bandwidth, tensor_parallel : bool
        Whether the bandwidth is known; whether each layer runs on several devices.
    drafter_share : float
        Bytes of a draft pass over those of a plain pass.
    spill_bytes : float
        What no longer fits the device's own memory with the drafter loaded.
    """

    row: Measured
    family: str
    drafter: str
    target: str
    task_class: str
    draft_length: float | None
    width_factor: float
    tree_nodes: float | None
    bits: float
    params: float
    active_params: float
    experts: bool
    bandwidth_bytes_per_s: float
    flop_per_byte: float
    known_bandwidth: bool
    tensor_parallel: bool
    drafter_share: float
    spill_bytes: float

    @property
    def key(self) -> tuple[str, str, str]:
        """Same target, drafter and task: tokens per pass carry over between machines."""
        return self.target, self.drafter, self.row.task


def case_of(row: Measured) -> Case:
    """Read one row."""
    device = row.device.lower()
    family = kernel_family(row)
    drafter = drafter_kind(row)
    target = re.sub(r"[^a-z0-9.]", "", re.sub(r"\(.*", "", row.target_model.lower()))
    bits = weight_bits(row)
    params, active, experts = _sizes(row, target, bits)
    machine = find_accelerator(row.device)
    bandwidth = row.bandwidth_bytes_per_s or (machine.bandwidth_bytes_per_s if machine else None)
    intensity = machine.fp32_flops_per_s / machine.bandwidth_bytes_per_s if machine else UNKNOWN_FLOP_PER_BYTE
    beams = re.search(r"beam width (\d+)", row.drafter_kind.lower())
    return Case(
        row=row,
        family=family,
        drafter=drafter,
        target=target,
        task_class=task_class(row.task),
        draft_length=row.draft_length,
        width_factor=0.8 * int(beams[1]) if beams and int(beams[1]) > 1 else 1.0,
        tree_nodes=_tree(row.drafter_kind.lower()),
        bits=bits,
        params=params,
        active_params=active,
        experts=experts,
        bandwidth_bytes_per_s=bandwidth or UNKNOWN_BANDWIDTH,
        flop_per_byte=intensity,
        known_bandwidth=bandwidth is not None,
        tensor_parallel=bool(re.search(r"\btp\d?\b|tensor", device)),
        drafter_share=_drafter_share(row, drafter, params, active),
        spill_bytes=_spill(row, family, drafter, machine.memory_bytes if machine else None),
    )


def kernel_family(row: Measured) -> str:
    """Kernel family by stack and machine."""
    stack, device, kind = row.framework.lower(), row.device.lower(), row.device_class.lower()
    apple = bool(re.search(r"apple|mac\b|macbook|iphone|ipad|\bm[1-9]\b", f"{kind} {device}"))
    radeon = bool(re.search(r"\brx ?\d|r9700|radeon|\bmi\d|strix|ryzen ai|\barc\b|instinct", device)) or bool(
        re.search(r"rocm|vulkan|hip|xpu|sycl", stack)
    )
    if "litert" in stack or "mediapipe" in stack:
        return "litert_cpu" if re.search(r"\bcpu\b", device) else "litert_gpu"
    if "offload" in kind or "offload" in device or (kind == "cpu" and "gpu" in device):
        return "offload"
    if "mlx" in stack:
        return "mlx"
    if apple:
        return "llama_cpp_metal"
    if kind == "tpu" or "t5x" in stack or "tpu" in device:
        return "tpu_xla"
    if re.search(r"eager|pytorch|transformers|\bhf\b", stack):
        return "pytorch_eager"
    if re.search(r"vllm|sglang|tensorrt|trt", stack):
        return "rocm_graphs" if radeon else "cuda_graphs"
    if kind == "cpu" or re.search(r"\bcpu\b|raspberry", device):
        return "cpu"
    if radeon:
        return "llama_cpp_amd"
    if re.search(r"llama|memra", stack) or re.search(r"gpu", kind):
        return "llama_cpp_cuda"
    return "other"


def drafter_kind(row: Measured) -> str:
    """Kind of drafter; the family column decides before the free text does."""
    for text in (row.drafter_family.lower(), row.drafter_kind.lower()):
        for name, pattern in DRAFTERS:
            if re.search(pattern, text):
                return name
    return "other"


def weight_bits(row: Measured) -> float:
    """Mean bits a weight, from bytes over parameters or from the name of the quantisation."""
    if "litert" in row.target_quant.lower() and "gemma 4 e" in row.target_model.lower():
        return GEMMA_MOBILE_BITS
    params = row.target_params or row.target_active_params
    if row.weight_bytes and params and 1.0 < 8 * row.weight_bytes / params <= 34:
        return 8 * row.weight_bytes / params
    name = row.target_quant.lower()
    return next((bits for pattern, bits in BITS if re.search(pattern, name)), UNKNOWN_BITS)


def task_class(task: str) -> str:
    """``code``, ``prose`` or ``mixed``."""
    text = task.lower()
    if re.search(r"classes|overall|probe|bench|mixed|average|mean", text):
        return "mixed"
    if re.search(r"code|python|typescript|ruby|quicksort|humaneval|hash table|extract|bash|markdown", text):
        return "code"
    if re.search(r"prose|narrative|chat|story|creative|explain|romeo|toaster|\bzh\b|text|free", text):
        return "prose"
    return "mixed"


def _sizes(row: Measured, target: str, bits: float) -> tuple[float, float, bool]:
    known = next((size for name, size in GEMMA.items() if target.startswith(name)), None)
    params = row.target_params or known
    if params is None:
        params = 8 * row.weight_bytes / bits if row.weight_bytes else UNKNOWN_PARAMS
    active = row.target_active_params or known or params
    named = bool(re.search(r"moe|\ba\d+b\b|-a\d+b", row.target_model.lower()))
    experts = active < 0.5 * params or named
    if experts and active == params:
        active = 0.06 * params  # a named mixture whose active part is not stated
    return params, min(active, params), experts


def _tree(kind: str) -> float | None:
    if re.search(r"dynamic tree|eagle-2 tree", kind):
        return 50.0
    return 30.0 if "tree" in kind else None


def _drafter_share(row: Measured, drafter: str, params: float, active: float) -> float:
    """Bytes of a draft pass over those of a plain pass, from parameters where they are stated."""
    size = row.drafter_params
    share = {
        "mtp_head": 1 / 64 + 1.25e9 / params if params > 1e10 else 0.25,
        "gemma4_assistant": (size or 0.45e9) / active,
        "standalone": (size or 0.1 * params) / active,
        "eagle": (size or 0.4e9) / active + 0.02,
        "medusa": 0.02,
        "block": (size or 1.5e9) / active,
        "ngram": 0.0,
        "other": (size or 0.05 * active) / active,
    }[drafter]
    return min(share, 1.0)


def _spill(row: Measured, family: str, drafter: str, memory: float | None) -> float:
    """Weights and drafter beyond the memory of a single device [B]."""
    if memory is None or row.weight_bytes is None or family == "offload" or re.search(r"\dx|\+", row.device):
        return 0.0
    if drafter == "mtp_head":
        extra = MTP_RAM_BYTES + MTP_RAM_BYTES_PER_DRAFT * (row.draft_length or 0)
    else:
        extra = 2 * (row.drafter_params or 0.0)
    context = re.search(r"(\d+)\s*k\b", row.context_len.lower())
    extra += (float(context[1]) / 32) * 0.5 * 2**30 if context else 0.0
    if row.weight_bytes > USABLE_MEMORY * memory:
        return 0.0  # the plain run already spilled: its baseline knows
    return max(0.0, row.weight_bytes + extra - USABLE_MEMORY * memory)
