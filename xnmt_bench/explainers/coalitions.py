"""A model's numbers for sentences of which some words are switched off.

Under teacher forcing one row, with some words on, gives all steps at once. Rows of a sentence that
keep the same source words share an encoding.

Shapes: B sentences of like length, R rows of each, M rows of a pass, S source ids, U words of the
prefix (decoder inputs but BOS), X = S + U, T steps.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np
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
    """Labelled sentences, of which any words may be on.

    Args:
        model: the model under explanation.
        batch: the sentences.
        objective: the number of each step.
        positions: of the decoder, computed in one pass; no result depends on it.
        removal: what replaces the embedding of a word that is off.

    Attributes:
        source, prefix: numbers of words, S with EOS and U, of the longest sentence on each side.
        words_X: of each sentence, the places of its words among X, source first.
        device: of the numbers.
    """

    def __init__(
        self, model: NMTModel, batch: Batch, objective: Objective, positions: int, removal: Removal
    ) -> None:
        self._model, self._batch, self._objective = model, batch, objective
        self._words_BTC = objective.words(model, batch)
        self._switched = SwitchedOff(model, batch, removal)
        self.source, steps = batch.source_BS.shape[1], batch.target_BT.shape[1]
        self.prefix, self.device = steps - 1, batch.source_BS.device
        self.words_X = [
            np.concatenate([np.arange(s), self.source + np.arange(t - 1)])
            for s, t in batch.on_host.lengths.tolist()
        ]
        self._rows = max(1, positions // steps)

    @torch.no_grad()
    def values(self, keep_BRX: np.ndarray) -> Tensor:
        """Return the number of each step, (B, R, T).

        Args:
            keep_BRX: True for words that are on, source first. Padding may be on or off.
        """
        rows = keep_BRX.shape[:2]
        sentence_N = np.repeat(np.arange(rows[0]), rows[1])
        keep_NX = keep_BRX.reshape(len(sentence_N), -1)
        parts = (slice(start, start + self._rows) for start in range(0, len(keep_NX), self._rows))
        values = [self._values(sentence_N[part], keep_NX[part]) for part in parts]
        return torch.cat(values).unflatten(0, rows)

    def _values(self, sentence_M: np.ndarray, keep_MX: np.ndarray) -> Tensor:
        """Return the numbers of a pass, (M, T)."""
        keep_MS, keep_MU = np.split(keep_MX, [self.source], axis=1)
        # Rows may share their source words, and each distinct choice is encoded once. Listed on the
        # host, which then asks the device for nothing.
        choices = np.column_stack([sentence_M, np.packbits(keep_MS, axis=1)])
        _, first_E, encoding_M = np.unique(choices, axis=0, return_index=True, return_inverse=True)
        # BOS stays.
        keep_MT = np.pad(keep_MU, ((0, 0), (1, 0)), constant_values=True)
        arrays = sentence_M[first_E], keep_MS[first_E], encoding_M, sentence_M, keep_MT
        of_E, distinct_ES, place_M, row_M, input_MT = (
            torch.as_tensor(x, device=self.device) for x in arrays
        )
        encoding = self._switched.encoding(of_E, distinct_ES).select(place_M)
        encoding = self._switched.reading(encoding, row_M, input_MT)
        states_MTD = self._model.decode(encoding, self._switched.inputs(row_M, input_MT))
        return self._objective.value(self._model, states_MTD, self._words_BTC[row_M])


class CoalitionExplainer(ObjectiveExplainer):
    """Base of explainers that switch many words off at once.

    A subclass overrides `rows` and `scores`. A sentence's own ids and the seed decide what it
    draws.

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
    def rows(self, words: int) -> int:
        """Return how many rows a sentence of so many words needs."""

    @abstractmethod
    def scores(
        self, sentences: Coalitions, generators: Sequence[torch.Generator]
    ) -> tuple[Tensor, ...]:
        """Return the score of each word at each step, source first, (B, T, X).

        Behind it, where it is known, the error of each step, (B, T).

        Args:
            sentences: whose words may be switched off.
            generators: of all draws of each, on the CPU.
        """

    def _relevance(self, model: NMTModel, batch: Batch, positions: int) -> Relevance:
        def explain(part: Batch) -> tuple[Tensor, ...]:
            sentences = Coalitions(model, part, self._objective, positions, self._removal)
            score_BTX, *errors = self.scores(sentences, [*self._generators(part)])
            # Steps of context sentences are not explained.
            score_BTX = score_BTX * part.current_BT[..., None]
            source_BTS, prefix_BTU = score_BTX.split([sentences.source, sentences.prefix], dim=2)
            # Input 0 is BOS and no word.
            return source_BTS, torch.nn.functional.pad(prefix_BTU, (1, 0)), *errors

        def most(s: int, t: int) -> int:
            return positions // (self.rows(s + t - 1) * max(s, t))

        return in_parts(batch, most, explain)

    def _generators(self, part: Batch) -> Iterator[torch.Generator]:
        """Yield a generator of each sentence."""
        # From the sentence's own ids, so that a batch or a corpus changes no draw.
        host = part.on_host
        for b, (s, t) in enumerate(host.lengths.tolist()):
            yield seeded(self._seed, host.source_BS[b, :s], host.target_BT[b, :t])
