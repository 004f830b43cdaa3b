"""Any corpus read the other way round: what was the target is translated from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xnmt_bench.corpora.exchange.substitutes import BothSides
from xnmt_bench.corpora.sentence import Corpus, Gold, Links, Sentence, Split, languages
from xnmt_bench.corpora.view import CorpusView


class ReversedCorpus(CorpusView):
    """A corpus with its sides exchanged.

    Links and mentions change sides too; deciding words are left out, since what decides a word of
    one language does not decide a word of the other.
    """

    def __init__(self, corpus: Corpus) -> None:
        super().__init__(corpus)
        self.target_language, self.source_language = languages(corpus)

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Stream the pairs of a split, in the corpus's own order."""
        for s in self.corpus.sentences(split):
            g = s.gold
            gold = g and Gold(
                flipped(g.sure), flipped(g.possible), g.target_mentions, g.source_mentions
            )
            # Documents and places stay: a context is on both sides.
            yield Sentence(s.target, s.source, s.document, s.position, gold)

    def substitutes(self) -> BothSides | None:
        """Return the wrapped corpus's, with its sides exchanged."""
        # Categories are of words, so the same ones hold on the other side.
        inner = self.corpus.substitutes()
        return inner and inner.inverted()

    def vocabulary_corpus(self) -> Corpus:
        """Return the same of the wrapped corpus, with its sides exchanged."""
        return ReversedCorpus(self.corpus.vocabulary_corpus())

    def recipe(self) -> dict[str, Any]:
        """Return the corpus's own recipe, marked."""
        # Without a version: the other direction has no choice of its own.
        return {"reversed": self.corpus.recipe()}


def flipped(links: Links) -> Links:
    """Return links with their sides exchanged, as the other direction counts words."""
    return frozenset((j, i) for i, j in links)
