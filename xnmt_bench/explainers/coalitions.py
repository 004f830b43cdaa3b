"""A model's numbers for one sentence of which some words are switched off.

Under teacher forcing one row, with some words on, gives all steps at once. Rows that keep the
same source words share an encoding.

Shapes: R rows, S source ids, U words of the prefix (decoder inputs but BOS), T steps.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from xnmt_bench.explainers.base import Relevance, in_parts
from xnmt_bench.explainers.objective import Foil, Objective, ObjectiveExplainer, Of
from xnmt_bench.explainers.random import seeded
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.switched import Removal, SwitchedOff
from xnmt_bench.options import Count, Seed


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
        device: where rows are wanted.
    """

    def __init__(
        self, model: NMTModel, batch: Batch, objective: Objective, positions: int, removal: Removal
    ) -> None:
        self._model, self._batch, self._objective = model, batch, objective
        self._words_TC = objective.words(model, batch)[0]
        self._switched = SwitchedOff(model, batch, removal)
        self.source, steps = batch.source_BS.shape[1], batch.target_BT.shape[1]
        self.prefix, self.device = steps - 1, batch.source_BS.device
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
        # Rows may share their source words, and each distinct choice is encoded once.
        distinct_ES, encoding_R = keep_RS.unique(dim=0, return_inverse=True)
        zeros_E = torch.zeros(len(distinct_ES), dtype=torch.long, device=keep_RX.device)
        encoding = self._switched.encoding(zeros_E, distinct_ES).select(encoding_R)
        zeros_R = torch.zeros_like(encoding_R)
        # BOS stays.
        keep_RT = torch.nn.functional.pad(keep_RU, (1, 0), value=True)
        encoding = self._switched.reading(encoding, zeros_R, keep_RT)
        states_RTD = self._model.decode(encoding, self._switched.inputs(zeros_R, keep_RT))
        words_RTC = self._words_TC.expand(len(keep_RX), -1, -1)
        return self._objective.value(self._model, states_RTD, words_RTC)


class CoalitionExplainer(ObjectiveExplainer):
    """Base of explainers that switch many words off at once, sentence by sentence.

    A subclass overrides `scores`. A sentence's own ids and the seed decide what it draws.

    Args:
        of, foil, positions: as for `ObjectiveExplainer`.
        removal: what replaces the embedding of a word that is off.
        seed: another seed is another draw.
    """

    def __init__(
        self, of: Of, foil: Foil | None, removal: Removal, seed: Seed, positions: Count | None
    ) -> None:
        super().__init__(of, foil, positions)
        self._removal, self._seed = removal, seed

    @abstractmethod
    def scores(self, sentence: Coalitions, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Return the score of each word at each step, source first, (T, S + U).

        Behind it, where it is known, the error of each step, (T,).

        Args:
            sentence: whose words may be switched off.
            generator: of all draws, on the CPU.
        """

    def _relevance(self, model: NMTModel, batch: Batch, positions: int) -> Relevance:
        def explain(part: Batch) -> tuple[Tensor, ...]:
            sentence = Coalitions(model, part, self._objective, positions, self._removal)
            # From the sentence's own ids, so that a batch or a corpus changes no draw.
            generator = seeded(self._seed, part.source_BS[0], part.target_BT[0])
            score_TX, *errors = self.scores(sentence, generator)
            # Steps of context sentences are not explained.
            score_TX = score_TX * part.current_BT[0, :, None]
            source_TS, prefix_TU = score_TX.split([sentence.source, sentence.prefix], dim=1)
            # Input 0 is BOS and no word.
            prefix_TT = torch.nn.functional.pad(prefix_TU, (1, 0))
            return source_TS[None], prefix_TT[None], *(error_T[None] for error_T in errors)

        # One sentence at a time, whose rows fill a pass.
        return in_parts(batch, lambda *_: 1, explain)
