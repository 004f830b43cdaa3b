"""What an explainer is: one function from a model and labelled sentences to relevance."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from xnmt_bench.corpora.passage import Context, Passage
from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.errors import XnmtError
from xnmt_bench.explanation import Explanation
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch, Forced
from xnmt_bench.nmt.decoding import translate

PADDED = 1.125  # a part's positions beside its words, at most
ABSENT = float("nan")  # the relevance of a word that a step cannot see


@dataclass(frozen=True)
class Relevance:
    """Relevance phi(w; y_t, c_t) of every word for every step; greater is more useful.

    Attributes:
        source_BTS: of source id s for step t; NaN in the padding.
        prefix_BTT: of target id j for step t; NaN unless j < t. None where the explainer says
            nothing of prefix words (attention in RNNSearch).
        error_BT: how far the scores of each step may be off, as `Explainer.error` says; None where
            it is not known.
    """

    source_BTS: Tensor
    prefix_BTT: Tensor | None
    error_BT: Tensor | None = None

    @classmethod
    def of_inputs(cls, batch: Batch, source_BTS: Tensor, input_BTT: Tensor | None) -> Relevance:
        """Make relevance of scores over source ids and decoder inputs (0 is BOS, j is y_{j-1}).

        Words that a step cannot see are marked absent, and their scores dropped.
        """
        # Broadcast over the words: every word of a padded step is absent.
        steps = batch.target_mask_BT[:, :, None]
        source = source_BTS.masked_fill(~(steps & batch.source_mask_BS[:, None]), ABSENT)
        if input_BTT is None:
            return cls(source, None)
        length = input_BTT.shape[1]
        # Input j is word j - 1, so scores move one to the left and BOS falls out.
        shifted = torch.cat([input_BTT[..., 1:], torch.zeros_like(input_BTT[..., :1])], dim=-1)
        # Word t itself is what step t predicts, so the diagonal is left out.
        earlier = torch.ones(length, length, dtype=torch.bool, device=shifted.device).tril(-1)
        return cls(source, shifted.masked_fill(~(steps & earlier), ABSENT))

    def without(self, steps_BT: Tensor) -> Relevance:
        """Return the same relevance, NaN in some steps."""
        absent_BT1, prefix_BTT = steps_BT[..., None], self.prefix_BTT
        if prefix_BTT is not None:
            prefix_BTT = prefix_BTT.masked_fill(absent_BT1, ABSENT)
        source_BTS = self.source_BTS.masked_fill(absent_BT1, ABSENT)
        return Relevance(source_BTS, prefix_BTT, self.error_BT)


class Explainer(ABC):
    """Base of every explainer; a plug-in overrides `relevance` and nothing else.

    The model arrives in evaluation mode, its weights without gradients, and must leave so: use
    `torch.autograd.grad` rather than `backward`, and register no hook that stays.

    Attributes:
        blind: it never asks the model, so it is a point of reference and never ranked.
        learnt: what `prepare` gave, where there is anything; the pipeline stores it.
        needs_gold: it reads `batch.gold`, so it speaks only of corpora that are annotated.
        against_gold: it explains the label against the target's own word, and leaves out
            steps whose label is that word.
        of_target_words: it explains the target's own words alone, also where the label is another.
        tells_own_side: it has `own_side`; of any other explainer relevance has to stand for that.
        attends: its relevance is attention, which does not weigh prefix words against source words.
        gives_shares: its relevance of source words is shares of each step as it stands.
        for_testing_judges: it replaces another explainer's relevance, and shows nothing of a
            sentence.
        alters: the name of the explainer whose relevance it alters, and `altered` that explainer.
        error: what `Relevance.error_BT` is, where the explainer gives it.
        sizes: options that change no result, such as how much is computed at once.
        unnamed: options that its name in results does not show.
    """

    blind: ClassVar[bool] = False
    learnt: Mapping[str, np.ndarray] | None = None
    needs_gold: ClassVar[bool] = False
    against_gold: bool = False
    of_target_words: ClassVar[bool] = False
    tells_own_side: ClassVar[bool] = False
    attends: ClassVar[bool] = False
    gives_shares: bool = False
    for_testing_judges: ClassVar[bool] = False
    alters: str = ""
    altered: Explainer | None = None
    error: ClassVar[str] = ""
    sizes: ClassVar[tuple[str, ...]] = ()
    unnamed: ClassVar[tuple[str, ...]] = ()

    def prepare(self, train: EncodedSplit) -> Mapping[str, np.ndarray] | None:
        """Return what it learns from the training split before it explains; None for nothing."""
        return None

    @property
    def learns(self) -> bool:
        """Whether it learns from training text before it explains: it brings a `prepare`."""
        return type(self).prepare is not Explainer.prepare

    @abstractmethod
    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Return relevance of every word for every step of every sentence.

        Args:
            model: the model under explanation.
            batch: B sentences with `labels_BT`, the label each step is explained for. Of a
                concatenation only the steps of the current sentence are read (`current_BT`).
        """

    def own_side(self, model: NMTModel, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return how much each id of one sentence looks at its own side: (S, S), (T, T).

        Raises:
            NotApplicable: not of this model.
        """
        raise NotImplementedError

    def __call__(
        self, model: NMTModel, pairs: Iterable[str | tuple[str, str] | Passage], beam: int = 4
    ) -> list[Explanation]:
        """Explain raw sentence pairs: the model's own choice at each step of the given target.

        Args:
            model: an open system, from `xnmt_bench.load`.
            pairs: (source, target) texts; contexts are the source and the prefixes of the target. A
                source alone is translated first. Of a system that reads other sentences too,
                passages, which have them; the steps of the current sentence are explained.
            beam: hypotheses that are kept where a source is translated.

        Raises:
            XnmtError: this explainer needs a corpus's annotation, a pair is not two texts, or has
                a context that the system does not read.
        """
        # Refused before anything is translated: bare pairs have no annotation to read.
        if self.needs_gold:
            raise XnmtError(f"{type(self).__name__} needs gold annotation, which bare text has not")
        # A text is a sequence of letters, and one pair a sequence of two sources.
        if isinstance(pairs, str | Passage) or (
            isinstance(pairs, tuple) and list(map(type, pairs)) == [str, str]
        ):
            raise XnmtError(f"give a list of pairs: [{pairs!r}]")
        # Read to the end first: a slip in the last pair is found before the first is explained.
        pairs = list(pairs)
        passages = []
        for number, pair in enumerate(pairs, start=1):
            if isinstance(pair, str):
                pair = translated(model, Passage(pair, ""), beam)
            elif not isinstance(pair, Passage):
                if not isinstance(pair, tuple | list) or [*map(type, pair)] != [str, str]:
                    problem = "not a source or a (source, target) pair of texts"
                    raise XnmtError(f"pair {number} is {pair!r}, {problem}")
                pair = Passage(*pair)
            passages.append(pair)
        return [self._explain(model, passage) for passage in passages]

    def _explain(self, model: NMTModel, passage: Passage) -> Explanation:
        read = passage.read(context_of(model, passage))
        source, target = read.tie(model.source_subwords, model.target_subwords)
        batch = model.collate([(source.ids, target.ids)])
        batch, log_probability_BT = decide(model, batch, weights=self.attends)  # phi may read them
        relevance = self.relevance(model, batch)
        assert batch.labels_BT is not None
        if self.against_gold:
            relevance = relevance.without(batch.labels_BT == batch.target_BT)
        prefix, current_T = relevance.prefix_BTT, batch.current_BT[0]
        return Explanation(
            model.source_subwords.pieces(source.ids),
            model.target_subwords.pieces(target.ids),
            model.target_subwords.pieces(batch.labels_BT[0, current_T].tolist()),
            log_probability_BT[0, current_T].exp().cpu(),
            relevance.source_BTS[0, current_T].cpu(),
            None if prefix is None else prefix[0, current_T].cpu(),
            # Such as `prediction_difference` of PredictionDifference.
            re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower(),
            source.words,
            target.words,
        )


def translated(model: NMTModel, passage: Passage, beam: int) -> Passage:
    """Return a passage with the model's own translation of its current sentence as its target.

    Args:
        model: the system.
        passage: its target is not read.
        beam: hypotheses that are kept; 1 is greedy.
    """
    read = replace(passage, target="").read(context_of(model, passage))
    source_ids, prefix_ids = read.encode(model.source_subwords, model.target_subwords)
    # The target is yet to come, so its EOS is left out of the prefix.
    [ids] = translate(model, [source_ids], beam, prefixes=[prefix_ids[:-1]])
    return replace(passage, target=model.target_subwords.decode(ids))


def context_of(model: NMTModel, passage: Passage) -> Context:
    """Return the sentences around each that a model reads: as trained, or all if unknown.

    Raises:
        XnmtError: the passage has a context that the model does not read, or lacks the target side
            of one that it reads.
    """
    before, behind = len(passage.source_context), len(passage.following)
    context = Context(before, target=bool(passage.target_context), following=behind)
    trained = model.trained_context
    problem = model.refuses(context) if trained is None else None
    if trained and before and not trained.sentences:
        problem = "was trained without a context"
    if problem:
        raise XnmtError(f"a sentence has others before it, but the system {problem}")
    if trained and behind and not trained.following:
        raise XnmtError("a sentence has others behind it, but the system was trained without")
    # Without it the sentence would be read alone, in silence.
    if trained and trained.target and before and not passage.target_context:
        raise XnmtError(
            "the system reads translations of the sentences before; give target_context"
        )
    return trained or context


@torch.no_grad()
def decide(model: NMTModel, batch: Batch, weights: bool = False) -> tuple[Batch, Tensor]:
    """Label a batch with the model's own choices f(c_t); also return their log P, (B, T).

    The context is the given target's prefix: the paper's teacher-forcing decode.

    Args:
        model: the model under explanation.
        batch: without labels.
        weights: keep the attention of this pass, which the explainer will ask for.
    """
    batch, states_BTD = _passed(model, batch, weights)
    labels_BT, log_probability_BT = model.decide(states_BTD)
    return batch.labelled(labels_BT), log_probability_BT


@torch.no_grad()
def follow(model: NMTModel, batch: Batch, weights: bool = False) -> tuple[Batch, Tensor]:
    """Label a batch with the target's own words y_t, as golden data and alignment need."""
    batch, states_BTD = _passed(model, batch, weights)
    log_probability_BT = model.log_probability(states_BTD, batch.target_BT)
    return batch.labelled(batch.target_BT), log_probability_BT


def _passed(model: NMTModel, batch: Batch, weights: bool) -> tuple[Batch, Tensor]:
    """Return a batch with its pass, and the pass's states."""
    forced = Forced(model, batch)
    if weights:
        _ = forced.attention  # which has the states too
    return replace(batch, forced=forced), forced.states_BTD


def in_parts(
    batch: Batch, most: Callable[[int, int], int], explain: Callable[[Batch], tuple[Tensor, ...]]
) -> Relevance:
    """Explain sentences of like length together, without the padding of the others.

    Args:
        batch: the sentences.
        most: how many go together whose greatest lengths are S and T; one goes always.
        explain: scores over source ids (B, T, S), over decoder inputs (B, T, T) and, where it is
            known, the error of each step (B, T).
    """
    (size, steps), words = batch.target_BT.shape, batch.source_BS.shape[1]
    # Made at the first part, whose scores tell type and device.
    wholes: tuple[Tensor, ...] = ()
    for rows in _alike(batch, most):
        scores = explain(batch.take(rows))
        wholes = wholes or tuple(
            x.new_zeros(size, *shape)
            for x, shape in zip(scores, ((steps, words), (steps, steps), (steps,)), strict=False)
        )
        for whole, x in zip(wholes, scores, strict=True):
            place: tuple[list[int] | slice, ...] = (rows, *map(slice, x.shape[1:]))
            whole[place] = x
    source_BTS, input_BTT, *errors = wholes
    relevance = Relevance.of_inputs(batch, source_BTS, input_BTT)
    return replace(relevance, error_BT=errors[0]) if errors else relevance


def _alike(batch: Batch, most: Callable[[int, int], int]) -> Iterator[list[int]]:
    """Yield rows of sentences of like length, little of which is padding."""
    masks = (batch.source_mask_BS, batch.target_mask_BT)
    lengths = list(zip(*(mask.sum(1).tolist() for mask in masks), strict=True))
    rows: list[int] = []
    # By target length first: scores are (T, S) and (T, T), so that padded steps cost most.
    for row in sorted(range(len(lengths)), key=lambda row: lengths[row][::-1]):
        part_lengths = [lengths[r] for r in (*rows, row)]
        longest = [max(side) for side in zip(*part_lengths, strict=True)]
        words = [sum(side) for side in zip(*part_lengths, strict=True)]
        padded = any(
            n * len(part_lengths) > PADDED * w for n, w in zip(longest, words, strict=True)
        )
        if rows and (padded or len(part_lengths) > most(*longest)):
            yield rows
            rows = []
        rows.append(row)
    yield rows


def require_labels(batch: Batch) -> Tensor:
    """Return the labels of a batch.

    Raises:
        ValueError: the batch has no labels yet.
    """
    if batch.labels_BT is None:
        # Not an XnmtError: no user can cause it, only a plug-in that forgot to decide.
        raise ValueError("the batch has no labels: call explainers.base.decide first")
    return batch.labels_BT
