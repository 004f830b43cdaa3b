"""Context use as a metric: its rows and its results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np

from xnmt_bench.corpora.suites.context.example import ExampleSet
from xnmt_bench.corpora.suites.context.reading import DOCUMENTS, find_examples
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.example_rows import describe_examples, further_of_suite, note_examples
from xnmt_bench.measuring.measurement import Evidence, PlannedRow, ScoredRow
from xnmt_bench.measuring.metric import Column, Key, SumMetric, count, hundredths, ratio
from xnmt_bench.measuring.units import Bounds, Units, by_unit
from xnmt_bench.options import Count, Few, Seed, Text
from xnmt_bench.pipeline.context_changes import (
    NONE,
    RANDOM,
    RANDOM_SOURCE,
    RANDOM_TARGET,
    list_comparisons,
    store_context_changes,
)
from xnmt_bench.pipeline.decision_table import Columns, load_decisions
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.texts import name_sentences
from xnmt_bench.store import Stage

ALL = "all words"
three_digits = "{:+.3f}".format


class ContextUse(SumMetric):
    """How much more probable a context makes the references, and how far it moves the system.

    A unit is a sentence, or examples of a suite that depend on each other; its sums are over words.

    Args:
        suite: `documents` (the test sentences of the corpus), `corpus` (its own sets), `scat` or
            `disc_eval_mt`.
        data: the folder that holds `scat/` and `pecore/`.
        samples: random contexts of each kind.
        draws: seed of random contexts.
        sentences: of the suite, from the first; null for all.
    """

    name = "context_use"
    papers = ("fernandes2021", "fernandes2023")
    setting_options = ()
    needs = "documents, and a system that reads context"
    title = "Context use"
    note = (
        "P-CXMI: log P of a reference's word in its context, less log P without it, or in a random "
        "one of other documents' sentences, in nats; a mean over words, each over all of its "
        "subwords (Fernandes et al. 2023). CXMI: the same of whole sentences, EOS included "
        "(Fernandes et al. 2021). KL: how far the distribution moves. With 95 % bootstrap "
        "intervals over sentences. More is more use of the context, and no sign of quality."
    )
    keys = (
        Key("part", "part", usual=ALL),
        Key("sentences", "sentences", "sentences of context: {}"),
        Key("against", "against", "against {}", order=(NONE, RANDOM, RANDOM_SOURCE, RANDOM_TARGET)),
    )
    unit_bounds: ClassVar[Mapping[str, Bounds]] = {
        "rows": Bounds(1),
        "words": Bounds(0),
        "log_ratio": Bounds(),
        "sentence_log_ratio": Bounds(),
        # A divergence of two like distributions may be rounded below 0.
        "kl": Bounds(0),
        "changed": Bounds(0, 1, of="words"),
        "helped": Bounds(0, 1, of="words"),
        "right": Bounds(0, 1, of="words"),
        "helped_right": Bounds(0, 1, of="right"),
    }
    columns = (
        Column.higher("p_cxmi", "P-CXMI", three_digits).means(
            "log P of a word in its context, less without it, in nats"
        ),
        Column.higher("cxmi", "CXMI", three_digits).means(
            "log P of a sentence in its context, less without it, in nats"
        ),
        Column("helped", "helped %", hundredths, interval=True).means(
            "share of the words that the context makes more probable"
        ),
        Column("helped_right", "helped, right words %", hundredths, interval=True).means(
            "the same of the words that the system would say in its context"
        ),
        Column("right", "right %", hundredths, shown=False).means(
            "share of the words whose subwords are each the most probable one in the context"
        ),
        Column("kl", "KL", "{:.3f}".format, interval=True).means(
            "divergence of the distribution without the context from the one with it, in nats"
        ),
        Column("changed", "changed %", hundredths, interval=True).means(
            "share of the words at which the most probable subword changes"
        ),
        Column("words", "words", count, shown=False),
        Column("measured", "sentences", count, shown=False),
    )
    compared = "nmt"

    def __init__(
        self,
        suite: Text = DOCUMENTS,
        data: Text | None = None,
        samples: Few = 3,
        draws: Seed = 0,
        sentences: Count | None = None,
    ) -> None:
        self.suite, self.data = suite, data
        self.samples, self.draws, self.sentences = samples, draws, sentences

    def measure(self, job: Job) -> Iterator[PlannedRow]:
        """Yield a row for each part, number of sentences, and what they are compared with."""
        for examples in find_examples(self.suite, job.corpus, self.data, f"metric.{self.name}"):
            kept = replace(examples, examples=examples.examples[: self.sentences])
            yield from self._of_examples(job, kept)

    def _of_examples(self, job: Job, examples: ExampleSet) -> Iterator[PlannedRow]:
        comparisons = list_comparisons(job.system.context, self.samples)
        table = partial(store_context_changes, job, examples, comparisons, self.draws)
        # The corpus's own documents add nothing to its rows.
        of_corpus = self.suite == DOCUMENTS
        further = None if of_corpus else partial(further_of_suite, job, examples)
        for row in dict.fromkeys(replace(c, draw=0) for c in comparisons):
            chosen = [n for n, c in enumerate(comparisons) if replace(c, draw=0) == row]
            tags = sorted({tag for example in examples.examples for tag in example.tags})
            for part in (ALL, *tags):
                yield self.plan(
                    job,
                    partial(self._evidence, job, examples, table, chosen, part, row.against),
                    lambda: [table()],
                    further,
                    of_corpus=of_corpus,
                    corpus=examples.name,
                    part=part,
                    sentences=row.sentences,
                    against=row.against,
                )

    def _evidence(
        self,
        job: Job,
        examples: ExampleSet,
        table: Callable[[], Stage],
        chosen: Sequence[int],
        part: str,
        against: str,
    ) -> Evidence:
        stage = table()
        columns = load_decisions(stage)
        units, sums = sum_by_unit(examples, columns, chosen, part)
        if not len(units):
            raise NotApplicable(f"no passage that the system reads has a word of {part!r}")
        test_set = job.texts.test_set if self.suite == DOCUMENTS else examples.test_set
        settings = {"test sentences": name_sentences(units)}
        if against != NONE:
            settings["random contexts"] = f"{self.samples} drawn by {self.draws}"
        left_out = len(examples.examples) - len(np.unique(columns["example"]))
        facts = describe_examples(job, examples, left_out)
        made_by = {"changes": stage.fingerprint}
        return Evidence(Units(test_set, units, sums), made_by, facts, settings=settings)

    def of_sums(self, sums_R: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return means over words, and CXMI over sentences, which is of all words only."""
        words_R = sums_R["words"]
        names = ("helped", "right", "kl", "changed")
        results = {name: ratio(sums_R[name], words_R) for name in names}
        results["p_cxmi"] = ratio(sums_R["log_ratio"], words_R)
        results["helped_right"] = ratio(sums_R["helped_right"], sums_R["right"])
        if "sentence_log_ratio" in sums_R:
            results["cxmi"] = ratio(sums_R["sentence_log_ratio"], sums_R["rows"])
        return results | {"words": words_R, "measured": sums_R["rows"]}

    def notes(self, scored: Sequence[ScoredRow]) -> list[str]:
        """Return which systems read no context, and what was left out."""
        return note_examples(scored)


