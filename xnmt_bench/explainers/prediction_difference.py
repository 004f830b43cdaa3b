"""Prediction difference (Li et al. 2019): how much probability is lost without a word.

Under teacher forcing one row, with one embedding zeroed, gives all steps at once. So a pair
costs S + T rows: a source word's removal is encoded anew, a prefix word's shares the encoding and
all steps before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
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

    papers = ("li2019",)

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


Changed = tuple[Tensor, Tensor, Tensor, Tensor]
"""Rows, steps and removed words (X,), and the states (X, D) of these steps without the words."""


class Ablation:
    """What the number of each step loses without each word.

    Words are removed one by one, each from all sentences that have it.
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
        self._whole_BT = objective.value(model, whole_BTD, self._words_BTC)

    def source(self) -> Tensor:
        """Return what is lost without each source word, (B, T, S)."""
        mask_BS = self._batch.source_mask_BS
        (rows, steps), words_S = self._now_BT.shape, _places(mask_BS)
        lost_BTS = self._whole_BT.new_zeros(rows, steps, len(words_S))
        for words in words_S.split(max(1, self._positions // (rows * steps))):
            # What is off in the padding of a shorter sentence changes nothing.
            place_R, row_R = mask_BS[:, words].T.nonzero(as_tuple=True)
            word_R = words[place_R]
            encoding = self._switched.encoding(row_R, words_S != word_R[:, None])
            states_RTD = self._model.decode(encoding, self._switched.input_BTD[row_R])
            # Every step may change; only those that are explained reach the output layer.
            of, step = self._now_BT[row_R].nonzero(as_tuple=True)
            lost = self._lost(row_R[of], step, states_RTD[of, step])
            lost_BTS[row_R[of], step, word_R[of]] = lost
        return lost_BTS

    def inputs(self) -> Tensor:
        """Return what is lost without each decoder input, (B, T, T); input 0 is BOS: 0."""
        rows, steps = self._now_BT.shape
        lost_BTT = self._whole_BT.new_zeros(rows, steps, steps)
        for row, step, word, states in _together(self._changed(), self._positions):
            lost_BTT[row, step, word] = self._lost(row, step, states)
        return lost_BTT

    def _lost(self, row_X: Tensor, step_X: Tensor, states_XD: Tensor) -> Tensor:
        """Return what the numbers of some steps lose, (X,), if these are their states."""
        words_XC = self._words_BTC[row_X, step_X]
        value_X = self._objective.value(self._model, states_XD, words_XC)
        return self._whole_BT[row_X, step_X] - value_X

    def _changed(self) -> Iterator[Changed]:
        """Yield the steps behind each removed prefix word, block by block of words."""
        mask_BT = self._batch.target_mask_BT
        for start, stop in self._blocks():
            place_R, row_R = mask_BT[:, start:stop].T.nonzero(as_tuple=True)
            word_R, step_L = place_R + start, _places(mask_BT)[start:]
            keep_RL = step_L != word_R[:, None]
            # What stands before the block is the same in all rows, and has been read.
            fork = self._prefix.fork(start, row_R)
            fork.encoding = self._switched.reading(fork.encoding, row_R, keep_RL, start)
            states_RLD = fork.read(self._switched.inputs(row_R, keep_RL, start))
            # Steps before the removed word have not read it.
            changed_RL = self._now_BT[row_R, start:] & (step_L >= word_R[:, None])
            of, step = changed_RL.nonzero(as_tuple=True)
            yield row_R[of], step + start, word_R[of], states_RLD[of, step]

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


def _places(ids_BX: Tensor) -> Tensor:
    """Return the places of ids in their rows, from 0, (X,)."""
    return torch.arange(ids_BX.shape[1], device=ids_BX.device)


def _together(changed: Iterable[Changed], most: int) -> Iterator[Changed]:
    """Yield larger blocks, so that the output layer's weights are not read for few rows."""
    waiting: list[Changed] = []
    for part in changed:
        waiting.append(part)
        if sum(len(row) for row, *_ in waiting) >= most:
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting)


def _joined(changed: list[Changed]) -> Changed:
    row, step, word, states = (torch.cat(x) for x in zip(*changed, strict=True))
    return row, step, word, states
