"""Cues as a metric: its rows and its results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, ClassVar

import numpy as np

from xnmt_bench.corpora.formats.pecore import LANG_PAIR
from xnmt_bench.corpora.marked import MarkedWords
from xnmt_bench.corpora.sentence import SIDES
from xnmt_bench.corpora.suites.context.example import SENSITIVE, ExampleSet
from xnmt_bench.corpora.suites.context.reading import OWN, find_examples
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.measuring.example_rows import describe_examples, further_of_suite, note_examples
from xnmt_bench.measuring.measurement import EXPLAINED, Evidence, PlannedRow, ScoredRow
from xnmt_bench.measuring.metric import Column, Further, Key, Metric, count, hundredths, ratio
from xnmt_bench.measuring.units import Bounds, Units
from xnmt_bench.metrics.cues.contexts import (
    RELEVANCE,
    SAME_WORD,
    SensitiveWords,
    find_distance,
)
from xnmt_bench.metrics.cues.precision import average_precision
from xnmt_bench.metrics.cues.ranking import (
    MARKED,
    POSITION,
    RANDOM,
    SCORE,
    blind_scores,
    rank_cues,
    rank_words,
)
from xnmt_bench.options import Count, Text, Weight
from xnmt_bench.pipeline.decision_table import Columns, load_decisions
from xnmt_bench.pipeline.inputs import PECORE, InputFile
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.texts import name_sentences
from xnmt_bench.store import Stage, fingerprint

three_digits = "{:.3f}".format
WORDS, CUES = "context-sensitive words", "cues"  # the two steps
ALL = "all"
# How context-sensitive a word is, by the names of rows.
MEASURES: dict[str, Callable[[Columns], np.ndarray]] = {
    "KL": lambda columns: columns["kl"],
    "abs(P-CXMI)": lambda columns: np.abs(columns["log_ratio"]),
    "changed": lambda columns: columns["changed"].astype(np.float64),
}


class Cues(Metric):
    """Which words need their context, and which words of the context they need.

    A unit is an example, or examples that depend on each other.

    Args:
        suite: `corpus` (its own sets), `scat` or `disc_eval_mt`.
        data: the folder that holds `scat/` and `pecore/`.
        k: words of a context that `recall` counts.
        threshold: standard deviations above its sentence's mean from which a word is called
            context-sensitive.
        sentences: of the suite, from the first; null for all.
    """

    name = "cues"
    papers = ("sarti2024", "yin2021", "fernandes2023")
    setting_options = ()
    inputs = ("scores", "relevance")
    needs = (
        "a system that reads context and a suite with cues (metric.cues.suite), or PECoRe's files"
    )
    reads_relevance = True
    title = "Context-sensitive words and their cues"
    note = (
        "Average precision of scores that should put the words first that people, or a generator, "
        "marked: words of the translation that need the context, in one list of all sentences; "
        "words of the context that such a word needs, as a mean over these words. With 95 % "
        "bootstrap intervals over examples; higher is better. Chance: what a random order gets."
    )
    keys = (
        Key("step", "step", order=(WORDS, CUES)),
        Key("part", "part", usual=ALL),
        Key("side", "side", "{} context"),
        Key("explainer", "found by"),
        Key("seed", "seed"),
    )
    unit_bounds: ClassVar[Mapping[str, Bounds]] = {
        f"{SCORE}*": Bounds(nan=True),
        f"{MARKED}*": Bounds(0, 1, nan=True),
        "rows": Bounds(1),
        "words": Bounds(0, 1, of="rows"),
        "sensitive": Bounds(0, 1, of="rows"),
        "called": Bounds(0, 1, of="rows"),
        "hits": Bounds(0, 1, of="called"),
        "precision_right": Bounds(0, 1, of="right"),
        "*": Bounds(0, 1, of="rows"),
    }
    columns = (
        Column.higher("average_precision", "average precision", three_digits, best=1.0).means(
            "mean precision at each marked word, in the order of the scores"
        ),
        Column("chance", "chance", three_digits).means("the same of a random order"),
        Column.higher("f1", "F1", three_digits, best=1.0).means(
            "harmonic mean of precision and recall of the words called context-sensitive"
        ),
        Column.higher("recall", "recall@k %", hundredths, best=1.0).means(
            "share of the cues among the k first words of the context"
        ),
        Column.higher("dot", "on cues %", hundredths, best=1.0).means(
            "share of the relevance of context words that is on cues (dot product)"
        ),
        Column("when_right", "where right", three_digits, interval=True).means(
            "average precision where the system would say the word in its context"
        ),
        Column("when_wrong", "where wrong", three_digits, interval=True).means(
            "average precision where it would say another one"
        ),
        Column("right_less_wrong", "right less wrong", three_digits, interval=True).means(
            "the difference of the two: above 0 if a right system looks more where people look"
        ),
        Column("right", "right %", hundredths).means(
            "share of the words that the system would say in their context"
        ),
        Column("base", "cues %", hundredths).means("share of the context's words that are cues"),
        Column("ranked", "ranked", count, shown=False).means(
            "words of translations; of cues, words whose context is ranked"
        ),
    )

    def __init__(
        self,
        suite: Text = OWN,
        data: Text | None = None,
        k: Count = 3,
        threshold: Weight = 1.0,
        sentences: Count | None = None,
    ) -> None:
        self.suite, self.data, self.sentences = suite, data, sentences
        self.k, self.threshold = k, threshold

    def reads(self, input_file: InputFile) -> bool:
        """Return whether a file is PECoRe's, or another tool's relevance."""
        return super().reads(input_file) and input_file.format != "text"

    def input_files(self, job: Job) -> dict[str, InputFile]:
        """Return PECoRe's files; another tool's relevance needs the open system."""
        files = super().input_files(job)
        return {kind: file for kind, file in files.items() if file.format == PECORE}

    def measure(self, job: Job) -> Iterator[PlannedRow]:
        """Yield the rows of PECoRe's files; without one, those of a system on a suite."""
        if files := self.input_files(job):
            for kind, input_file in files.items():
                yield from self._of_file(kind, input_file, job.settings.seed)
            return
        for suite in find_examples(self.suite, job.corpus, self.data, f"metric.{self.name}"):
            examples = replace(suite, examples=suite.examples[: self.sentences])
            if not any(example.tags.get(SENSITIVE) for example in examples.examples):
                problem = "no word is marked as context-sensitive"
                raise XnmtError(f"metric.cues.suite={self.suite}: {problem}")
            words = SensitiveWords(job, examples)
            yield from self._of_words(words)
            yield from self._of_contexts(words)

    def _of_words(self, words: SensitiveWords) -> Iterator[PlannedRow]:
        """Yield a row for each measure of how much the context changes words, and blind ones."""
        job, examples = words.job, words.examples
        for name in (*MEASURES, RANDOM, POSITION):
            yield self.plan(
                job,
                partial(self._words_evidence, words, name),
                lambda: [words.context_changes],
                partial(_further, words, name in (RANDOM, POSITION)),
                of_corpus=False,
                corpus=examples.name,
                lang_pair=examples.lang_pair,
                step=WORDS,
                part=ALL,
                side="",
                explainer=name,
                seed=job.settings.seed if name == RANDOM else "",
            )

    def _words_evidence(self, of_set: SensitiveWords, name: str) -> Evidence:
        job, examples, stage = of_set.job, of_set.examples, of_set.context_changes
        words = mark_words(examples, load_decisions(stage))
        score_N = {**words.scores, **blind_scores(words, job.settings.seed)}[name]
        units = rank_words(examples.test_set, words, score_N, self.threshold)
        settings = {"threshold": self.threshold, "test sentences": name_sentences(units.number_U)}
        left_out = len(examples.examples) - len({*words.list_N.tolist()})
        facts = describe_examples(job, examples, left_out)
        return Evidence(units, {"changes": stage.fingerprint}, facts, settings=settings)

    def _of_contexts(self, words: SensitiveWords) -> Iterator[PlannedRow]:
        """Yield a row for each side that is read: the explainer's, and blind ones."""
        job, examples = words.job, words.examples
        sides = SIDES if job.system.context.target else SIDES[:1]
        for side, name in product(sides, (RELEVANCE, SAME_WORD, POSITION)):
            explained = name == RELEVANCE
            every = (find_distance(example, side) for example in examples.examples)
            distances = {distance for distance in every if distance is not None}
            # By distance too: the farther a cue, the worse are system and explainer.
            parts: list[int | None] = [None, *(sorted(distances) if len(distances) > 1 else ())]
            keys: dict[str, Any] = {} if explained else {"explainer": name, "seed": ""}
            for distance in parts:
                yield self.plan(
                    job,
                    partial(self._context_evidence, words, side, name, distance),
                    partial(_stages, words, explained),
                    partial(_further, words, not explained),
                    explained=explained,
                    of_corpus=False,
                    corpus=examples.name,
                    lang_pair=examples.lang_pair,
                    step=CUES,
                    part=ALL if distance is None else f"distance {distance}",
                    side=side,
                    **keys,
                )

    def _context_evidence(
        self, words: SensitiveWords, side: str, name: str, distance: int | None
    ) -> Evidence:
        if side not in words.sides:
            raise NotApplicable(f"the system reads no context on the {side} side")
        examples, (marked, right_L) = words.examples, words.marked(side, name, distance)
        units = rank_cues(examples.test_set, marked, marked.scores[name], self.k, right_L)
        made_by = {"changes": words.context_changes.fingerprint}
        if name == RELEVANCE:
            made_by["relevance"] = words.relevance_of_contexts.fingerprint
        # Fewer may be explained than there are (rules.test_sentences).
        settings = {"k of recall": self.k, EXPLAINED: name_sentences(units.number_U)}
        facts = describe_examples(words.job, examples, words.left_out)
        return Evidence(units, made_by, facts, settings=settings)

    def _of_file(self, kind: str, input_file: InputFile, seed: int) -> Iterator[PlannedRow]:
        """Yield a row for each score of a file, and for blind ones."""
        marked: MarkedWords = input_file.read()
        step = WORDS if kind == "scores" else CUES
        content = {kind: input_file.fingerprint}
        for side in sorted({*marked.side_N.tolist()}):
            words = marked.of_side(side)
            blind = blind_scores(words, seed)
            for name, score_N in ({**words.scores, **blind}).items():
                identity = {
                    "corpus": input_file.path.name.removesuffix(".gz").removesuffix(".tsv"),
                    "lang_pair": LANG_PAIR,
                    "nmt": input_file.name,
                    "step": step,
                    "part": ALL,
                    "side": side,
                    "explainer": name,
                    "seed": seed if name == RANDOM else "",
                }
                make = partial(self._evidence, step, _name_words(words), words, score_N, content)
                yield PlannedRow.without_system(identity, make, content, blind=name in blind)

    def _evidence(
        self,
        step: str,
        test_set: str,
        words: MarkedWords,
        score_N: np.ndarray,
        made_by: dict[str, str],
    ) -> Evidence:
        if step == WORDS:
            units = rank_words(test_set, words, score_N, self.threshold)
            return Evidence(units, made_by, settings={"threshold": self.threshold})
        units = rank_cues(test_set, words, score_N, self.k)
        return Evidence(units, made_by, settings={"k of recall": self.k})

    def score(self, units: Units, weights_RU: np.ndarray) -> Mapping[str, np.ndarray]:
        """Return the results of words of translations, or those of cues."""
        columns = units.columns
        rows = {n: weights_RU @ columns[n] for n in columns if not n.startswith((SCORE, MARKED))}
        if f"{SCORE}0" not in columns:
            means = {name: ratio(sums, rows["rows"]) for name, sums in rows.items()}
            if "right" in rows:
                right, precision = rows["right"], rows["precision_right"]
                means["when_right"] = ratio(precision, right)
                wrong = rows["rows"] - right
                means["when_wrong"] = ratio(rows["average_precision"] - precision, wrong)
                means["right_less_wrong"] = means["when_right"] - means["when_wrong"]
            return {**means, "ranked": rows["rows"]}
        places = range(sum(name.startswith(SCORE) for name in columns))
        score_MU, marked_MU = (
            np.stack([columns[f"{name}{place}"] for place in places]) for name in (SCORE, MARKED)
        )
        # Words of one unit are drawn together: they share its weight in each sample.
        place_N, unit_N = np.nonzero(~np.isnan(score_MU))
        ranked = score_MU[place_N, unit_N], marked_MU[place_N, unit_N]
        return {
            "average_precision": average_precision(*ranked, weights_RU[:, unit_N]),
            "chance": ratio(rows["sensitive"], rows["rows"]),
            "f1": ratio(2 * rows["hits"], rows["called"] + rows["sensitive"]),
            "ranked": rows["rows"],
        }

    def notes(self, scored: Sequence[ScoredRow]) -> list[str]:
        """Return which systems read no context, and what was left out."""
        return note_examples(scored)


