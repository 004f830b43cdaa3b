"""A suite as a system's test set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from xnmt_bench.corpora.formats.clusters import letter_starts
from xnmt_bench.corpora.sentence import Corpus, Gold, Mention, Sentence, Split
from xnmt_bench.corpora.suites.consistency.suite import Suite
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.corpora.view import CorpusView


class SuiteCorpus(CorpusView):
    """The sentences of a suite, as a system's corpus writes its texts.

    Args:
        suite: the sentences.
        like: the system's corpus, whose languages and tokenisation they get.
    """

    def __init__(self, suite: Suite, like: Corpus) -> None:
        super().__init__(like)
        # People wrote the suite, also where the system's corpus is generated.
        self.name, self.generated, self.translated = suite.name, False, False
        self._suite = suite

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Yield the test set; a target without a reference is empty.

        The annotation holds the suite's mentions at the places of the corpus's own words, and
        nothing else.
        """
        # A suite is only translated, and nothing learns from it.
        if split == "test":
            for number, sentence in enumerate(self._suite.sentences):
                source = self.corpus.words(sentence.source, self.source_language)
                target = self.corpus.words(sentence.target, self.target_language)
                mentions = self._suite.mentions(number)
                # Places count words, and the corpus may cut words otherwise.
                gold = Gold(source_mentions=move_mentions(mentions, sentence.source, source))
                yield replace(sentence, source=source, target=target, gold=gold)

    def recipe(self, split: Split | None = None) -> dict[str, Any]:
        """Return the suite, and how it is tokenised."""
        # The system's corpus too, since its tokenisation decides the words.
        recipe = {"suite": self._suite.fingerprint, "like": self.corpus.recipe()}
        return {"kind": "consistency"} | recipe

    def counts(self) -> Iterator[str]:
        """Return no counts: those of the system's corpus are of other sentences."""
        return iter(())


def move_mentions(mentions: Sequence[Mention], before: str, after: str) -> tuple[Mention, ...]:
    """Return mentions at their places in another cut of their sentence, told by its letters.

    Args:
        mentions: places are of the words of `before`.
        before: the sentence as the suite has it.
        after: the same as a corpus writes it. A mention without a letter in it is left out.
    """
    # Equal cuts need no letters, and words without letters keep their places then.
    if split_words(before) == split_words(after):
        return tuple(mentions)
    old, new = letter_starts(split_words(before)), letter_starts(split_words(after))
    moved = []
    for mention in mentions:
        words = tuple(
            n
            for n in range(len(new) - 1)
            # Words that share a letter: a cut may part or join them.
            if any(new[n] < old[w + 1] and old[w] < new[n + 1] for w in mention.words)
        )
        if words:
            moved.append(replace(mention, words=words))
    return tuple(moved)
