"""Which words of a corpus may replace each other: by its grammar, or else by a heuristic."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import pyarrow as pa

from xnmt_bench.corpora.exchange.neighbours import VERSION, alike_words
from xnmt_bench.corpora.exchange.substitutes import BothSides, Substitutes
from xnmt_bench.corpora.sentence import SIDES, Corpus
from xnmt_bench.errors import NotApplicable
from xnmt_bench.lazy import Lazy
from xnmt_bench.parquet import read_table, write_table
from xnmt_bench.store import Stage, Store, fingerprint

EXCHANGED = "words exchanged by"  # a setting of rows: one of the two below
GRAMMAR, HEURISTIC = "grammar", "neighbours (a heuristic)"
HEURISTIC_NOTE = (
    "Words are exchanged by a heuristic for others that stand between like neighbours in the "
    "training text: an effect depends on these substitutes, too."
)
FILE = "words.parquet"


class ExchangeableWords(Lazy):
    """Which words of a corpus may replace each other.

    Args:
        corpus: its grammar says which words; without a grammar its training split is read.
        store: where the words of like neighbours go.
    """

    def __init__(self, corpus: Corpus, store: Store) -> None:
        self._corpus, self._store = corpus, store

    @property
    def rule(self) -> str:
        """Whether a grammar or neighbours decide: `GRAMMAR` or `HEURISTIC`."""
        return HEURISTIC if self.source else GRAMMAR

    @cached_property
    def source(self) -> Stage | None:
        """The stage that finds words of like neighbours; None where there is a grammar."""
        corpus = self._corpus
        if corpus.substitutes() is not None:
            return None

        def work(folder: Path) -> None:
            rows = [
                {"side": side, "word": word, "substitutes": substitutes}
                for side, words in alike_words(corpus).items()
                for word, substitutes in words
                if substitutes
            ]
            write_table(pa.Table.from_pylist(rows, COLUMNS), folder / FILE)

        recipe = corpus.recipe("train")
        return self._store.stage("alike_words", work, version=VERSION, cheap=True, corpus=recipe)

    @cached_property
    def fingerprint(self) -> str:
        """Of the words, for recipes."""
        if self.source:
            return self.source.fingerprint
        words, translations = self.categories.digest, self.categories.translations_digest
        return fingerprint({"words": words, "translations": translations})

    @cached_property
    def categories(self) -> BothSides:
        """For each word of a side those that may stand in its place.

        Raises:
            NotApplicable: no word of the corpus has one.
        """
        if categories := self._corpus.substitutes():
            return categories
        assert self.source is not None
        rows = read_table(self.source.path / FILE).to_pylist()
        if not rows:
            raise NotApplicable(
                f"{self._corpus.name}: no two words of its training text stand between like "
                "neighbours, so that none can replace another"
            )
        source, target = (
            Substitutes.listed(
                (row["word"], row["substitutes"]) for row in rows if row["side"] == side
            )
            for side in SIDES
        )
        return BothSides(source, target)


COLUMNS = pa.schema(
    {"side": pa.string(), "word": pa.string(), "substitutes": pa.list_(pa.string())}.items()
)
