"""Divide and rule (Lupo et al. 2022): training sentences split, so that their parts are context.

Words that decide each other are often in one sentence; split, they are links between sentences.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import count, pairwise
from typing import Any, Literal

from xnmt_bench.corpora.sentence import Corpus, Links, Sentence, Split
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.corpora.view import CorpusView
from xnmt_bench.words.ibm_model_1 import agreed_links

How = Literal["middle", "multi", "aligned"]
TWO, THREE = 7, 15  # source words from which a sentence is split in two, and by `multi` in three
LEAST = 2  # words a part, of `aligned`
Cuts = list[tuple[int, int]]  # places, on both sides, before which a sentence is cut


def divided(corpus: Corpus, how: How | None) -> Corpus:
    """Return a corpus with its training sentences split; itself, where they are not."""
    return corpus if how is None else DividedCorpus(corpus, how)


class DividedCorpus(CorpusView):
    """A corpus whose training sentences are split; parts of one are neighbours in its document.

    Args:
        corpus: the whole sentences.
        how: `middle` cuts each side at its half; `multi` does so at its thirds where the source is
            long; `aligned` cuts where no link between words is cut, as near to the half as can be.
    """

    def __init__(self, corpus: Corpus, how: How) -> None:
        super().__init__(corpus)
        self._how = how

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Stream the pairs of a split; parts have no annotation."""
        sentences = self.corpus.sentences(split)
        if split != "train":
            yield from sentences
            return
        document, places = None, count()
        for number, sentence in enumerate(sentences):
            if sentence.document != document:
                document, places = sentence.document, count()
            cuts = self._cuts(number, sentence)
            sides = (
                _parts(split_words(text), [cut[side] for cut in cuts])
                for side, text in enumerate((sentence.source, sentence.target))
            )
            for source, target in zip(*sides, strict=True):
                # Places in the annotation count words of the whole sentence.
                gold = None if cuts else sentence.gold
                place = next(places)
                yield replace(sentence, source=source, target=target, position=place, gold=gold)

    def _cuts(self, number: int, sentence: Sentence) -> Cuts:
        sizes = len(split_words(sentence.source)), len(split_words(sentence.target))
        # A target of one word cannot be cut.
        if sizes[0] < TWO or sizes[1] < 2:
            return []
        if self._how == "multi" and sizes[0] >= THREE and sizes[1] >= 3:
            return [(n * (sizes[0] // 3), n * (sizes[1] // 3)) for n in (1, 2)]
        middle = sizes[0] // 2, sizes[1] // 2
        if self._how == "aligned":
            # Where no cut leaves every link whole, it falls to the middle.
            return [self._aligned.get(number, middle)]
        return [middle]

    @cached_property
    def _aligned(self) -> dict[int, tuple[int, int]]:
        """Where training sentences are cut between words, by their numbers.

        Links are those on which IBM model 1 agrees in both directions.
        """
        sizes: dict[int, tuple[int, int]] = {}

        def split() -> Iterator[tuple[list[str], list[str]]]:
            for number, sentence in enumerate(self.corpus.sentences("train")):
                source, target = split_words(sentence.source), split_words(sentence.target)
                if len(source) >= TWO:
                    sizes[number] = len(source), len(target)
                    yield source, target

        links = agreed_links(split())
        cuts = {
            n: uncrossed(sentence_links, *sizes[n])
            for n, sentence_links in zip(sizes, links, strict=True)
        }
        return {number: cut for number, cut in cuts.items() if cut is not None}

    def recipe(self, split: Split | None = None) -> dict[str, Any]:
        """Return the corpus's own, and how its training sentences are split."""
        if split in ("valid", "test"):
            return self.corpus.recipe(split)
        return {"corpus": self.corpus.recipe(split), "divided": self._how}


def uncrossed(links: Links, source: int, target: int) -> tuple[int, int] | None:
    """Return the link nearest the source's middle before which no link crosses a cut of both sides.

    Args:
        links: (source word, target word).
        source: words of the source; a part keeps two at least.
        target: the same of the target.
    """
    fitting = (
        (i, j)
        for i, j in links
        if LEAST <= i <= source - LEAST
        and LEAST <= j <= target - LEAST
        and all((a < i) == (b < j) for a, b in links)
    )
    return min(fitting, key=lambda link: (abs(link[0] - source / 2), link), default=None)


def _parts(words: list[str], cuts: list[int]) -> list[str]:
    """Return the words between cuts."""
    return [" ".join(words[a:b]) for a, b in pairwise((0, *cuts, len(words)))]
