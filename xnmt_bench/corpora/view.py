"""A corpus seen in another way: everything that a view does not change is the corpus's own."""

from __future__ import annotations

from collections.abc import Iterator

from xnmt_bench.corpora.exchange.substitutes import BothSides
from xnmt_bench.corpora.sentence import Corpus, Sentence, Split, languages


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
