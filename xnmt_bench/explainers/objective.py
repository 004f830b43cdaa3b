"""What an explanation is of: a number of one step's distribution, for one word or against another.

Why this word, or why this word and not that one? With a foil the number is that of the label less
that of the foil (Yin and Neubig 2022).

Shapes: as in `nmt.base`; C words of a step, 1 or with a foil 2.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from xnmt_bench.corpora.vocabulary.subwords import EOS, PAD, SEPARATOR, current_start
from xnmt_bench.device import READ_BYTES, Room
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.explainers.base import Explainer, Relevance, decide, require_labels
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch, Forced
from xnmt_bench.options import Count, Natural

Of = Literal["probability", "log_probability", "logit"]
Foil = Literal["second", "gold", "without_context"] | Natural


@dataclass(frozen=True)
class Objective:
    """A number of each step, whose dependence on the words is explained.

    Attributes:
        of: the label's probability, its logarithm, or its logit.
        foil: `second`, the most probable word but the label; `gold`, the target's own word, whose
            number is the label's in steps where the two are one; `without_context`, what the model
            says in that step without the sentences around the current one (Sarti et al. 2024); an
            id, that word in each step; None for none.
    """

    of: Of = "probability"
    foil: Foil | None = None

    @torch.no_grad()
    def words(self, model: NMTModel, batch: Batch) -> Tensor:
        """Return each step's label and, behind it, its foil, (B, T, C).

        Raises:
            NotApplicable: of log-probabilities with a foil, whose difference is that of logits.
            XnmtError: the foil is an id that the target vocabulary lacks.
        """
        if self.foil is not None and self.of == "log_probability":
            raise NotApplicable(
                "a foil needs of=logit: log-probabilities of two words differ as their logits do"
            )
        labels_BT = require_labels(batch)
        if self.foil is None:
            return labels_BT[..., None]
        if self.foil == "gold":
            return torch.stack([labels_BT, batch.target_BT], dim=-1)
        if self.foil == "without_context":
            return torch.stack([labels_BT, _without_context(model, batch, labels_BT)], dim=-1)
        if self.foil != "second":
            if self.foil >= len(model.target_subwords):
                raise XnmtError(
                    f"foil={self.foil}: the vocabulary has ids below {len(model.target_subwords)}"
                )
            return torch.stack([labels_BT, torch.full_like(labels_BT, self.foil)], dim=-1)
        flat, labels = Forced.of(model, batch).states_BTD.flatten(0, 1), labels_BT.flatten()
        # In parts, since logits are as wide as the vocabulary.
        rows = model.output_rows(flat)
        seconds = [
            # Without the label, which in golden data need not be the most probable word.
            model.logits(s).scatter(1, y[:, None], -torch.inf).argmax(1)
            for s, y in zip(flat.split(rows), labels.split(rows), strict=True)
        ]
        return torch.stack([labels_BT, torch.cat(seconds).view_as(labels_BT)], dim=-1)

    def value(self, model: NMTModel, states: Tensor, words: Tensor) -> Tensor:
        """Return the number of each step (...) from its state (..., D) and words (..., C)."""
        # One word of each step at a time, as `log_probability` takes them.
        values = [self._value(model, states, word) for word in words.unbind(-1)]
        return values[0] - values[1] if len(values) > 1 else values[0]

    def _value(self, model: NMTModel, states: Tensor, word: Tensor) -> Tensor:
        if self.of == "logit":
            flat = states.flatten(0, -2)
            rows = model.output_rows(flat)
            parts = zip(flat.split(rows), word.flatten().split(rows), strict=True)
            logits = [model.logits(s).gather(1, w[:, None])[:, 0] for s, w in parts]
            return torch.cat(logits).view(word.shape)
        log_p = model.log_probability(states, word)
        return log_p if self.of == "log_probability" else log_p.exp()


def _without_context(model: NMTModel, batch: Batch, labels_BT: Tensor) -> Tensor:
    """Return what the model chooses without context, (B, T); a context's own steps stay labels."""
    pairs = []
    # A prompt's examples stand before the context, and are part of the task.
    examples = len(model.source_subwords.in_front)
    for source_S, target_T in zip(batch.on_host.source_BS, batch.on_host.target_BT, strict=True):
        ends = np.flatnonzero(source_S == SEPARATOR) + 1
        front = ends[examples - 1] if examples else 0
        start, stop = ends[-1] if len(ends) else 0, np.flatnonzero(source_S == EOS)[0] + 1
        now_T = target_T[current_start(target_T) :]
        pairs.append(([*source_S[:front], *source_S[start:stop]], now_T[now_T != PAD]))
    alone, _ = decide(model, model.collate(pairs))
    foils_BT = labels_BT.clone()
    # Row by row the same steps, which begin elsewhere in a concatenation.
    foils_BT[batch.current_BT] = require_labels(alone)[alone.target_mask_BT]
    return foils_BT


class ObjectiveExplainer(Explainer):
    """Base of explainers of an objective, which compute as much at once as there is room for.

    Args:
        of: what is explained: the label's probability, its logarithm or its logit.
        foil: whose number is subtracted: `second`, the most probable word but the label; `gold`,
            the target's own word; `without_context`, what the model says without its context; an
            id; None for none.
        positions: of the decoder, computed in one pass. It bounds memory and changes no result.

    Attributes:
        cpu, each: of `Room`, in positions.
    """

    sizes = ("positions",)
    cpu: ClassVar[int] = 2048
    each: ClassVar[int] = READ_BYTES

    def __init__(self, of: Of, foil: Foil | None, positions: Count | None) -> None:
        self._objective, self.against_gold = Objective(of, foil), foil == "gold"
        self._room = Room(positions, self.cpu, self.each)

    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Explain a batch, in parts that fit into memory.

        Raises:
            NotApplicable: of log-probabilities with a foil; see `Objective`.
        """
        return self._room.tried(batch.source_BS.device, partial(self._relevance, model, batch))

    @abstractmethod
    def _relevance(self, model: NMTModel, batch: Batch, positions: int) -> Relevance:
        """Explain a batch with so many positions of the decoder in one pass."""