def mark_words(examples: ExampleSet, columns: Columns) -> MarkedWords:
    """Return the words of translations with what their context changes, as scores.

    Args:
        examples: what the table is of.
        columns: of the table; see `store_context_changes`.

    Raises:
        NotApplicable: the system can read no example.
    """
    words_N = columns["word"] >= 0
    if not words_N.any():
        raise NotApplicable("every passage is longer than the system reads")
    example_N, word_N = columns["example"][words_N], columns["word"][words_N]
    places = zip(example_N.tolist(), word_N.tolist(), strict=True)
    marked = [word in examples.examples[n].tags.get(SENSITIVE, ()) for n, word in places]
    return MarkedWords(
        np.array([example.unit for example in examples.examples])[example_N],
        example_N,
        np.array(marked),
        {name: measure(columns)[words_N] for name, measure in MEASURES.items()},
        np.full(len(example_N), ""),
    )


def _stages(words: SensitiveWords, explained: bool) -> list[Stage]:
    stages = [words.context_changes]
    # `sides` refuses a system without a context, of which nothing is made.
    return [*stages, words.relevance_of_contexts] if words.sides and explained else stages


def _further(words: SensitiveWords, blind: bool) -> Further:
    """Return what a suite adds to its rows."""
    # Of an explainer's own row the explainer says whether it is blind.
    return further_of_suite(words.job, words.examples, **({"blind": True} if blind else {}))


def _name_words(words: MarkedWords) -> str:
    """Name lists of words by their marks, so that two files of the same lists are paired."""
    columns = (words.unit_N, words.list_N, words.marked_N)
    return f"{LANG_PAIR} {fingerprint({'words': [column.tolist() for column in columns]})}"
