"""How much an explainer says the antecedent mattered for the pronoun."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from xnmt_bench.corpora.contrastive import ContrastiveSet, Group
from xnmt_bench.metrics.aer.links import to_words
from xnmt_bench.metrics.antecedent.passages import PassageCorpus
from xnmt_bench.metrics.coref_attention.context import segment_words
from xnmt_bench.metrics.coref_attention.links import significant
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.texts import Texts
from xnmt_bench.rules.extract import GOLDEN
from xnmt_bench.rules.table import SentenceRelevance


@dataclass(frozen=True)
class Placed:
    """A group whose antecedent stands in a sentence that the system reads.

    Attributes:
        group: its index.
        sentence: the index of its current sentence in the split.
        step: the first at which the true translation and a variant differ: the decision.
        segment: the sentence of the concatenation that the antecedent is in.
        words: the antecedent's places in it.
    """

    group: int
    sentence: int
    step: int
    segment: int
    words: tuple[int, ...]


class AntecedentWeights:
    """The weights of a job's explainer on the antecedents of a set."""

    def __init__(self, job: Job, whole: ContrastiveSet) -> None:
        self._job, self.groups = job, whole.groups
        self.corpus = PassageCorpus(job.corpus, whole.groups)

    @cached_property
    def texts(self) -> Texts:
        """The passages as ids."""
        return self._job.system.read(self.corpus, (EVALUATED,))

    @cached_property
    def placed(self) -> list[Placed]:
        """The groups that can be asked: the antecedent is found, and in a sentence that is read."""
        split, found = self.texts.split(EVALUATED), list[Placed]()
        documents = [int(s.document) for s in self.texts.sentences(EVALUATED)]
        numbers = split.number.tolist()
        whole = {n: s for n, s in enumerate(self.corpus.sentences(EVALUATED))}
        for index, document in enumerate(documents):
            group, sentence = self.groups[document], whole[numbers[index]]
            count = min(len(group.source_context), len(group.variants[group.true].context))
            if group.antecedent is None or sentence.position != count:
                continue  # a sentence of the context
            depth = self.texts.depth(EVALUATED, index)
            segment = depth - group.antecedent.distance
            if segment < 0:
                continue
            place = numbers[index] - group.antecedent.distance
            words = _places(group.antecedent.words, whole[place].source.split())
            if words:
                step = self._step(index, group)
                found.append(Placed(document, index, step, segment, words))
        return found

    def _step(self, index: int, group: Group) -> int:
        """The first step at which the true translation and a variant part."""
        ids, target = self.texts.split(EVALUATED).target[index].tolist(), self.texts.subwords[1]
        true = target.encode(group.variants[group.true].text)
        others = (
            target.encode(variant.text)
            for number, variant in enumerate(group.variants)
            if number != group.true
        )
        first = min(_parting(true, other) for other in others)
        return len(ids) - len(true) - 1 + first  # EOS stands behind the true one

    def weights(self) -> Iterator[tuple[int, float]]:
        """Of each group that was explained its index and the weight of its antecedent, 0 to 1.

        Relevance at the decision, as shares of what helps it; of the words of the antecedent's
        sentence those above an even share, scaled so that the greatest is 1 (Dinarelli et al. 2024,
        section 3.3); of these the greatest of the antecedent's.
        """
        relevance = self._job.relevance(GOLDEN, corpus=self.corpus, source_alone=True)
        by_number = {one.number: one for one in relevance}
        numbers = self.texts.split(EVALUATED).number
        for placed in self.placed:
            if one := by_number.get(int(numbers[placed.sentence])):
                yield placed.group, self._weight(placed, one)

    def _weight(self, placed: Placed, relevance: SentenceRelevance) -> float:
        ids = self.texts.split(EVALUATED).source[placed.sentence].tolist()
        words, sizes = segment_words(self.texts.subwords[0], ids)
        row_1S = np.nan_to_num(relevance.source_TS[placed.step - relevance.first])[None]
        positive = np.maximum(row_1S, 0)
        shares = positive / total if (total := positive.sum()) > 0 else positive
        whole = to_words(shares, [0], words)
        start = sum(sizes[: placed.segment])
        own = significant(whole[:, start : start + sizes[placed.segment]])
        return float(own[0, [w for w in placed.words if w < own.shape[1]]].max(initial=0.0))


def _parting(one: Sequence[int], other: Sequence[int]) -> int:
    """The first place at which two sequences differ."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def _places(phrase: Sequence[str], words: Sequence[str]) -> tuple[int, ...]:
    """Where a phrase stands among words, whatever its case: the last such place, or none."""
    wanted, there = ([w.lower() for w in some] for some in (phrase, words))
    for start in range(len(there) - len(wanted), -1, -1):
        if there[start : start + len(wanted)] == wanted:
            return tuple(range(start, start + len(wanted)))
    return ()
