"""What an explainer is: one function from a model and labelled sentences to relevance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import Tied
from xnmt_bench.device import Room, device_of
from xnmt_bench.errors import XnmtError
from xnmt_bench.explanation import Explanation, Explanations
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch, Forced
from xnmt_bench.nmt.batching import alike, buckets
from xnmt_bench.nmt.passages import (
    Text,
    read_passages,
    require_model,
    tie_passages,
    translate_passages,
)
from xnmt_bench.progress import bar
from xnmt_bench.registry import snake_case

TOGETHER = 1024  # target ids of a batch that keep a processor busy
TARGET_BYTES = 2**22  # of memory, for each target id of a batch
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
        options: what it was made with, defaults too.
        learnt: what `prepare` gave, where there is anything; the pipeline stores it.
        needs_gold: it reads `batch.gold`, so it speaks only of corpora that are annotated.
        against_gold: it explains the label against the target's own word, and leaves out
            steps whose label is that word.
        of_target_words: it explains the target's own words alone, also where the label is another.
        tells_own_side: it has `own_side`; of any other explainer relevance has to stand for that.
        attends: its relevance is attention, which does not weigh prefix words against source words.
        shares: what its relevance, as it stands, is shares of: `side`, of source and of prefix
            each, or `step`, of both together; empty where it is none.
        for_testing_judges: it replaces another explainer's relevance, and shows nothing of a
            sentence.
        alters: the name of the explainer whose relevance it alters, and `altered` that explainer.
        error: what `Relevance.error_BT` is, where the explainer gives it.
        sizes: options that change no result, such as how much is computed at once.
        unnamed: options that its name in results does not show.
        papers: where the method was published: keys of `references.bib`, or BibTeX entries.
    """

    papers: ClassVar[tuple[str, ...]] = ()
    blind: ClassVar[bool] = False
    options: dict[str, Any]
    learnt: Mapping[str, np.ndarray] | None = None
    needs_gold: ClassVar[bool] = False
    against_gold: bool = False
    of_target_words: ClassVar[bool] = False
    tells_own_side: ClassVar[bool] = False
    attends: ClassVar[bool] = False
    shares: Literal["", "side", "step"] = ""
    for_testing_judges: ClassVar[bool] = False
    alters: str = ""
    altered: Explainer | None = None
    error: ClassVar[str] = ""
    sizes: ClassVar[tuple[str, ...]] = ()
    unnamed: ClassVar[tuple[str, ...]] = ()

    def __new__(cls, *arguments: Any, **options: Any) -> Self:
        """Keep the options that it is made with, which `options` returns."""
        explainer = super().__new__(cls)
        # A wrong option is for `__init__` to refuse.
        with suppress(TypeError):
            bound = signature(cls).bind(*arguments, **options)
            bound.apply_defaults()
            explainer.options = dict(bound.arguments)
        return explainer

    def __repr__(self) -> str:
        """Return its class with all options, such as `Attention(layer=-1, heads='mean')`."""
        options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return f"{type(self).__name__}({options})"

    @property
    def name(self) -> str:
        """Its class's name as the command line has names, such as `prediction_difference`."""
        return snake_case(type(self).__name__)

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
        self,
        model: NMTModel,
        sentences: Iterable[Text],
        targets: Iterable[str] | None = None,
        beam: int = 4,
    ) -> Explanations:
        """Explain sentences: the model's own choice at each step of a target.

        Sentences of like length are explained together, as the benchmark does.

        Args:
            model: an open system, from `xnmt_bench.load`.
            sentences: sources, or (source, target) pairs, whose contexts are the source and the
                prefixes of the target. A source without a target is translated first. Of a system
                that reads other sentences too, passages, which have them; the steps of the current
                sentence are explained.
            targets: of sources, one each.
            beam: hypotheses that are kept where a source is translated.

        Returns:
            An explanation for each sentence, in their order.

        Raises:
            XnmtError: the model is not open, this explainer needs a corpus's annotation, a sentence
                is not a text, is longer than the model reads, or has a context that it does not
                read.
        """
        model = require_model(model)
        # Refused before anything is translated: bare pairs have no annotation to read.
        if self.needs_gold:
            raise XnmtError(f"{type(self).__name__} needs gold annotation, which bare text has not")
        passages = read_passages(sentences, targets)
        untranslated = [n for n, passage in enumerate(passages) if not passage.target]
        translations = translate_passages(model, [passages[n] for n in untranslated], beam)
        for n, passage in zip(untranslated, translations, strict=True):
            passages[n] = passage
        tied = tie_passages(model, passages)
        explain = partial(self._explain_all, model, tied)
        room = Room(None, cpu=TOGETHER, each=TARGET_BYTES)
        return Explanations(room.tried(device_of(model), explain) if tied else [])

    def _explain_all(
        self, model: NMTModel, tied: Sequence[tuple[Tied, Tied]], tokens: int
    ) -> list[Explanation]:
        """Explain sentences in batches of so many target ids; return them in their order."""
        lengths = np.array([max(len(source.ids), len(target.ids)) for source, target in tied])
        explanations: dict[int, Explanation] = {}
        with bar(len(tied), self.name, "sentences") as progress:
            for group in buckets(lengths, np.arange(len(tied)), tokens):
                indices = group.tolist()
                batch = self._explain_batch(model, [tied[i] for i in indices])
                explanations |= zip(indices, batch, strict=True)
                progress.update(len(indices))
        return [explanations[i] for i in range(len(tied))]

    def _explain_batch(
        self, model: NMTModel, tied: Sequence[tuple[Tied, Tied]]
    ) -> Iterator[Explanation]:
        batch = model.collate([(source.ids, target.ids) for source, target in tied])
        batch, log_probability_BT = decide(model, batch, weights=self.attends)  # phi may read them
        relevance = self.relevance(model, batch)
        assert batch.labels_BT is not None
        if self.against_gold:
            relevance = relevance.without(batch.labels_BT == batch.target_BT)
        current_BT, labels_BT = batch.current_BT.cpu(), batch.labels_BT.cpu()
        probability_BT, source_BTS = log_probability_BT.exp().cpu(), relevance.source_BTS.cpu()
        prefix_BTT = None if relevance.prefix_BTT is None else relevance.prefix_BTT.cpu()
        for b, (source, target) in enumerate(tied):
            now_T = current_BT[b]
            yield Explanation(
                model.source_subwords.pieces(source.ids),
                model.target_subwords.pieces(target.ids),
                model.target_subwords.pieces(labels_BT[b, now_T].tolist()),
                probability_BT[b, now_T],
                # Without the padding of the batch.
                source_BTS[b, now_T, : len(source.ids)],
                None if prefix_BTT is None else prefix_BTT[b, now_T, : len(target.ids)],
                self.name,
                source.words,
                target.words,
            )


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
    for rows in alike(batch.on_host.lengths, most):
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


def require_labels(batch: Batch) -> Tensor:
    """Return the labels of a batch.

    Raises:
        ValueError: the batch has no labels yet.
    """
    if batch.labels_BT is None:
        # Not an XnmtError: no user can cause it, only a plug-in that forgot to decide.
        raise ValueError("the batch has no labels: call explainers.base.decide first")
    return batch.labels_BT
