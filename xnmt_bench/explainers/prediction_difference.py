"""Prediction difference (Li et al. 2019): how much probability is lost without a word.

Under teacher forcing one row, with one embedding zeroed, answers for all steps at once. So a pair
costs S + T rows: a source word's removal is encoded anew, a prefix word's shares the encoding and
all steps before it. Captum's FeatureAblation does the ablating, on a switch for each word rather
than on its embedding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from captum.attr import FeatureAblation
from torch import Tensor

from xnmt_bench.explainers.base import Relevance, in_parts
from xnmt_bench.explainers.objective import Foil, Objective, ObjectiveExplainer, Of
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.switched import Removal, SwitchedOff
from xnmt_bench.options import Count

FEW = 128  # positions in one pass, below which weights are read for too few


class PredictionDifference(ObjectiveExplainer):
    """P(y given c_t) - P(y given c_t without w), w's embedding replaced by zero by default.

    Args:
        of: what is explained: the label's probability, its logarithm or its logit.
        foil: whose number is subtracted: `second`, the most probable word but the label; `gold`,
            the target's own word; None for none.
        removal: what replaces the embedding: zero, the mean of the vocabulary, or the unknown
            word's; or `attention`: zero, and no layer attends to the word.
        positions: decoder positions computed in one pass, by default what is fast on a processor
            and what the free memory of a GPU holds. It bounds memory and never changes a result.
    """

    def __init__(
        self,
        of: Of = "probability",
        foil: Foil | None = None,
        removal: Removal = "zero",
        positions: Count | None = None,
    ) -> None:
        super().__init__(of, foil, positions)
        self._removal = removal

    @torch.no_grad()
    def _relevance(self, model: NMTModel, batch: Batch, positions: int) -> Relevance:
        """Ablate each source word and each prefix word once."""

        def ablated(part: Batch) -> tuple[Tensor, Tensor]:
            ablation = Ablation(model, part, positions, self._objective, self._removal)
            return ablation.source(), ablation.inputs()

        return in_parts(batch, lambda s, t: positions // (s * t), ablated)


Changed = tuple[Tensor, Tensor, Tensor]
"""Rows and steps (X,) that a removed word changes, and the states (X, D) there."""


class Ablation:
    """What the number of each step loses without each word.

    Captum asks with R rows, row block after row block: b0 b1 .. b0 b1 .., one word less in each.
    """

    def __init__(
        self, model: NMTModel, batch: Batch, positions: int, objective: Objective, removal: Removal
    ) -> None:
        self._model, self._batch, self._positions = model, batch, positions
        self._objective, self._words_BTC = objective, objective.words(model, batch)
        self._now_BT = batch.current_BT
        self._switched = SwitchedOff(model, batch, removal)
        everything = torch.ones_like(batch.source_BS)
        encoding = self._switched.encoding(torch.arange(len(everything)), everything)
        # Read once: a removed prefix word goes on from a fork of it.
        self._prefix = model.prefix(encoding)
        whole_BTD = self._prefix.read(self._switched.input_BTD)
        self._whole_BT = self._value(whole_BTD, self._words_BTC)

    def source(self) -> Tensor:
        """Return what is lost without each source word, (B, T, S)."""
        rows, steps = self._now_BT.shape
        together = self._positions // (rows * steps)
        return self._lost(self._without_source, self._batch.source_BS.shape[1], together)

    def inputs(self) -> Tensor:
        """Return what is lost without each decoder input, (B, T, T); input 0 is BOS: 0."""
        rows, steps = self._now_BT.shape
        # BOS is never switched off.
        parts = [self._whole_BT.new_zeros(rows, steps, 1)]
        if steps > 1:
            # All at once: `_changed` cuts them into blocks that fit.
            parts.append(self._lost(self._without_input, steps - 1, steps - 1))
        return torch.cat(parts, dim=2)

    def _value(self, states: Tensor, words: Tensor) -> Tensor:
        return self._objective.value(self._model, states, words)

    def _lost(self, value: Callable[[Tensor], Tensor], words: int, together: int) -> Tensor:
        (rows, steps), device = self._now_BT.shape, self._now_BT.device
        lost = FeatureAblation(value).attribute(
            # A switch for each word, 1 for on; the baseline of 0 switches it off.
            torch.ones(rows, words, device=device),
            baselines=0.0,
            perturbations_per_eval=min(words, max(1, together)),
        )
        return lost.view(rows, steps, words)

    def _without_source(self, keep_RS: Tensor) -> Tensor:
        """Encode anew without the words switched off; every step may change."""
        rows_R = self._rows(keep_RS)
        value_RT = self._whole_BT[rows_R]
        # What is off in the padding of a shorter sentence changes nothing.
        off_R = ((keep_RS == 0) & self._batch.source_mask_BS[rows_R]).any(1)
        if off_R.any():
            rows = rows_R[off_R]
            encoding = self._switched.encoding(rows, keep_RS[off_R])
            states = self._model.decode(encoding, self._switched.input_BTD[rows])
            now_RT, some_RT = self._now_BT[rows], value_RT[off_R]
            # Only steps that are explained reach the output layer.
            some_RT[now_RT] = self._value(states[now_RT], self._words_BTC[rows][now_RT])
            value_RT[off_R] = some_RT
        return value_RT

    def _without_input(self, keep_RX: Tensor) -> Tensor:
        """Go on behind the steps before the word that is off; only those after it change."""
        rows_R = self._rows(keep_RX)
        value_RT = self._whole_BT[rows_R]
        for row, step, states in _together(self._changed(rows_R, keep_RX), self._positions):
            value_RT[row, step] = self._value(states, self._words_BTC[rows_R[row], step])
        return value_RT

    def _changed(self, rows_R: Tensor, keep_RX: Tensor) -> Iterator[Changed]:
        """Yield the steps of some rows that a removed word changes, block by block of words."""
        there_RX = self._batch.target_mask_BT[rows_R, 1:]
        off_RX = (keep_RX == 0) & there_RX
        # 0 is BOS and never off, so it marks rows without a removed word.
        word_R = torch.where(off_RX.any(1), off_RX.int().argmax(1) + 1, 0)  # one in each row
        for start, stop in self._blocks():
            some = ((word_R >= start) & (word_R < stop)).nonzero()[:, 0]
            if len(some):
                rows, keep_RL = rows_R[some], keep_RX[some, start - 1 :]
                inputs = self._switched.inputs(rows, keep_RL, start)
                # What stands before the block is the same in all rows, and has been read.
                fork = self._prefix.fork(start, rows)
                fork.encoding = self._switched.reading(fork.encoding, rows, keep_RL, start)
                states = fork.read(inputs)
                # The product is 0 from the removed word on: steps before it have not read it.
                changed_RL = self._now_BT[rows, start:] & (keep_RL.cumprod(1) == 0)
                row, step = changed_RL.nonzero(as_tuple=True)
                yield some[row], step + start, states[row, step]

    def _blocks(self) -> Iterator[tuple[int, int]]:
        """Yield decoder inputs whose removals are read together, from the first of them on."""
        (rows, steps), start, most = self._now_BT.shape, 1, self._positions
        while start < steps:
            steps_left = steps - start
            count = max(
                min(FEW, most) // (rows * steps_left),
                # Words of a block are read from its first one on; an eighth of what is left keeps
                # that waste small.
                min(steps_left // 8, most // (rows * steps_left)),
                1,
            )
            yield start, start + count
            start += count

    def _rows(self, keep_RX: Tensor) -> Tensor:
        """Return the sentence that each row is of."""
        return torch.arange(len(keep_RX), device=keep_RX.device) % len(self._now_BT)


def _together(changed: Iterable[Changed], most: int) -> Iterator[Changed]:
    """Yield larger blocks, so that the output layer's weights are not read for few rows."""
    waiting: list[Changed] = []
    for part in changed:
        waiting.append(part)
        if sum(len(row) for row, _, _ in waiting) >= most:
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting)


def _joined(changed: list[Changed]) -> Changed:
    row, step, states = (torch.cat(x) for x in zip(*changed, strict=True))
    return row, step, states
