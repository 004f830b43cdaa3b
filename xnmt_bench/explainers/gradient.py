"""Gradients with respect to word embeddings (Li et al. 2020, Eq. 5), of P(y given c_t) by default.

All steps of a sentence share one forward pass, and several at once walk back through its graph. The
decoder reads its inputs in chunks, so that what walks back from a step begins at the end of its
chunk and not at the end of the sentence.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from xnmt_bench.explainers.base import Relevance, in_parts
from xnmt_bench.explainers.objective import Foil, Objective, ObjectiveExplainer, Of
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.options import Count

CHUNKS = 4  # in the room of a processor; more of them save less than their small products cost
SHORTEST = 4  # steps of a chunk
CPU, EACH = 512, 2**19  # of `Room`, in positions: a graph is kept for them


def chunk_of(steps: int, positions: int) -> int:
    """Return how many steps a chunk has where there is room for so many positions."""
    # A chunk saves products and costs operations, for which a GPU with more room would wait.
    chunks = min(CHUNKS, max(1, CHUNKS * CPU // positions))
    return max(SHORTEST, -(-steps // chunks))


class _LayerNorm(torch.autograd.Function):
    """Layer normalisation from which several steps walk back at once.

    torch's own walks back from one step after another. Weights get no gradient.
    """

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, x: Tensor, shape: Sequence[int], weight: Tensor, bias: Tensor | None, eps: float
    ) -> Tensor:
        y, mean, scale = torch.native_layer_norm(x, shape, weight, bias, eps)
        ctx.save_for_backward(x, mean, scale, weight)
        ctx.axes, ctx.numbers = [*range(-len(shape), 0)], weight.numel()
        return y

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        x, mean, scale, weight = ctx.saved_tensors
        normal, slope = (x - mean) * scale, slope * weight
        # Sums, since means too walk back from one step after another.
        along = normal * (slope * normal).sum(ctx.axes, keepdim=True)
        level = slope.sum(ctx.axes, keepdim=True)
        return (slope - (level + along) / ctx.numbers) * scale, None, None, None, None


class _Softmax(torch.autograd.Function):
    """Softmax from which several steps walk back at once; torch's own walks back one by one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int) -> Tensor:  # type: ignore[override]
        y = torch.softmax(x, dim)
        ctx.save_for_backward(y)
        ctx.dim = dim
        return y

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        (y,) = ctx.saved_tensors
        weighted = slope * y
        return weighted - y * weighted.sum(ctx.dim, keepdim=True), None


