"""A suite as a system's test set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from xnmt_bench.corpora.consistency.suite import Suite
from xnmt_bench.corpora.sentence import Corpus, Sentence, Split, languages


class SuiteCorpus(Corpus):
    """The sentences of a suite, as a system's corpus writes its texts.

    Args:
        suite: the sentences.
        like: the system's corpus, whose languages and tokenisation they get.
    """

    def __init__(self, suite: Suite, like: Corpus) -> None:
        self.name, self.tokenizer = suite.name, like.tokenizer
        self.source_language, self.target_language = languages(like)
        self._suite, self._like = suite, like

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Yield the test set; a target without a reference is empty."""
        if split == "test":
            for sentence in self._suite.sentences:
                source = self._like.words(sentence.source, self.source_language)
                target = self._like.words(sentence.target, self.target_language)
                yield replace(sentence, source=source, target=target)

    def recipe(self) -> dict[str, Any]:
        """Return the suite, and how it is tokenised."""
        recipe = {"suite": self._suite.fingerprint, "like": self._like.recipe()}
        return {"kind": "consistency"} | recipe

    def raw(self, text: str, language: str) -> str:
        """Return the text as the system's corpus has it."""
        return self._like.raw(text, language)

    def words(self, text: str, language: str) -> str:
        """Return the words as the system's corpus has them."""
        return self._like.words(text, language)
