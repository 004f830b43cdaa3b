"""Who translated a suite, and what they said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from xnmt_bench.corpora.sentence import Corpus, Links, Sentence
from xnmt_bench.corpora.suites.consistency.corpus import SuiteCorpus
from xnmt_bench.corpora.suites.consistency.outputs import translations
from xnmt_bench.corpora.suites.consistency.reading import CHAINS
from xnmt_bench.corpora.suites.consistency.suite import Suite
from xnmt_bench.errors import ConfigError, NotApplicable
from xnmt_bench.measuring.measurement import SENTENCES
from xnmt_bench.metrics.consistency.mention_links import (
    EFLOMAL,
    EXPLAINER,
    GOLD,
    RULE,
    Pairs,
    by_eflomal,
    of_file,
    of_gold,
    of_relevance,
    of_rule,
)
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.weighed_sentences import WeighedSentences
from xnmt_bench.rules.extract import GOLDEN
from xnmt_bench.store import Stage, fingerprint

REFERENCE = "reference"  # people's translations, as the name of a system


@dataclass(frozen=True)
class TranslationSet:
    """A suite in another language.

    Attributes:
        job: that it belongs to.
        suite: the sentences.
        kind: of the suite: its name, or `chains` where it is the job's own corpus.
        people: whether these are the references.
    """

    job: Job
    suite: Suite
    kind: str
    people: bool = False

    @property
    def nmt(self) -> str:
        """Who translated it, as in results."""
        input_file = self.job.input_file("outputs")
        return REFERENCE if self.people else input_file.name if input_file else self.job.system.name

    @property
    def own(self) -> bool:
        """Whether the job's system said it."""
        # A file's translations may come from another system than the configured one.
        return not self.people and self.job.input_file("outputs") is None

    @property
    def corpus(self) -> Corpus | None:
        """The suite as the system reads it; None where it is the job's own corpus."""
        # The job's own corpus is encoded already, and its sentences are in their documents.
        return None if self.kind == CHAINS else SuiteCorpus(self.suite, self.job.corpus)

    @property
    def content(self) -> dict[str, str]:
        """What decides the system's own translations besides the suite and the system."""
        settings, corpus = self.job.settings, self.corpus or self.job.corpus
        sources = [sentence.source for sentence in corpus.sentences("test")]
        choice = {"sources": sources, "max_length": settings.corpus.max_length}
        return {SENTENCES: fingerprint(choice)}

    def stages(self) -> list[Stage]:
        """Return the stages behind the translations; none of people's or a file's."""
        return self.job.output_stages(self.corpus) if self.own else []

    @cached_property
    def pairs(self) -> Pairs:
        """Source and translation by number; a system leaves out what has too many subwords."""
        sentences, input_file = self.suite.sentences, self.job.input_file("outputs")
        if self.people:
            texts: Mapping[int, str] = {n: s.target for n, s in enumerate(sentences)}
        elif input_file is not None:
            texts = dict(enumerate(translations(input_file.path, input_file.read(), self.suite)))
        else:
            outputs = self.job.outputs(self.corpus)
            # Suites give raw text; chains are annotated on the corpus's own words.
            output_texts = outputs.texts if self.kind == CHAINS else outputs.raw()[1]
            texts = dict(zip(outputs.number_N.tolist(), output_texts, strict=True))
        return {n: (sentences[n].source, text) for n, text in texts.items()}

    def links(self, how: str, learn_from: Path | Corpus | None) -> tuple[Stage, dict[int, Links]]:
        """Return which words of it are linked; see `links`.

        Args:
            how: a way, or a file in Pharaoh's form.
            learn_from: what else eflomal learns from.

        Raises:
            NotApplicable: the gold is of the references only.
        """
        if how == GOLD:
            if not self.people:
                raise NotApplicable("gold word alignment exists for the references only")
            annotated: dict[int, Sentence] = dict(enumerate(self.suite.sentences))
            return of_gold(self.job.store, annotated)
        if how == RULE:
            return of_rule(self.job.store, self.suite, self.pairs)
        if how == EXPLAINER:
            return of_relevance(self.job.store, self.weighed_sentences, self.pairs)
        if how == EFLOMAL:
            return by_eflomal(self.job.store, self.pairs, learn_from)
        if self.people:
            raise NotApplicable(f"the links of {Path(how).name} belong to other translations")
        return of_file(self.job.store, Path(how), self.pairs, len(self.suite.sentences))

    @property
    def weighed_sentences(self) -> WeighedSentences:
        """By the job's explainer: of what the system said, or is made to say."""
        if self.own:
            return self.job.weighed_sentences(corpus=self.corpus)
        if self.people:
            return self.job.weighed_sentences(GOLDEN, self.corpus)
        corpus = self.corpus or self.job.corpus
        # As the system's corpus would have written them.
        targets = [corpus.words(text, corpus.target_language) for _, text in self.pairs.values()]
        return self.job.weighed_sentences(corpus=self.corpus, targets=targets)


def translated(job: Job, suite: Suite, kind: str) -> Iterator[TranslationSet]:
    """Yield the translations: a system's or a file's, and the suite's references, if any."""
    translation_set = TranslationSet(job, suite, kind)
    if translation_set.nmt == REFERENCE:
        # Both rows would have one identity, and one would replace the other.
        raise ConfigError(
            [f"outputs.name={REFERENCE}: this name is kept for people's translations; give another"]
        )
    yield translation_set
    if suite.has_references:
        yield TranslationSet(job, suite, kind, people=True)
