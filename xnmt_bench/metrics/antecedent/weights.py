"""How much an explainer says the antecedent mattered for the pronoun."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from xnmt_bench.corpora.passages import PassageCorpus
from xnmt_bench.corpora.suites.contrastive.group import ContrastiveSet, Group
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.corpora.vocabulary.subwords import UNTIED
from xnmt_bench.morphology.base import stripped
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.texts import Texts
from xnmt_bench.rules.extract import GOLDEN
from xnmt_bench.rules.table import SentenceRelevance
from xnmt_bench.words.pieces import as_shares, count_through, significant, to_words


@dataclass(frozen=True)
class Placed:
    """A group whose antecedent is in a sentence that the system reads.

    Attributes:
        group: its index.
        sentence: the index of its current sentence in the split.
        step: the first at which the true translation and a variant differ: the decision.
        segment: the sentence of the concatenation that the antecedent is in.
        words: the antecedent's places in it; none where it is not found.
        sizes: how many words each sentence of the concatenation has.
    """

    group: int
    sentence: int
    step: int
    segment: int
    words: tuple[int, ...]
    sizes: tuple[int, ...]


class AntecedentWeights:
    """The weights of a job's explainer on the antecedents of a set."""

    def __init__(self, job: Job, contrastive_set: ContrastiveSet) -> None:
        self._job, self.groups = job, contrastive_set.groups
        true = [group.passages()[group.true] for group in contrastive_set.groups]
        self.corpus = PassageCorpus(job.corpus, true, job.system.context)

    @cached_property
    def texts(self) -> Texts:
        """The passages as ids."""
        return self._job.system.read(self.corpus, (EVALUATED,))

    @property
    def placed(self) -> list[Placed]:
        """The groups that can be asked: the antecedent is found, and in a sentence that is read."""
        return [placed for placed in self._read if placed.words]

    @property
    def not_found(self) -> int:
        """How many antecedents are not among the words of their sentence, which is read."""
        return len(self._read) - len(self.placed)

    @cached_property
    def _read(self) -> list[Placed]:
        """The groups whose antecedent is in a sentence that is read; no words if not found."""
        read = list[Placed]()
        numbers = self.texts.split(EVALUATED).number.tolist()
        kept, sentences = set(numbers), list(self.corpus.sentences(EVALUATED))
        for index, number in enumerate(numbers):
            document = int(sentences[number].document)
            group, before = self.groups[document], sentences[number].position
            context = self.corpus.documents[document][:-1]
            if group.antecedent is None or before != len(context):
                continue  # a sentence of the context
            segment = self.texts.depth(EVALUATED, index) - group.antecedent.distance
            # A sentence that is too long is in no context, and others move up.
            if segment < 0 or not kept.issuperset(range(number - before, number)):
                continue
            depth = segment + group.antecedent.distance
            texts = [split_words(s.source) for s in sentences[number - depth : number + 1]]
            tied = UNTIED not in self.texts.split(EVALUATED).source.words(index)
            if tied:
                words = find_phrase(group.antecedent.words, texts[segment])
                step = self._step(index, group)
                read.append(Placed(document, index, step, segment, words, tuple(map(len, texts))))
        return read

    def _step(self, index: int, group: Group) -> int:
        """Return the first step at which the true translation and a variant part."""
        ids, target = self.texts.split(EVALUATED).target[index].tolist(), self.texts.subwords[1]
        true = target.encode(group.variants[group.true].text)
        # Several variants may part from the true one at unlike places; the first is where the
        # choice begins.
        every = zip(*(target.encode(variant.text) for variant in group.variants), strict=False)
        shared = [*takewhile(lambda ids: len(set(ids)) == 1, every)]
        return len(ids) - len(true) - 1 + len(shared)  # EOS stands behind the true one

    def weights(self) -> Iterator[tuple[int, float]]:
        """Yield the index of each explained group and the weight of its antecedent, 0 to 1.

        Relevance at the decision, as shares of what helps it; of the words of the antecedent's
        sentence those above an even share, scaled so that the greatest is 1 (Dinarelli et al. 2024,
        section 3.3); of these the greatest of the antecedent's.
        """
        relevance = self._job.relevance(GOLDEN, corpus=self.corpus, source_alone=True)
        by_number = {relevances.number: relevances for relevances in relevance}
        numbers = self.texts.split(EVALUATED).number
        for placed in self.placed:
            if relevances := by_number.get(int(numbers[placed.sentence])):  # fewer may be explained
                yield placed.group, self._weight(placed, relevances)

    def _weight(self, placed: Placed, relevance: SentenceRelevance) -> float:
        source, sizes = self.texts.split(EVALUATED).source, placed.sizes
        words = count_through(source[placed.sentence], source.words(placed.sentence), sizes)
        # Steps count from the concatenation's beginning, rows from the first that is explained.
        row_1S = relevance.source_TS[placed.step - relevance.first][None]
        blind = self._job.explained.explainer.blind
        shares_1N = as_shares(to_words(row_1S, [0], words, (1, sum(sizes)), blind))
        start = sum(sizes[: placed.segment])
        significant_1N = significant(shares_1N[:, start : start + sizes[placed.segment]])
        return float(significant_1N[0, list(placed.words)].max())


def find_phrase(phrase: Sequence[str], words: Sequence[str]) -> tuple[int, ...]:
    """Return where a phrase stands among words: the last such place, or none.

    In any case, and with or without attached punctuation, as a text has it that is not tokenised.
    """
    lower_phrase, lower_words = (
        [stripped(word).lower() or word for word in some] for some in (phrase, words)
    )
    # From the right: of several places the one nearest to the pronoun.
    for start in range(len(lower_words) - len(lower_phrase), -1, -1):
        if lower_words[start : start + len(lower_phrase)] == lower_phrase:
            return tuple(range(start, start + len(lower_phrase)))
    return ()
