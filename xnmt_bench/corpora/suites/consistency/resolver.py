"""What a coreference resolver makes of a suite's sources."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xnmt_bench.corpora.formats.clusters import (
    ClustersOfTexts,
    Stretch,
    letter_starts,
    letters,
    read_clusters,
)
from xnmt_bench.corpora.suites.consistency.suite import Entity, Item, Suite, left_out
from xnmt_bench.corpora.text import present
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.errors import DataError
from xnmt_bench.store import file_hash

WordClusters = Sequence[Sequence[tuple[int, int]]]  # mentions by their first and last word


class Resolver:
    """Clusters of a suite's sentences: of a file (see `read_clusters`), or of a plug-in.

    Lines of no sentence of the suite are counted and listed.

    Raises:
        DataError: a line is not in this format, or none is of the suite.
    """

    def __init__(self, path: Path, suite: Suite) -> None:
        self._suite, self.fingerprint = suite, file_hash(present(path))[:16]
        suite_letters = {letters(sentence.source) for sentence in suite.sentences}
        self._clusters, found_count = ClustersOfTexts(), 0
        problems: dict[int, str] = {}
        for line in read_clusters(path):
            if letters(line.text) in suite_letters:
                self._clusters.add(line.text, line.clusters)
                found_count += 1
            else:
                problems[line.number] = f"the suite has no such sentence: {line.text!r}"
        if not found_count:
            raise DataError(path, None, f"no line is a sentence of {suite.name}")
        left_out(path, problems)

    @classmethod
    def of_clusters(
        cls, suite: Suite, clusters: Sequence[WordClusters | None], fingerprint: str
    ) -> Resolver:
        """Return the resolver that gave a suite's sentences their clusters.

        Args:
            suite: the sentences.
            clusters: of each of them; None for one that the resolver does not know.
            fingerprint: of the resolver.
        """
        resolver = cls.__new__(cls)
        resolver._suite, resolver.fingerprint = suite, fingerprint
        resolver._clusters = ClustersOfTexts()
        for sentence, of_sentence in zip(suite.sentences, clusters, strict=True):
            if of_sentence is not None:
                starts = letter_starts(split_words(sentence.source))
                mentions = [
                    [(starts[first], starts[last + 1]) for first, last in cluster]
                    for cluster in of_sentence
                ]
                resolver._clusters.add(sentence.source, mentions)
        return resolver

    def right(self, item: Item) -> bool | None:
        """Return whether it joins a pronoun and its entity; None where that cannot be said.

        That is a sentence that it lacks, and an entity of an earlier sentence: each sentence is
        resolved alone.

        A pronoun inside of a longer mention (`his` of `his car`) stands for what that mention does
        not name, and is not taken for it.
        """
        if item.entity.back:
            return None
        sentence = self._suite.sentences[item.sentence].source
        clusters = self._clusters.find(sentence)
        if clusters is None:
            return None
        words = letter_starts(split_words(sentence))
        # Its letters, from the first to behind the last: of `it's`, resolvers take `it` or all.
        start, end = words[item.pronoun : item.pronoun + 2]
        pronouns = {(start, end), (start, start + len(letters(self._suite.pronoun(item))))}
        return any(
            not pronouns.isdisjoint(cluster)
            and any(_names(words, item.entity, mention) for mention in cluster)
            for cluster in clusters
        )


def _names(words: Sequence[int], entity: Entity, mention: Stretch) -> bool:
    """Return whether a mention holds a word of an entity."""
    # Two stretches of letters overlap.
    return any(mention[0] < words[n + 1] and words[n] < mention[1] for n in entity.words)
