"""A corpus seen in another way, such as the other way round: the rest is the corpus's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xnmt_bench.corpora.exchange.substitutes import BothSides
from xnmt_bench.corpora.sentence import Corpus, Gold, Links, Sentence, Split, languages


class CorpusView(Corpus):
    """Base of corpora that wrap another one; a subclass overrides what it changes.

    Contrastive sets are left out, since they hold the wrapped corpus's own sentences.

    Args:
        corpus: the corpus that is viewed.
    """

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        # A view that lost `tokenizer` would be detokenised twice, or not at all.
        self.name, self.generated, self.tokenizer = corpus.name, corpus.generated, corpus.tokenizer
        self.marked, self.plants = corpus.marked, corpus.plants
        self.translated = corpus.translated
        # Copied and not forwarded: a subclass may set them otherwise.
        self.source_language, self.target_language = languages(corpus)

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Yield the pairs of a split of the wrapped corpus."""
        return self.corpus.sentences(split)

    def raw(self, text: str, language: str) -> str:
        """Return the text as it was before the wrapped corpus cut it into words."""
        return self.corpus.raw(text, language)

    def words(self, text: str, language: str) -> str:
        """Return a text from elsewhere, tokenised and cased as the wrapped corpus is."""
        return self.corpus.words(text, language)

    def substitutes(self) -> BothSides | None:
        """Return the wrapped corpus's."""
        return self.corpus.substitutes()

    def vocabulary_corpus(self) -> Corpus:
        """Return the corpus that vocabularies of the wrapped one are learnt from."""
        return self.corpus.vocabulary_corpus()

    def counts(self) -> Iterator[str]:
        """Yield the counts of the wrapped corpus."""
        return self.corpus.counts()


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

    def recipe(self, split: Split | None = None) -> dict[str, Any]:
        """Return the corpus's own recipe, marked."""
        # Without a version: the other direction has no choice of its own.
        return {"reversed": self.corpus.recipe(split)}


def flipped(links: Links) -> Links:
    """Return links with their sides exchanged, as the other direction counts words."""
    return frozenset((j, i) for i, j in links)
