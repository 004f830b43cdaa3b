"""Cues as a metric: its rows and its results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import ClassVar

import numpy as np

from xnmt_bench.corpora.formats.pecore import LANG_PAIR
from xnmt_bench.corpora.marked import MarkedWords
from xnmt_bench.measuring.measurement import Evidence, PlannedRow
from xnmt_bench.measuring.metric import Column, Key, Metric, count, hundredths, ratio
from xnmt_bench.measuring.units import Bounds, Units
from xnmt_bench.metrics.cues.precision import average_precision
from xnmt_bench.metrics.cues.ranking import (
    MARKED,
    RANDOM,
    SCORE,
    blind_scores,
    rank_cues,
    rank_words,
)
from xnmt_bench.options import Count, Weight
from xnmt_bench.pipeline.inputs import PECORE, InputFile
from xnmt_bench.pipeline.job import Job
from xnmt_bench.store import fingerprint

three_digits = "{:.3f}".format
WORDS, CUES = "context-sensitive words", "cues"  # the two steps


class Cues(Metric):
    """Which words need their context, and which words of the context they need.

    A unit is an example, or examples that depend on each other.

    Args:
        k: words of a context that `recall` counts.
        threshold: a word is called context-sensitive so many standard deviations above the mean of
            its sentence.
    """

    name = "cues"
    papers = ("sarti2024", "yin2021", "fernandes2023")
    setting_options = ()
    inputs = ("scores", "relevance")
    title = "Context-sensitive words and their cues"
    note = (
        "Average precision of scores that should put the words first that people, or a generator, "
        "marked: words of the translation that need the context, in one list of all sentences; "
        "words of the context that such a word needs, as a mean over these words. With 95 % "
        "bootstrap intervals over examples; higher is better. Chance: what a random order gets."
    )
    keys = (
        Key("step", "step", order=(WORDS, CUES)),
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
        Column("base", "cues %", hundredths).means("share of the context's words that are cues"),
        Column("ranked", "ranked", count, shown=False).means(
            "words of translations; of cues, words whose context is ranked"
        ),
    )

    def __init__(self, k: Count = 3, threshold: Weight = 1.0) -> None:
        self.k, self.threshold = k, threshold

    def reads(self, input_file: InputFile) -> bool:
        """Return whether a file is PECoRe's, or another tool's relevance."""
        return super().reads(input_file) and input_file.format != "text"

    def input_files(self, job: Job) -> dict[str, InputFile]:
        """Return PECoRe's files; another tool's relevance needs the open system."""
        files = super().input_files(job)
        return {kind: file for kind, file in files.items() if file.format == PECORE}

    def measure(self, job: Job) -> Iterator[PlannedRow]:
        """Yield the rows of PECoRe's files."""
        for kind, input_file in self.input_files(job).items():
            yield from self._of_file(kind, input_file, job.settings.seed)

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


def _name_words(words: MarkedWords) -> str:
    """Name lists of words by their marks, so that two files of the same lists are paired."""
    columns = (words.unit_N, words.list_N, words.marked_N)
    return f"{LANG_PAIR} {fingerprint({'words': [column.tolist() for column in columns]})}"
