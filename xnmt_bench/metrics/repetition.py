"""How often a document's translation says a word again (Voita et al. 2019, section 7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import ClassVar

import numpy as np

from xnmt_bench.corpora.function_words import function_words
from xnmt_bench.corpora.languages import (
    BLANKS,
    UNKNOWN,
    cut_words,
    require_tokenizers,
    tokenizer_signature,
)
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.measurement import TOKENIZER, Evidence, PlannedRow, ScoredRow
from xnmt_bench.measuring.metric import Column, SumMetric, count, hundredths, ratio
from xnmt_bench.measuring.units import Bounds, Units
from xnmt_bench.morphology.base import stripped
from xnmt_bench.pipeline.job import Job


class Repetition(SumMetric):
    """The share of content words that the document has had before (after Wong and Kit 2012).

    Of their lexical cohesion it is what needs no dictionary: the same word again, in small letters.
    A unit is a document, named by its first sentence.
    """

    name = "repetition"
    papers = ("voita2019", "wong2012")
    setting_options = ()
    inputs = ("outputs",)
    needs = "documents with references"
    title = "Repetition"
    note = (
        "Of the translations' content words the share that stand in the same document before, "
        "with its 95 % bootstrap interval over documents; beside it the references'. More is not "
        "better: systems without any context repeat more than people do."
    )
    unit_bounds: ClassVar[Mapping[str, Bounds]] = {
        "words": Bounds(0),
        "repeated": Bounds(0, 1, of="words"),
        "reference_words": Bounds(0),
        "reference_repeated": Bounds(0, 1, of="reference_words"),
    }
    columns = (
        Column("repeated", "repeated %", hundredths, interval=True).means(
            "share of the content words that were said before in the document"
        ),
        Column("reference", "references %", hundredths).means("the same for the references"),
        Column("words", "content words", count).means("content words of the translations"),
    )
    compared = "nmt"

    def measure(self, job: Job) -> Iterator[PlannedRow]:
        """Yield the system's translations, or a file's."""
        require_tokenizers(job.corpus.target_language)
        yield self.plan(job, lambda: self._measured(job), job.output_stages)

    def _measured(self, job: Job) -> Evidence:
        outputs, language = job.outputs(), job.corpus.target_language
        functional = function_words(language)
        rows = zip(outputs.number_N.tolist(), outputs.sentences, outputs.texts, strict=True)
        numbers, counts, longest = [], [], 0
        # Sentences of a document stand together in every corpus.
        for _, document in groupby(rows, key=lambda row: row[1].document):
            numbers_D, sentences, texts = zip(*document, strict=True)
            numbers.append(numbers_D[0])  # a unit is named by its first sentence
            longest = max(longest, len(numbers_D))
            references = [sentence.target for sentence in sentences]
            sides = (repeated(side, functional, language) for side in (texts, references))
            counts.append([count for side in sides for count in side])
        if len(numbers) < 2 or longest < 2:
            problem = "the test set has a single document, or its documents are unknown"
            raise NotApplicable(problem)
        names = ("repeated", "words", "reference_repeated", "reference_words")
        columns = dict(zip(names, np.asarray(counts, dtype=np.int64).T, strict=True))
        units = Units(outputs.test_set, np.asarray(numbers), columns)
        settings = {"test sentences": outputs.which, TOKENIZER: tokenizer_signature(language)}
        facts, made_by = {"listed": bool(functional), "language": language}, outputs.fingerprint
        return Evidence(units, {"outputs": made_by}, facts, settings=settings | job.search_settings)

    def of_sums(self, sums_R: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return shares of the content words of all documents."""
        # Ratios of sums: long documents count for more, as every word is one chance to repeat.
        return {
            "repeated": ratio(sums_R["repeated"], sums_R["words"]),
            "reference": ratio(sums_R["reference_repeated"], sums_R["reference_words"]),
            "words": sums_R["words"],
        }

    def notes(self, scored: Sequence[ScoredRow]) -> list[str]:
        """Return which languages have no list of function words, or words without blanks."""
        measured = [s.measurement for s in scored if s.measurement.ok]
        facts = [m.facts.of_metric for m in measured]
        missing = sorted({f["language"] for f in facts if not f["listed"]})
        cut = {m.facts.of_metric["language"]: m.settings[TOKENIZER] for m in measured}
        return [
            *(f"No function words of {name} are known: all words count." for name in missing),
            *(
                f"Words of {name} are what sacrebleu's tokenizer {tokenizer} cuts."
                for name, tokenizer in sorted(cut.items())
                if tokenizer != BLANKS
            ),
        ]


def repeated(
    texts: Sequence[str], functional: frozenset[str], language: str = UNKNOWN
) -> tuple[int, int]:
    """Count a document's content words that stand earlier in it; and all content words.

    Args:
        texts: its sentences.
        functional: lower-cased words that have no content of their own.
        language: of the texts.
    """
    # Punctuation repeats in every document, and hangs on words where text is not tokenised.
    words = [w for t in texts for w in cut_words(t.lower(), language) if w not in functional]
    # Looked up before and after: a clitic such as `'s` is listed with its apostrophe.
    content = [bare for word in words if (bare := stripped(word)) and bare not in functional]
    # Each distinct word is new once; all its other occurrences are repeated.
    return len(content) - len(set(content)), len(content)