def sum_by_unit(
    examples: ExampleSet, columns: Columns, chosen: Sequence[int], part: str
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the sums of each unit over a part's words, as means over some comparisons.

    Args:
        examples: what the table is of.
        columns: of the table; see `store_context_changes`.
        chosen: the comparisons.
        part: `ALL`, or a tag.

    Returns:
        The numbers of the units that have a word of the part, (U,), and columns, (U,).
    """
    chosen_N = np.isin(columns["comparison"], chosen)
    example_N, word_N, log_ratio_N = (columns[n] for n in ("example", "word", "log_ratio"))
    in_part_N = chosen_N & (word_N >= 0)
    if part != ALL:
        tagged = {(n, w) for n, e in enumerate(examples.examples) for w in e.tags.get(part, ())}
        places = zip(example_N.tolist(), word_N.tolist(), strict=True)
        in_part_N &= np.fromiter((place in tagged for place in places), bool, len(word_N))

    def total(values_N: np.ndarray, rows_N: np.ndarray) -> np.ndarray:
        sums_E = np.bincount(example_N[rows_N], values_N[rows_N], len(examples.examples))
        return sums_E / len(chosen)

    right_N, helped_N = columns["right"], log_ratio_N > 0
    of_examples = {
        "words": total(np.ones(len(word_N)), in_part_N),
        "log_ratio": total(log_ratio_N, in_part_N),
        "helped": total(helped_N, in_part_N),
        "right": total(right_N, in_part_N),
        "helped_right": total(right_N & helped_N, in_part_N),
        "kl": total(columns["kl"], in_part_N),
        "changed": total(columns["changed"], in_part_N),
    }
    if part == ALL:
        of_examples["sentence_log_ratio"] = total(log_ratio_N, chosen_N)
    kept_E = of_examples["words"] > 0
    unit_E = np.array([example.unit for example in examples.examples], dtype=np.int64)
    return by_unit(unit_E[kept_E], **{n: column[kept_E] for n, column in of_examples.items()})
