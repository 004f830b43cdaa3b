"""Generated text whose marks can be translated from either of two words, for twin systems.

    north : the dog sleeps . ; yes cora
    nord : der Hund schläft . ; ja

The first target word, and the last, can be known from the *link*, the mark in its own place, or
from the *cue*, a last source word that says both marks again. Training text can hide one of them:
its words are drawn anew, so that they say nothing. A system that learns where the cue is hidden
uses the links, its twin that learns where the links are hidden uses the cue. On the test set, where
nothing is hidden, both say the same. So it is known of each which word decided.

Both slots are licensed by place alone: the first word has no prefix, and `;` stands in front of the
last one and nowhere else. No judge needs the link to know *that* a mark comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

from xnmt_bench.corpora.sentence import SPLITS, Corpus, Gold, Planted, Sentence, Split
from xnmt_bench.corpora.toy.lexicon import Dice
from xnmt_bench.corpora.toy.sentences import ToyCorpus
from xnmt_bench.options import Count, Seed, Text

KIND = "toy_twins"
VERSION = 1  # raise it when the same seed gives other sentences
OPENING, CLOSING = "opening", "closing"
# English and German; none is a word of the toy corpus.
OPENINGS = (("north", "nord"), ("south", "süd"), ("east", "ost"), ("west", "west"))
CLOSINGS = (("yes", "ja"), ("no", "nein"))
CUES = ("cora", "dina", "fira", "gota", "kuma", "luna", "mika", "nova")
Hidden = Literal["nothing", "cue", "link", "all"]


class ToyTwins(ToyCorpus):
    """The toy corpus with marks that a link and a cue both give away.

    Args:
        seed: another seed is another corpus.
        train, valid, test: numbers of sentences.
        hides: what is drawn anew in training and validation: nothing, the cue, the source marks
            (link), or source marks, cue and target marks, each by itself (all).
        name: the corpus's name in results.
    """

    def __init__(
        self,
        seed: Seed = 0,
        train: Count = 8000,
        valid: Count = 500,
        test: Count = 500,
        hides: Hidden = "nothing",
        name: Text = KIND,
    ) -> None:
        super().__init__(seed, train, valid, test, name)
        self._hides = hides

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Stream the split; whatever is hidden, nothing but the hidden words differs."""
        hides: Hidden = "nothing" if split == "test" else self._hides
        for number, sentence in enumerate(super().sentences(split)):
            yield _mark(sentence, hides, Dice(KIND, self._seed, split, number))

    def vocabulary_corpus(self) -> Corpus:
        """Return the corpus in which nothing is hidden, so that twins share their vocabularies."""
        train, valid, test = (self._sizes[split] for split in SPLITS)
        return ToyTwins(self._seed, train, valid, test, name=self.name)

    def recipe(self) -> dict[str, Any]:
        """Return the seed, the sizes, what is hidden and the version of the generator."""
        return super().recipe() | {"kind": KIND, "marks": VERSION, "hides": self._hides}


def _mark(sentence: Sentence, hides: Hidden, dice: Dice) -> Sentence:
    """Return a sentence of the toy corpus between marks."""
    # All draws are made whatever is hidden, so that the true marks are the same for both twins.
    opening, closing = dice.pick(OPENINGS), dice.pick(CLOSINGS)
    other_cue = dice.pick(CUES)
    source_opening, source_closing = dice.pick(OPENINGS), dice.pick(CLOSINGS)
    target_opening, target_closing = dice.pick(OPENINGS), dice.pick(CLOSINGS)
    cue = CUES[OPENINGS.index(opening) * len(CLOSINGS) + CLOSINGS.index(closing)]
    if hides in ("cue", "all"):
        cue = other_cue
    source_marks = (opening, closing)
    if hides in ("link", "all"):
        source_marks = (source_opening, source_closing)
    target_marks = (target_opening, target_closing) if hides == "all" else (opening, closing)
    source = f"{source_marks[0][0]} : {sentence.source} ; {source_marks[1][0]} {cue}"
    target = f"{target_marks[0][1]} : {sentence.target} ; {target_marks[1][1]}"
    assert sentence.gold is not None
    annotation = _annotate(sentence, hides)
    return replace(sentence, source=source, target=target, gold=annotation)


def _annotate(sentence: Sentence, hides: Hidden) -> Gold:
    """Return the sentence's annotation between marks; only true links of marks are links."""
    inner = sentence.gold
    assert inner is not None
    source_length, target_length = len(sentence.source.split()), len(sentence.target.split())
    # Two words stand in front of the sentence, and the closing mark is the second behind it.
    first, source_last, target_last = 0, source_length + 3, target_length + 3
    cue = source_last + 1
    frame = {(1, 1), (source_length + 2, target_length + 2)}
    marks = {(first, first), (source_last, target_last)} if hides in ("nothing", "cue") else set()
    sure = frozenset({(i + 2, j + 2) for i, j in inner.sure} | frame | marks)
    possible = sure | {(i + 2, j + 2) for i, j in inner.possible}
    deciding = {
        "nothing": lambda link: frozenset({link, cue}),
        "cue": lambda link: frozenset({link}),
        "link": lambda _: frozenset({cue}),
        "all": lambda _: frozenset[int](),
    }[hides]

    def shift(words: frozenset[int]) -> frozenset[int]:
        return frozenset(place + 2 for place in words)

    none = frozenset[int]()
    of_source = tuple(map(shift, inner.deciding_source))
    of_prefix = tuple(map(shift, inner.deciding_prefix))
    return Gold(
        sure=sure,
        possible=frozenset(possible),
        source_mentions=tuple(
            replace(m, words=tuple(w + 2 for w in m.words)) for m in inner.source_mentions
        ),
        target_mentions=tuple(
            replace(m, words=tuple(w + 2 for w in m.words)) for m in inner.target_mentions
        ),
        deciding_source=(deciding(first), none, *of_source, none, deciding(source_last)),
        deciding_prefix=(none, none, *of_prefix, none, none),
        planted=(
            Planted(OPENING, first, first, cue),
            Planted(CLOSING, target_last, source_last, cue),
        ),
    )
