"""Sentences that need coreference to be translated (Yehudai et al. 2023, section 4 and Table 5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import tee
from typing import Any, Literal

from xnmt_bench.corpora.sentence import Corpus, Sentence, Split
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.corpora.view import CorpusView, ReversedCorpus
from xnmt_bench.errors import XnmtError
from xnmt_bench.morphology import stripped
from xnmt_bench.resolvers.base import Clusters, Resolver

ENGLISH = "en"
GENDERED = frozenset({"he", "she", "her", "him", "his", "hers"})
Kind = Literal["coref", "gender"]


def english_side(corpus: Corpus) -> Corpus:
    """Return a corpus whose source is English: the corpus itself, or its other direction.

    Raises:
        XnmtError: neither side is English.
    """
    if corpus.source_language == ENGLISH:
        return corpus
    if corpus.target_language == ENGLISH:
        # Resolvers read English, and a corpus into English has it on its target side.
        return ReversedCorpus(corpus)
    pair = f"{corpus.source_language}-{corpus.target_language}"
    raise XnmtError(
        f"{corpus.name} ({pair}): a resolver reads English, but neither language is English"
    )


def refuse_other_languages(corpus: Corpus) -> None:
    """Raise an XnmtError for a corpus whose source is not English."""
    if corpus.source_language != ENGLISH:
        raise XnmtError(f"{corpus.name}: a resolver reads English, not {corpus.source_language}")


def is_coref(clusters: Clusters | None) -> bool:
    """Return whether a sentence has a cluster of two mentions or more."""
    return bool(clusters)


def is_gender(sentence: Sentence, clusters: Clusters | None) -> bool:
    """Return whether he, she, her, him, his or hers is a mention of a cluster."""
    words = split_words(sentence.source)
    return any(
        # A longer mention, such as `his car`, is of a thing and shows no gender.
        first == last and stripped(words[first]).lower() in GENDERED
        for cluster in clusters or ()
        for first, last in cluster
    )


@dataclass
class ExampleCounts:
    """Table 5's rows for one corpus.

    Attributes:
        sentences: all that were read.
        coref: those with a cluster of two mentions or more.
        gender: those among them with a gendered pronoun in a cluster.
        unknown: those that the resolver does not know.
    """

    sentences: int = 0
    coref: int = 0
    gender: int = 0
    unknown: int = 0

    def add(self, sentence: Sentence, clusters: Clusters | None) -> None:
        """Count a sentence."""
        self.sentences += 1
        self.unknown += clusters is None
        self.coref += is_coref(clusters)
        self.gender += is_gender(sentence, clusters)

    def __str__(self) -> str:
        """Return the counts as one line."""
        unknown = f"; {self.unknown:,} unknown to the resolver" if self.unknown else ""
        return (
            f"{self.sentences:,} sentences: {self.coref:,} coref, {self.gender:,} gender{unknown}"
        )


def pair_with_clusters(
    sentences: Iterable[Sentence], resolver: Resolver
) -> Iterator[tuple[Sentence, Clusters | None]]:
    """Yield each sentence with its clusters."""
    # A resolver may read ahead to resolve many at once.
    read, kept = tee(sentences)
    return zip(kept, resolver.resolve(read), strict=True)


def count_examples(corpus: Corpus, split: Split, resolver: Resolver) -> ExampleCounts:
    """Return how many sentences of a split are coref and gender examples, on its English side.

    Raises:
        XnmtError: neither side is English.
    """
    counts = ExampleCounts()
    for sentence, clusters in pair_with_clusters(english_side(corpus).sentences(split), resolver):
        counts.add(sentence, clusters)
    return counts


class ExamplesCorpus(CorpusView):
    """A corpus whose training split holds only its coref or gender examples.

    Args:
        corpus: its source is English.
        resolver: finds the clusters.
        kind: which examples.

    Raises (when the training split has been read):
        XnmtError: it has no such example.
    """

    def __init__(self, corpus: Corpus, resolver: Resolver, kind: Kind) -> None:
        super().__init__(corpus)
        refuse_other_languages(corpus)
        self._resolver, self._kind = resolver, kind

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Stream a split; validation and test sentences are the corpus's own."""
        # Tests of all systems are then of the same sentences, also where they learnt from others.
        if split != "train":
            yield from self.corpus.sentences(split)
            return
        number = 0
        for sentence, clusters in pair_with_clusters(self.corpus.sentences(split), self._resolver):
            if is_coref(clusters) if self._kind == "coref" else is_gender(sentence, clusters):
                number += 1
                yield sentence
        # An empty training split would end far from here, in a tokenizer or in training.
        if not number:
            raise XnmtError(f"{self.name}: the training split has no {self._kind} example")

    def recipe(self, split: Split | None = None) -> dict[str, Any]:
        """Return the corpus's recipe, the resolver and the kind."""
        if split in ("valid", "test"):
            return self.corpus.recipe(split)
        return {
            "kind": "examples",
            "corpus": self.corpus.recipe(split),
            "resolver": self._resolver.fingerprint,
            # The two kinds choose different sentences of the same corpus.
            "examples": self._kind,
        }

    def counts(self) -> Iterator[str]:
        """Yield the corpus's own counts, and the numbers of examples."""
        yield from self.corpus.counts()
        yield str(count_examples(self.corpus, "train", self._resolver))
