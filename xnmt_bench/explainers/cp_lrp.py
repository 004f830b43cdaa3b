"""Conservative propagation: relevance of a logit, with attention weights and norms held constant.

The rules for Transformers are those of Ali et al. 2022, "XAI for Transformers: Better Explanations
through Conservative Propagation", section 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from xnmt_bench.errors import NotApplicable
from xnmt_bench.explainers.base import Relevance
from xnmt_bench.explainers.objective import Foil
from xnmt_bench.explainers.weighted_gradient import WeightedGradient
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch, Forced
from xnmt_bench.nmt.switched import is_special
from xnmt_bench.nmt.transformer import MultiHeadAttention, Transformer
from xnmt_bench.options import Count


class CpLrp(WeightedGradient):
    """The label's logit, walked back to the words by layer-wise relevance propagation.

    Gradient times embedding, where each attention weight and each norm's standard deviation counts
    as a constant. What is left is linear but for ReLU, for which gradient times input is LRP's rule
    too. So the relevance of all embeddings, positions included, sums to the logit less what biases
    add to it, and the relevance of only words to another number.

    Args:
        foil: whose logit is subtracted: `second`, the most probable word but the label; `gold`,
            the target's own word; None for none.
        positions: of the decoder, from which several steps walk back in one pass.
    """

    papers = ("ali2022",)
    error = "part of the logit that is not on words but on positions, biases, BOS and EOS"

    def __init__(self, foil: Foil | None = None, positions: Count | None = None) -> None:
        super().__init__("logit", foil, positions)

    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Walk back from all steps, as gradients do.

        Raises:
            NotApplicable: the model is not a Transformer of this project or of fairseq, or has
                another activation than ReLU.
        """
        if not isinstance(model, Transformer):
            kind = "encoder-decoder Transformers"
            raise NotApplicable(f"it explains {kind} of this project and of fairseq only")
        if not all(
            any(isinstance(part, nn.ReLU) for part in layer.feed_forward.modules())
            for layer in (*model.encoder, *model.decoder)
        ):
            raise NotApplicable("it explains models with ReLU activations only")
        # Hooks around one pass, since the same model serves every other explainer.
        with held_constant(model):
            relevance = super().relevance(model, batch)
        return replace(relevance, error_BT=self._elsewhere(model, batch, relevance))

    @torch.no_grad()
    def _elsewhere(self, model: NMTModel, batch: Batch, relevance: Relevance) -> Tensor:
        """Return how far each step's sum over words is from the logit, (B, T)."""
        states_BTD = Forced.of(model, batch).states_BTD
        logit_BT = self._objective.value(model, states_BTD, self._objective.words(model, batch))
        # EOS and markers are left out, as rules leave them out.
        is_word_BS, is_word_BT = (~is_special(ids) for ids in (batch.source_BS, batch.target_BT))
        sum_BT = (relevance.source_BTS.nan_to_num() * is_word_BS[:, None]).sum(-1)
        if relevance.prefix_BTT is not None:
            sum_BT = sum_BT + (relevance.prefix_BTT.nan_to_num() * is_word_BT[:, None]).sum(-1)
        return (logit_BT - sum_BT).abs() * batch.current_BT


@contextmanager
def held_constant(model: Transformer) -> Iterator[None]:
    """Let no gradient pass through attention weights and the deviations of norms."""
    hooks = []
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            # Weights follow only from queries and keys.
            hooks.append(module.query.register_forward_hook(_detach))
            hooks.append(module.key_value.register_forward_hook(_detach_keys))
        elif isinstance(module, nn.LayerNorm):
            hooks.append(module.register_forward_hook(_hold_deviation))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _detach(_: nn.Module, __: Any, output: Tensor) -> Tensor:
    return output.detach()


def _detach_keys(_: nn.Module, __: Any, output: Tensor) -> Tensor:
    keys, values = output.chunk(2, dim=-1)
    # Values stay: what they bring is what relevance walks back through.
    return torch.cat([keys.detach(), values], dim=-1)


def _hold_deviation(norm: nn.LayerNorm, inputs: tuple[Tensor], output: Tensor) -> Tensor:
    """Return the norm's output, whose gradient passes only through mean and scale."""
    centred = inputs[0] - inputs[0].mean(-1, keepdim=True)
    deviation = (centred.square().mean(-1, keepdim=True) + norm.eps).sqrt().detach()
    held = centred / deviation
    if norm.weight is not None:
        held = held * norm.weight
    # The output's own digits, so that no state differs from the model's.
    return output.detach() + (held - held.detach())
