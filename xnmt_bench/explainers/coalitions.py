"""A model's numbers for one sentence of which some words are switched off.

Under teacher forcing one row, with some words on, answers for all steps at once. Rows that keep the
same source words share an encoding.

Shapes: R rows, S source ids, U words of the prefix (decoder inputs but BOS), T steps.
"""

from __future__ import annotations

import torch
from torch import Tensor

from xnmt_bench.explainers.objective import Objective
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.switched import Removal, SwitchedOff


class Coalitions:
    """One labelled sentence, of which any words may be on.

    Args:
        model: the model under explanation.
        batch: the sentence, alone.
        objective: the number of each step.
        positions: of the decoder, computed in one pass; no result depends on it.
        removal: what replaces the embedding of a word that is off.

    Attributes:
        source, prefix: numbers of words, S with EOS and U.
    """

    def __init__(
        self,
        model: NMTModel,
        batch: Batch,
        objective: Objective,
        positions: int,
        removal: Removal = "zero",
    ) -> None:
        self._model, self._batch, self._objective = model, batch, objective
        self._words_TC = objective.words(model, batch)[0]
        self._switched = SwitchedOff(model, batch, removal)
        self.source, steps = batch.source_BS.shape[1], batch.target_BT.shape[1]
        self.prefix = steps - 1
        self._rows = max(1, positions // steps)

    @torch.no_grad()
    def values(self, keep_RX: Tensor) -> Tensor:
        """Return the number of each step, (R, T).

        Args:
            keep_RX: True for words that are on, source first, (R, S + U).
        """
        return torch.cat([self._values(part) for part in keep_RX.split(self._rows)])

    def _values(self, keep_RX: Tensor) -> Tensor:
        keep_RS, keep_RU = keep_RX.split([self.source, self.prefix], dim=1)
        distinct_ES, encoding_R = keep_RS.unique(dim=0, return_inverse=True)
        zeros_E = torch.zeros(len(distinct_ES), dtype=torch.long, device=keep_RX.device)
        encoding = self._switched.encoding(zeros_E, distinct_ES).select(encoding_R)
        zeros_R = torch.zeros_like(encoding_R)
        # BOS stays.
        keep_RT = torch.nn.functional.pad(keep_RU, (1, 0), value=True)
        states_RTD = self._model.decode(encoding, self._switched.inputs(zeros_R, keep_RT))
        words_RTC = self._words_TC.expand(len(keep_RX), -1, -1)
        value_N = self._objective.value(
            self._model, states_RTD.flatten(0, 1), words_RTC.flatten(0, 1)
        )
        return value_N.view(words_RTC.shape[:2])
