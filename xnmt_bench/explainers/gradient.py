"""Gradients of P(y given c_t) with respect to word embeddings (Li et al. 2020, Eq. 5).

Captum's gradient methods run one forward pass for each gradient. Here all steps of a sentence share
one pass: Captum is handed a gradient function that walks back through the graph that is already
there, once for each step.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from captum.attr import InputXGradient, Saliency
from captum.attr._utils.attribution import GradientAttribution
from torch import Tensor

from xnmt_bench.explainers.base import Explainer, Relevance, require_labels
from xnmt_bench.nmt.base import OUTPUT_ROWS, Batch, NMTModel


class SharedPass:
    """One teacher-forced forward pass, and the gradient of any step's label probability.

    Attributes:
        inputs: the leaves, source (B, S, D) and decoder input (B, T, D) embeddings.
    """

    def __init__(self, model: NMTModel, batch: Batch) -> None:
        # cuDNN's LSTM has no backward pass in evaluation mode.
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            self.inputs = tuple(
                x.detach().requires_grad_()
                for x in (model.embed_source(batch.source_BS), model.embed_target(batch.input_BT))
            )
            encoding = model.encode(self.inputs[0], batch.layout)
            self._states_BTD = model.decode(encoding, self.inputs[1])
        self._slope_BTD = _output_gradient(model, self._states_BTD, require_labels(batch))

    def gradient(self, _forward: Any, inputs: tuple[Tensor, ...], step: int, *_: Any) -> Any:
        """The gradient of P(label given c_t) at `step`; the signature is Captum's."""
        states, slope = self._states_BTD[:, step], self._slope_BTD[:, step]
        # An input the model does not depend on has gradient zero, not none.
        return torch.autograd.grad(states, inputs, slope, retain_graph=True, materialize_grads=True)


def _output_gradient(model: NMTModel, states_BTD: Tensor, labels_BT: Tensor) -> Tensor:
    """The gradient of each label's probability with respect to its own state, all at once."""
    flat, labels = states_BTD.detach().flatten(0, 1), labels_BT.flatten()
    parts = []
    with torch.enable_grad():
        for s, y in zip(flat.split(OUTPUT_ROWS), labels.split(OUTPUT_ROWS), strict=True):
            leaf = s.requires_grad_()
            probability = model.logits(leaf).softmax(-1).gather(-1, y[:, None])
            parts.append(torch.autograd.grad(probability.sum(), leaf)[0])
    return torch.cat(parts).view_as(states_BTD)


class _Gradient(Explainer):
    """A gradient method of Captum's over one shared pass."""

    method: ClassVar[type[GradientAttribution]]
    options: ClassVar[dict[str, Any]] = {}

    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Sums Captum's attributions over the embedding; T backward passes over one forward."""
        shared = SharedPass(model, batch)
        method = self.method(_no_forward)
        method.gradient_func = shared.gradient
        size, steps = batch.target_BT.shape
        x_BSD, y_BTD = shared.inputs
        source_BTS = x_BSD.new_zeros(size, steps, x_BSD.shape[1])
        input_BTT = y_BTD.new_zeros(size, steps, steps)
        # A context's steps are explained by nobody: one backward pass less for each, and 0 where
        # another sentence of the batch needs the pass, so that no number depends on the batch.
        current_BT = batch.current_BT
        for step in current_BT.any(0).nonzero().flatten().tolist():
            x_BSD, y_BTD = method.attribute(shared.inputs, target=step, **self.options)
            now = current_BT[:, step, None]
            source_BTS[:, step] = x_BSD.detach().sum(-1) * now
            input_BTT[:, step] = y_BTD.detach().sum(-1) * now
        return Relevance.of_inputs(batch, source_BTS, input_BTT)


def _no_forward(*_: Any) -> Tensor:
    raise AssertionError("the shared pass has run already")


class GradientNorm(_Gradient):
    """The l1 norm of the gradient (Li et al. 2016)."""

    method = Saliency
    options: ClassVar[dict[str, Any]] = {"abs": True}


class WeightedGradient(_Gradient):
    """The gradient dotted with the embedding, signed (Ding et al. 2019)."""

    method = InputXGradient
