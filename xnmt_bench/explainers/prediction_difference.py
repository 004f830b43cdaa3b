"""Prediction difference (Li et al. 2019): how much probability is lost without a word.

Under teacher forcing one row, with one embedding zeroed, gives all steps at once. So a pair
costs S + T rows: a source word's removal is encoded anew, a prefix word's shares the encoding and
all steps before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from torch import Tensor

from xnmt_bench.explainers.base import Relevance, in_parts
from xnmt_bench.explainers.objective import Foil, Objective, ObjectiveExplainer, Of
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.switched import Removal, SwitchedOff
from xnmt_bench.options import Count

# Parts of the positions of a pass that take as long as fewer: a processor would read weights for
# too few of them, and a GPU, in its room beyond a processor's, would wait for operations.
FEW, FEW_BEYOND = 16, 4


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
        self._model, self._positions = model, positions
        self._objective, self._words_BTC = objective, objective.words(model, batch)
        # Rows and steps are listed on the host, which then asks the device for nothing.
        self._host, self._device = batch.on_host, batch.source_BS.device
        self._switched = SwitchedOff(model, batch, removal)
        everything = torch.ones_like(batch.source_BS)
        encoding = self._switched.encoding(torch.arange(len(everything)), everything)
        # Read once: a removed prefix word goes on from a fork of it.
        self._prefix = model.prefix(encoding)
        whole_BTD = self._prefix.read(self._switched.input_BTD)
        self._whole_BT = objective.value(model, whole_BTD, self._words_BTC)

    def source(self) -> Tensor:
        """Return what is lost without each source word, (B, T, S)."""
        mask_BS, now_BT = self._host.source_mask_BS, self._host.current_BT
        (rows, steps), words = now_BT.shape, mask_BS.shape[1]
        word_S, lost_BTS = self._places(words), self._whole_BT.new_zeros(rows, steps, words)
        together = max(1, self._positions // (rows * steps))
        for start in range(0, words, together):
            # What is off in the padding of a shorter sentence changes nothing.
            place, of_sentence = mask_BS[:, start : start + together].T.nonzero()
            row_R, word_R = self._indices(of_sentence, start + place)
            # In a decoder-only model the words before the first that is off stay as they were.
            unchanged, keep_RS = self._prefix.encoding, word_S != word_R[:, None]
            encoding = self._switched.encoding(row_R, keep_RS, unchanged, start)
            states_RTD = self._model.decode(encoding, self._switched.input_BTD[row_R])
            # Every step may change; only those that are explained reach the output layer.
            of, step = self._indices(*now_BT[of_sentence].nonzero())
            row, word = row_R[of], word_R[of]
            lost_BTS[row, step, word] = self._lost(row, step, states_RTD[of, step])
        return lost_BTS

    def inputs(self) -> Tensor:
        """Return what is lost without each decoder input, (B, T, T); input 0 is BOS: 0."""
        rows, steps = self._host.target_BT.shape
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
        mask_BT, now_BT = self._host.target_mask_BT, self._host.current_BT
        step_T, steps = self._places(mask_BT.shape[1]), np.arange(mask_BT.shape[1])
        for start, stop in self._blocks():
            place, of_sentence = mask_BT[:, start:stop].T.nonzero()
            row_R, word_R = self._indices(of_sentence, start + place)
            keep_RL = step_T[start:] != word_R[:, None]
            # What stands before the block is the same in all rows, and has been read.
            fork = self._prefix.fork(start, row_R)
            fork.encoding = self._switched.reading(fork.encoding, row_R, keep_RL, start)
            states_RLD = fork.read(self._switched.inputs(row_R, keep_RL, start))
            # Steps before the removed word have not read it.
            changed_RL = now_BT[of_sentence, start:] & (steps[start:] >= start + place[:, None])
            of, step = self._indices(*changed_RL.nonzero())
            yield row_R[of], step + start, word_R[of], states_RLD[of, step]

    def _places(self, count: int) -> Tensor:
        """Return the places of so many ids, from 0."""
        return torch.arange(count, device=self._device)

    def _indices(self, *indices: np.ndarray) -> tuple[Tensor, ...]:
        """Return indices on the device, in one copy."""
        return torch.as_tensor(np.stack(indices), device=self._device).unbind()

    def _blocks(self) -> Iterator[tuple[int, int]]:
        """Yield decoder inputs whose removals are read together, from the first of them on."""
        (rows, steps), start, most = self._host.target_BT.shape, 1, self._positions
        few = max(most // FEW, (most - ObjectiveExplainer.cpu) // FEW_BEYOND)
        while start < steps:
            steps_left = steps - start
            count = max(
                few // (rows * steps_left),
                # Words of a block are read from its first one on; an eighth of what is left keeps
                # that waste small.
                min(steps_left // 8, most // (rows * steps_left)),
                1,
            )
            yield start, start + count
            start += count


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
