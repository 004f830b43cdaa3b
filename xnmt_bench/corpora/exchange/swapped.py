"""A corpus whose words are exchanged within their categories, so that what goes together parts."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from xnmt_bench.corpora.exchange.exchangeable import ExchangeableWords
from xnmt_bench.corpora.exchange.substitutes import Entry, Substitutes, exchanged
from xnmt_bench.corpora.sentence import Corpus, Sentence, Split
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.corpora.view import CorpusView

VERSION = 1  # raise it when the same seed gives other sentences


class SwappedCorpus(CorpusView):
    """Each word of either side is drawn anew from its category, with a probability.

    The annotation is left out, since words no longer translate each other.

    Args:
        corpus: whose words are exchanged.
        exchangeable: which words may replace each other.
        share: the probability with which a word is drawn anew.
        seed: another seed is another draw.
    """

    def __init__(
        self, corpus: Corpus, exchangeable: ExchangeableWords, share: float, seed: int
    ) -> None:
        super().__init__(corpus)
        self._exchangeable, self._share, self._seed = exchangeable, share, seed

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Yield the pairs of a split; the draw of each depends only on its number."""
        categories = self._exchangeable.categories
        for number, sentence in enumerate(self.corpus.sentences(split)):
            # A text as the seed gives the same draws on every platform.
            dice = random.Random(f"{self._seed}/{split}/{number}")
            source = self._swap(split_words(sentence.source), categories.source, dice)
            target = self._swap(split_words(sentence.target), categories.target, dice)
            yield replace(sentence, source=source, target=target, gold=None)

    def _swap(self, words: Sequence[str], categories: Substitutes, dice: random.Random) -> str:
        def draw() -> Iterator[tuple[int, Entry, Entry]]:
            for unit in categories.units(words):
                itself = tuple(words[unit.start : unit.stop])
                # The word itself is among the draws, so that within a category share 1 is an even
                # draw. Alike words (`exchange.neighbours`) are near the word that stood there.
                drawn = dice.random() < self._share
                yield unit.start, itself, dice.choice((itself, *unit.others)) if drawn else itself

        return exchanged(words, draw())

    def recipe(self, split: Split | None = None) -> dict[str, Any]:
        """Return the wrapped corpus's, the categories and how words are drawn."""
        return {
            "kind": "swapped",
            "version": VERSION,
            "corpus": self.corpus.recipe(split),
            "exchangeable": self._exchangeable.fingerprint,
            "share": self._share,
            "seed": self._seed,
        }
