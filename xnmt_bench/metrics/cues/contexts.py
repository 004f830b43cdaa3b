"""The contexts of context-sensitive words: their words, the cues, and an explainer's relevance.

Shapes: T steps, S ids of one side, X words of the context of one side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from xnmt_bench.corpora.marked import MarkedWords
from xnmt_bench.corpora.passages import PassageCorpus
from xnmt_bench.corpora.sentence import SIDES
from xnmt_bench.corpora.suites.context.example import SENSITIVE, Example, ExampleSet
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.corpora.vocabulary.subwords import NO_WORD
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.metrics.cues.ranking import position_scores
from xnmt_bench.parquet import read_table, write_table
from xnmt_bench.pipeline.context_changes import Comparison, store_context_changes
from xnmt_bench.pipeline.decision_table import load_decisions
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.texts import Texts
from xnmt_bench.rules.extract import GOLDEN
from xnmt_bench.rules.table import SentenceRelevance
from xnmt_bench.store import Stage
from xnmt_bench.words.pieces import count_through, to_words

SAME_WORD = "same word"  # a score that asks no model
RELEVANCE = "relevance"


@dataclass(frozen=True)
class Context:
    """What one word of a translation may need, of one side.

    Attributes:
        example: the index of its example.
        word: the context-sensitive word of the current target.
        side: `source` or `target`.
        words: of the context sentences that the system reads, the farthest first.
        sizes: how many words each sentence has.
        cue_X: whether each word is a cue.
        same_X: whether the current sentence of its side has it too.
        distance: how many sentences back the nearest cue of its side is; None without one.
    """

    example: int
    word: int
    side: str
    words: tuple[str, ...]
    sizes: tuple[int, ...]
    cue_X: np.ndarray
    same_X: np.ndarray
    distance: int | None

    @property
    def place(self) -> tuple[int, int]:
        """The example and the word."""
        return self.example, self.word


class SensitiveWords:
    """The context-sensitive words of a set, as a job's system reads them and explains them."""

    def __init__(self, job: Job, examples: ExampleSet) -> None:
        self.job, self.examples = job, examples
        passages = [example.passage for example in examples.examples]
        self.corpus = PassageCorpus(job.corpus, passages, job.system.context)

    @cached_property
    def texts(self) -> Texts:
        """The passages as ids."""
        return self.job.system.read(self.corpus, (EVALUATED,))

    @cached_property
    def number_of_example(self) -> dict[int, int]:
        """The number of each example's current sentence among the sentences, if it is read whole.

        A sentence that is too long is in no context, and the others would move up.
        """
        kept = set(self.texts.split(EVALUATED).number.tolist())
        numbers: dict[int, list[int]] = {}
        for number, sentence in enumerate(self.corpus.sentences(EVALUATED)):
            numbers.setdefault(int(sentence.document), []).append(number)
        return {n: rows[-1] for n, rows in numbers.items() if kept.issuperset(rows)}

    @property
    def sides(self) -> tuple[str, ...]:
        """The sides whose context the system reads.

        Raises:
            NotApplicable: there is none.
        """
        context = self.job.system.context
        if not context.sentences:
            raise NotApplicable("the system reads no sentence before the current one")
        return SIDES if context.target else SIDES[:1]

    def contexts(self, side: str) -> Iterator[Context]:
        """Yield the contexts of context-sensitive words of explained examples, on one side."""
        # Blind rows are of the same examples, so that they can be compared.
        limit = self.job.settings.rules.test_sentences
        split = self.texts.split(EVALUATED)
        explained = {*split.number[:limit].tolist()}
        for index, number in self.number_of_example.items():
            # Of a context that is longer than the system reads only the nearest sentences.
            depth = self.texts.depth(EVALUATED, split.index_of[number])
            if number not in explained or not depth:
                continue
            example = self.examples.examples[index]
            passage = example.passage
            sentences = getattr(passage, f"{side}_context")
            first = len(sentences) - depth
            by_sentence = [split_words(text) for text in sentences[first:]]
            places = [(first + n, w) for n, ws in enumerate(by_sentence) for w in range(len(ws))]
            words = tuple(chain.from_iterable(by_sentence))
            now = {word.lower() for word in split_words(getattr(passage, side))}
            cue_X = np.array([place in example.cues.get(side, ()) for place in places])
            same_X = np.array([word.lower() in now for word in words])
            sizes = tuple(map(len, by_sentence))
            distance = find_distance(example, side)
            for word in sorted(example.tags.get(SENSITIVE, ())):
                yield Context(index, word, side, words, sizes, cue_X, same_X, distance)

    @cached_property
    def context_changes(self) -> Stage:
        """What the whole context changes at each word of the translations."""
        comparisons = [Comparison(self.job.system.context.sentences)]
        return store_context_changes(self.job, self.examples, comparisons, seed=0)

    @cached_property
    def is_right(self) -> dict[tuple[int, int], bool]:
        """Whether the system would say a word in its context, by example and word.

        Words of passages that are longer than it reads, or whose subwords cannot be tied to words,
        are not there.
        """
        columns = load_decisions(self.context_changes, ("example", "word", "right"))
        places = zip(columns["example"].tolist(), columns["word"].tolist(), strict=True)
        return dict(zip(places, columns["right"].tolist(), strict=True))

    @property
    def left_out(self) -> int:
        """How many examples have no contexts: see `number_of_example` and `is_right`."""
        read = {example for example, _ in self.is_right} & self.number_of_example.keys()
        return len(self.examples.examples) - len(read)

    @cached_property
    def relevance_of_contexts(self) -> Stage:
        """The relevance of each context's words: `example`, `word`, `side` and a list."""
        # Golden: the word of the translation is what is explained, also where the system errs.
        relevance = self.job.relevance(GOLDEN, corpus=self.corpus, source_alone=True)

        def work(folder: Path) -> None:
            by_number = {relevances.number: relevances for relevances in relevance}
            columns: dict[str, list[object]] = {}
            for side in self.sides:
                for context in self.contexts(side):
                    number = self.number_of_example[context.example]
                    if number not in by_number:
                        passage = f"{self.examples.name}, passage {context.example + 1}"
                        raise XnmtError(f"{passage}: the relevance lacks its sentence, {number}")
                    relevances = by_number[number]
                    row = {"example": context.example, "word": context.word, "side": side}
                    row_relevance = self._relevance(context, relevances).tolist()
                    for name, value in (row | {RELEVANCE: row_relevance}).items():
                        columns.setdefault(name, []).append(value)
            write_table(pa.table(columns), folder / "contexts.parquet")

        return self.job.store.stage(
            "cue_relevance",
            work,
            version=1,
            cheap=True,
            relevance=relevance,
            examples=self.examples.fingerprint,
        )

    def _relevance(self, context: Context, relevances: SentenceRelevance) -> np.ndarray:
        """Return the relevance of a context's words for the word that may need them, (X,).

        NaN where the explainer gives none of this side, and where the word has no id.
        """
        split = self.texts.split(EVALUATED)
        index = split.index_of[relevances.number]
        passage = self.examples.examples[context.example].passage
        of_target = split.target.current_words(index)
        steps = np.flatnonzero(of_target == context.word) - relevances.first
        side, scores_TS = (
            (split.source, relevances.source_TS)
            if context.side == "source"
            else (split.target, relevances.prefix_TT)
        )
        now = len(split_words(getattr(passage, context.side)))
        words_S = count_through(side[index], side.words(index), (*context.sizes, now))
        read_S = (words_S >= 0) & (words_S < len(context.words))
        scores = scores_TS[steps]
        if not len(steps) or np.isnan(scores[:, read_S]).any():
            return np.full(len(context.words), np.nan)
        columns = np.where(read_S, words_S, NO_WORD)
        blind = self.job.explained.explainer.blind
        return to_words(scores, [0] * len(steps), columns, (1, len(context.words)), blind)[0]

    def marked(
        self, side: str, name: str, distance: int | None = None
    ) -> tuple[MarkedWords, np.ndarray]:
        """Return the words of the contexts of a side under one score.

        Args:
            side: of the context.
            name: `RELEVANCE`, `SAME_WORD` or `POSITION`.
            distance: of the contexts; all, if not given.

        Returns:
            The words, and for each list whether the system would say the word that needs it.

        Raises:
            NotApplicable: the explainer gives no relevance of this side.
        """
        contexts, scores = list(self.contexts(side)), dict[tuple[int, int], np.ndarray]()
        if name == RELEVANCE:
            for row in read_table(self.relevance_of_contexts.path / "contexts.parquet").to_pylist():
                if row["side"] == side:
                    scores[row["example"], row["word"]] = np.array(row[RELEVANCE])
            scores = {place: s for place, s in scores.items() if not np.isnan(s).any()}
            if not scores:
                raise NotApplicable(f"the explainer gives no relevance of the {side} context")
        else:
            for context in contexts:
                same_X = context.same_X.astype(np.float64)
                score_X = same_X if name == SAME_WORD else position_scores(len(same_X))
                scores[context.place] = score_X
        scored_places = scores.keys() & self.is_right.keys()
        rows = [c for c in contexts if c.place in scored_places and distance in (None, c.distance)]
        if not rows:
            raise NotApplicable("no passage that is read has a context-sensitive word in a context")
        sizes = [len(context.words) for context in rows]
        units = [self.examples.examples[context.example].unit for context in rows]
        words = MarkedWords(
            np.repeat(units, sizes),
            np.repeat(np.arange(len(rows)), sizes),
            np.concatenate([context.cue_X for context in rows]),
            {name: np.concatenate([scores[context.place] for context in rows])},
            np.repeat([side], sum(sizes)),
        )
        return words, np.array([self.is_right[context.place] for context in rows])


def find_distance(example: Example, side: str) -> int | None:
    """Return how many sentences back the nearest cue of a side is; None without one."""
    sentences = len(getattr(example.passage, f"{side}_context"))
    return min((sentences - place for place, _ in example.cues.get(side, ())), default=None)
