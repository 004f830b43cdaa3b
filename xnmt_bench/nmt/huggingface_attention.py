"""How Hugging Face models attend here: by a fused kernel, or with weights where they are wanted.

`transformers` finds the function by NAME. It also takes masks that are ready; for those that it
makes itself it asks in each pass whether a mask hides anything, and a GPU then waits.

Shapes: as in `nmt.base`; Q states that attend, K states that are attended to, E of a head.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn
from transformers.masking_utils import AttentionMaskInterface, eager_mask
from transformers.modeling_utils import AttentionInterface

NAME = "xnmt_bench"
TAKES_READY_MASKS = not transformers.__version__.startswith("4.")  # encoders too


def attend(
    module: nn.Module,
    query_BHQE: Tensor,
    key_BHKE: Tensor,
    value_BHKE: Tensor,
    mask: Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    position_bias: Tensor | None = None,
    output_attentions: bool = False,
    **_: Any,
) -> tuple[Tensor, Tensor | None]:
    """Return what is read (B, Q, H, E), and the weights (B, H, Q, K) if they are wanted.

    Gradients go through the plain products: the steps of a sentence walk back together, and a fused
    kernel walks back from one step at a time.
    """
    if not (output_attentions or torch.is_grad_enabled()):
        if position_bias is not None:
            mask = position_bias if mask is None else position_bias + mask
        read = F.scaled_dot_product_attention(query_BHQE, key_BHKE, value_BHKE, mask, scale=scaling)
        return read.transpose(1, 2), None
    scores = query_BHQE @ key_BHKE.transpose(2, 3) * scaling
    for added in (position_bias, mask):
        scores = scores if added is None else scores + added
    weights = F.dropout(scores.softmax(-1), dropout, module.training)
    return (weights @ value_BHKE).transpose(1, 2), weights


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, eager_mask)  # of passes that bring no mask


def seen_mask(seen_BK: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the mask of an encoder's states, which hides those that are not seen."""
    return _hide(seen_BK, dtype) if TAKES_READY_MASKS else seen_BK.long()


def causal_mask(input_BQD: Tensor, keys: int, hidden_BK: Tensor | None) -> Tensor:
    """Return the mask (B or 1, 1, Q, K) of decoder inputs, which are the last of the keys.

    Args:
        input_BQD: the inputs.
        keys: how many there are.
        hidden_BK: True for keys that no input attends to.
    """
    queries, dtype = input_BQD.shape[1], input_BQD.dtype
    lowest = torch.finfo(dtype).min
    mask_QK = torch.full((queries, keys), lowest, dtype=dtype, device=input_BQD.device)
    mask = mask_QK.triu_(keys - queries + 1)[None, None]
    return mask if hidden_BK is None else torch.minimum(mask, _hide(~hidden_BK, dtype))


def _hide(seen_BK: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what is added to scores, (B, 1, 1, K): the lowest number for keys that are hidden."""
    return ((~seen_BK).to(dtype) * torch.finfo(dtype).min)[:, None, None]