class _WalksBackTogether(TorchFunctionMode):
    """Puts `_LayerNorm` and `_Softmax` in the place of torch's."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is F.layer_norm:
            return self._normalise(*args, **(kwargs or {}))
        # A third place is the type in one of them and something else in another.
        if function in (F.softmax, torch.softmax, Tensor.softmax) and len(args) <= 2:
            return self._softmax(*args, **(kwargs or {}))
        return function(*args, **(kwargs or {}))

    @staticmethod
    def _normalise(
        input: Tensor,
        normalized_shape: Sequence[int],
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
    ) -> Tensor:
        weight = input.new_ones(normalized_shape) if weight is None else weight
        return _LayerNorm.apply(input, normalized_shape, weight, bias, eps)  # type: ignore[no-any-return, no-untyped-call]

    @staticmethod
    def _softmax(
        input: Tensor, dim: int, *, dtype: torch.dtype | None = None, _stacklevel: int = 3
    ) -> Tensor:
        return _Softmax.apply(input if dtype is None else input.to(dtype), dim)  # type: ignore[no-any-return, no-untyped-call]


class SharedPass:
    """One teacher-forced forward pass, and the gradients of a number of each step.

    Args:
        model: the model under explanation.
        batch: B labelled sentences.
        positions: of the decoder, from which steps of one chunk walk back in one pass.
        objective: the number.
        embeddings: of source and decoder inputs; those of the batch's ids, if not given.
        words_BTC: the words of the number; those that the objective finds, if not given.

    Attributes:
        inputs: the leaves, source (B, S, D) and decoder input (B, T, D) embeddings.
    """

    def __init__(
        self,
        model: NMTModel,
        batch: Batch,
        positions: int,
        objective: Objective,
        embeddings: tuple[Tensor, Tensor] | None = None,
        words_BTC: Tensor | None = None,
    ) -> None:
        size, steps = batch.target_BT.shape
        self._model, self._objective = model, objective
        self._chunk = chunk_of(steps, positions)
        self._together = min(self._chunk, max(1, positions // (size * steps)))
        self._words_BTC = objective.words(model, batch) if words_BTC is None else words_BTC
        self._explained_T = [any(column) for column in batch.on_host.current_BT.T.tolist()]
        # Leaves of the graph: weights need no gradients, and embedding tables stay as they were.
        self.inputs = tuple(x.detach().requires_grad_() for x in embeddings or embed(model, batch))
        with self._recorded():
            self._prefix = model.prefix(model.encode(self.inputs[0], batch.layout))
        self._start, self._end = 0, len(self._explained_T)
        self._states_BXD = self._slope_BXD = torch.empty(0)

    def chunks(self) -> Iterator[list[list[int]]]:
        """Yield steps that walk back together; `gradient` keeps only the last chunk."""
        while self._prefix.steps < self._end:
            self._start = self._prefix.steps
            stop = min(self._start + self._chunk, self._end)
            with self._recorded():
                # A chunk at a time: its steps then walk back through nothing behind them.
                self._states_BXD = self._prefix.read(self.inputs[1][:, self._start : stop])
                # Steps of context sentences are not explained.
                steps = [step for step in range(self._start, stop) if self._explained_T[step]]
                if steps:
                    words_BXC = self._words_BTC[:, self._start : stop]
                    self._slope_BXD = self._output_gradient(words_BXC)
            places = range(0, len(steps), self._together)
            yield [steps[place : place + self._together] for place in places]

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        """Keep what walking back needs."""
        with ExitStack() as stack:
            # cuDNN's LSTM has no backward pass in evaluation mode.
            stack.enter_context(torch.backends.cudnn.flags(enabled=False))
            stack.enter_context(torch.enable_grad())
            if self._together > 1:
                # Fused attention walks back from one step at a time.
                stack.enter_context(sdpa_kernel(SDPBackend.MATH))
                stack.enter_context(_WalksBackTogether())
            yield

    def gradient(self, steps: Sequence[int]) -> tuple[Tensor, ...]:
        """Return the gradients of the number of n steps, (n, B, ...), for each of the inputs."""
        places = torch.as_tensor(steps) - self._start
        slopes_nBXD = self._slope_BXD.new_zeros(len(steps), *self._slope_BXD.shape)
        slopes_nBXD[range(len(steps)), :, places] = self._slope_BXD[:, places].transpose(0, 1)
        # A single step walks back as usual, through fused attention too.
        several = len(steps) > 1
        gradients = torch.autograd.grad(
            self._states_BXD,
            self.inputs,
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
            for g, x in zip(gradients, self.inputs, strict=True)
        )

    def _output_gradient(self, words_BXC: Tensor) -> Tensor:
        """Return the gradient of each step's number with respect to its own state."""
        flat, words = self._states_BXD.detach().flatten(0, 1), words_BXC.flatten(0, 1)
        parts, rows = [], self._model.output_rows(flat)
        for s, w in zip(flat.split(rows), words.split(rows), strict=True):
            leaf = s.requires_grad_()
            # The output layer is walked once a step here; the gradients of words go on from the
            # state.
            value_N = self._objective.value(self._model, leaf, w)
            parts.append(torch.autograd.grad(value_N.sum(), leaf)[0])
        return torch.cat(parts).view_as(self._states_BXD)


def embed(model: NMTModel, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the embeddings of source ids (B, S, D) and decoder inputs (B, T, D)."""
    return model.embed_source(batch.source_BS), model.embed_target(batch.input_BT)


class GradientExplainer(ObjectiveExplainer):
    """Base of explainers by gradients, T backward passes over one shared forward pass.

    Args:
        of, foil: as for `ObjectiveExplainer`.
        positions: of the decoder, from which several steps walk back in one pass; as those of
            prediction difference.
    """

    cpu, each = CPU, EACH

    def __init__(
        self, of: Of = "probability", foil: Foil | None = None, positions: Count | None = None
    ) -> None:
        super().__init__(of, foil, positions)

    @abstractmethod
    def reduce(self, gradient: Tensor, embedding: Tensor) -> Tensor:
        """Return the relevance of words (...) from gradients and embeddings (..., D)."""

    def _relevance(self, model: NMTModel, batch: Batch, positions: int) -> Relevance:
        def explained(part: Batch) -> tuple[Tensor, ...]:
            size, steps = part.target_BT.shape
            shared = SharedPass(model, part, positions, self._objective)
            embeddings = [x.detach() for x in shared.inputs]
            scores = tuple(x.new_zeros(size, steps, x.shape[1]) for x in embeddings)
            for some in chain.from_iterable(shared.chunks()):
                # 0 where another sentence needs the step, so that no number depends on the batch.
                now_BT = part.current_BT[:, some, None]
                for whole_BTX, g_nBXD, x_BXD in zip(
                    scores, shared.gradient(some), embeddings, strict=True
                ):
                    whole_BTX[:, some] = self.reduce(g_nBXD, x_BXD).transpose(0, 1) * now_BT
            return scores

        return in_parts(batch, lambda _, t: positions // (t * chunk_of(t, positions)), explained)
