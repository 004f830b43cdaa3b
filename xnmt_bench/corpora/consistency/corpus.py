"""A suite as a system's test set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from xnmt_bench.corpora.consistency.suite import Suite
from xnmt_bench.corpora.sentence import Corpus, Sentence, Split
from xnmt_bench.corpora.view import CorpusView


class SuiteCorpus(CorpusView):
    """The sentences of a suite, as a system's corpus writes its texts.

    Args:
        suite: the sentences.
        like: the system's corpus, whose languages and tokenisation they get.
    """

    def __init__(self, suite: Suite, like: Corpus) -> None:
        super().__init__(like)
        self.name, self.generated = suite.name, False
        self._suite = suite

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Yield the test set; a target without a reference is empty."""
        if split == "test":
            for sentence in self._suite.sentences:
                source = self.corpus.words(sentence.source, self.source_language)
                target = self.corpus.words(sentence.target, self.target_language)
                yield replace(sentence, source=source, target=target)

    def recipe(self) -> dict[str, Any]:
        """Return the suite, and how it is tokenised."""
        recipe = {"suite": self._suite.fingerprint, "like": self.corpus.recipe()}
        return {"kind": "consistency"} | recipe

    def counts(self) -> Iterator[str]:
        """Return no counts: those of the system's corpus are of other sentences."""
        return iter(())
