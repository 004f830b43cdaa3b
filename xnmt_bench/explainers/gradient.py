"""Gradients of P(y given c_t) with respect to word embeddings (Li et al. 2020, Eq. 5).

Captum's gradient methods run one forward pass for each gradient. Here all steps of a sentence share
one pass: Captum is handed a gradient function that walks back through the graph that is already
there, from several steps at once. The decoder reads its inputs in chunks, so that what walks back
from a step begins at the end of its chunk and not at the end of the sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import chain
from typing import Any, ClassVar

import torch
from captum.attr._utils.attribution import GradientAttribution
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from xnmt_bench.device import Room
from xnmt_bench.explainers.base import Explainer, Relevance, in_parts, require_labels
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.options import Count

CHUNKS = 4  # at most; more of them save less than their small products cost
SHORTEST = 4  # steps of a chunk


def chunk_of(steps: int) -> int:
    """Return how many steps a chunk has."""
    return max(SHORTEST, -(-steps // CHUNKS))


class SharedPass:
    """One teacher-forced forward pass, and the gradients of steps' label probabilities.

    Args:
        model: the model under explanation.
        batch: B labelled sentences.
        together: how many steps walk back in one pass; of one chunk at most.

    Attributes:
        inputs: the leaves, source (B, S, D) and decoder input (B, T, D) embeddings.
    """

    def __init__(self, model: NMTModel, batch: Batch, together: int) -> None:
        self._model, self._together = model, together
        self._labels_BT = require_labels(batch)
        self._explained_T: list[bool] = batch.current_BT.any(0).tolist()
        self.inputs = tuple(
            # Leaves of the graph: weights need no gradients, and embedding tables are left as they
            # were.
            x.detach().requires_grad_()
            for x in (model.embed_source(batch.source_BS), model.embed_target(batch.input_BT))
        )
        with self._recorded():
            self._prefix = model.prefix(model.encode(self.inputs[0], batch.layout))
        self._start, self._end = 0, len(self._explained_T)
        self._states_BXD = self._slope_BXD = torch.empty(0)

    def chunks(self) -> Iterator[list[list[int]]]:
        """Yield steps that walk back together; `gradient` keeps the last chunk alone."""
        while self._prefix.steps < self._end:
            self._start = self._prefix.steps
            stop = min(self._start + chunk_of(self._end), self._end)
            with self._recorded():
                self._states_BXD = self._prefix.read(self.inputs[1][:, self._start : stop])
                # Steps of context sentences are not explained.
                steps = [step for step in range(self._start, stop) if self._explained_T[step]]
                if steps:
                    labels_BX = self._labels_BT[:, self._start : stop]
                    self._slope_BXD = _output_gradient(self._model, self._states_BXD, labels_BX)
            places = range(0, len(steps), self._together)
            yield [steps[place : place + self._together] for place in places]

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        """Keep what walking back needs."""
        # Fused attention walks back from one step at a time.
        kernel = sdpa_kernel(SDPBackend.MATH) if self._together > 1 else nullcontext()
        # cuDNN's LSTM has no backward pass in evaluation mode.
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False), kernel:
            yield

    def gradient(
        self, _forward: Any, inputs: tuple[Tensor, ...], steps: Sequence[int], *_: Any
    ) -> Any:
        """Return the gradients of P(label | c_t) at n steps, (n, B, ...), as Captum needs."""
        places = torch.as_tensor(steps) - self._start
        slopes_nBXD = self._slope_BXD.new_zeros(len(steps), *self._slope_BXD.shape)
        slopes_nBXD[range(len(steps)), :, places] = self._slope_BXD[:, places].transpose(0, 1)
        # A single step walks back as usual, through fused attention too.
        several = len(steps) > 1
        gradients = torch.autograd.grad(
            self._states_BXD,
            inputs,
            slopes_nBXD if several else slopes_nBXD[0],
            # The same graph serves every step of the chunk, and encoder and earlier chunks serve
            # later ones.
            retain_graph=True,
            is_grads_batched=several,
            allow_unused=True,
        )
        # An input the model does not depend on has gradient zero, not none.
        return tuple(
            (torch.zeros_like(x) if g is None else g).expand(len(steps), *x.shape)
            for g, x in zip(gradients, inputs, strict=True)
        )


def _output_gradient(model: NMTModel, states_BXD: Tensor, labels_BX: Tensor) -> Tensor:
    """Return the gradient of each label's probability with respect to its own state."""
    flat, labels = states_BXD.detach().flatten(0, 1), labels_BX.flatten()
    parts, rows = [], model.output_rows(flat)
    for s, y in zip(flat.split(rows), labels.split(rows), strict=True):
        leaf = s.requires_grad_()
        # The output layer is walked once a step here; the gradients of words go on from the state.
        probability = model.log_probability(leaf, y).exp()
        parts.append(torch.autograd.grad(probability.sum(), leaf)[0])
    return torch.cat(parts).view_as(states_BXD)


class CaptumGradient(Explainer):
    """Base of explainers by a gradient method of Captum's, over one shared pass.

    A subclass sets `method` to the class of Captum's and `options` to the arguments of its
    `attribute`.

    Args:
        positions: of the decoder, from which several steps walk back in one pass; as those of
            prediction difference.
    """

    method: ClassVar[type[GradientAttribution]]
    options: ClassVar[dict[str, Any]] = {}
    sizes = ("positions",)

    def __init__(self, positions: Count | None = None) -> None:
        self._room = Room(positions, cpu=512, each=2**20)

    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Sum Captum's attributions over the embedding; T backward passes over one forward."""
        return self._room.tried(batch.source_BS.device, partial(self._relevance, model, batch))

    def _relevance(self, model: NMTModel, batch: Batch, positions: int) -> Relevance:
        def attributed(part: Batch) -> tuple[Tensor, Tensor]:
            size, steps = part.target_BT.shape
            together = min(chunk_of(steps), max(1, positions // (size * steps)))
            shared = SharedPass(model, part, together)
            # Captum asks for a forward function; the shared pass has run it already.
            method = self.method(_no_forward)
            method.gradient_func = shared.gradient
            scores = tuple(
                x.new_zeros(size, steps, x.shape[1], requires_grad=False) for x in shared.inputs
            )
            for some in chain.from_iterable(shared.chunks()):
                attributions = method.attribute(shared.inputs, target=some, **self.options)
                # 0 where another sentence needs the step, so that no number depends on the batch.
                now_BT = part.current_BT[:, some, None]
                for whole_BTX, x_nBXD in zip(scores, attributions, strict=True):
                    whole_BTX[:, some] = x_nBXD.detach().sum(-1).transpose(0, 1) * now_BT
            return scores  # type: ignore[return-value]

        return in_parts(batch, lambda _, t: positions // (t * chunk_of(t)), attributed)


def _no_forward(*_: Any) -> Tensor:
    raise AssertionError("the shared pass has run already")
