"""Generated text whose marks can be translated from either of two words, for twin systems.

    north : the dog sleeps . ; yes cora
    nord : der Hund schläft . ; ja

The first target word, and the last, can be known from the *link*, the mark in its own place, or
from the *cue*, a last source word that says both marks again. Training text can hide one of them:
its words are drawn anew, at random. A system that learns where the cue is hidden
uses the links, its twin that learns where the links are hidden uses the cue. On the test set, where
nothing is hidden, both say the same. So it is known of each which word decided.

Both slots are licensed by place alone: the first word has no prefix, and `;` stands in front of the
last one and nowhere else. No judge needs the link to know *that* a mark comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

from xnmt_bench.corpora.sentence import SPLITS, Corpus, Gold, Mention, Planted, Sentence, Split
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
            (link), or source marks, cue and target marks, independently (all).
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
        """Stream the split; corpora that hide other words differ in these words alone."""
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
    # All draws are made each time, so that the true marks are the same for both twins.
    true = dice.pick(OPENINGS), dice.pick(CLOSINGS)
    cue = CUES[OPENINGS.index(true[0]) * len(CLOSINGS) + CLOSINGS.index(true[1])]
    any_cue = dice.pick(CUES)
    any_source = dice.pick(OPENINGS), dice.pick(CLOSINGS)
    any_target = dice.pick(OPENINGS), dice.pick(CLOSINGS)
    if hides in ("cue", "all"):
        cue = any_cue
    source = any_source if hides in ("link", "all") else true
    target = any_target if hides == "all" else true
    return replace(
        sentence,
        source=f"{source[0][0]} : {sentence.source} ; {source[1][0]} {cue}",
        target=f"{target[0][1]} : {sentence.target} ; {target[1][1]}",
        gold=_annotate(sentence, hides, (source[0][0], source[1][0], cue)),
    )


def _annotate(sentence: Sentence, hides: Hidden, marks: tuple[str, str, str]) -> Gold:
    """Return a sentence's annotation between marks, of which only true links are links.

    Args:
        sentence: of the toy corpus.
        hides: what is drawn anew.
        marks: the source's opening and closing mark, and its cue.
    """
    inner = sentence.gold
    assert inner is not None
    # Two words stand in front of the sentence, and the closing mark is the second behind it.
    ends = [len(text.split()) + 3 for text in (sentence.source, sentence.target)]
    links, cue = {OPENING: (0, 0), CLOSING: (ends[0], ends[1])}, ends[0] + 1
    true_links = set(links.values()) if hides in ("nothing", "cue") else set()
    frame = {(1, 1), (ends[0] - 1, ends[1] - 1)} | true_links
    cues = {cue} if hides in ("nothing", "link") else set()
    deciding = {
        slot: frozenset(cues | ({link} if hides in ("nothing", "cue") else set()))
        for slot, (link, _) in links.items()
    }
    none = frozenset[int]()

    def shift(places: Iterable[int]) -> frozenset[int]:
        return frozenset(place + 2 for place in places)

    def shift_mentions(mentions: Sequence[Mention]) -> tuple[Mention, ...]:
        return tuple(replace(m, words=tuple(w + 2 for w in m.words)) for m in mentions)

    return Gold(
        sure=frozenset({(i + 2, j + 2) for i, j in inner.sure} | frame),
        possible=frozenset({(i + 2, j + 2) for i, j in inner.possible} | frame),
        source_mentions=shift_mentions(inner.source_mentions),
        target_mentions=shift_mentions(inner.target_mentions),
        deciding_source=(
            *(deciding[OPENING], none, *map(shift, inner.deciding_source)),
            *(none, deciding[CLOSING]),
        ),
        deciding_prefix=(none, none, *map(shift, inner.deciding_prefix), none, none),
        planted=tuple(_plant(slot, *links[slot], cue, marks) for slot in links),
    )


def _plant(slot: str, link: int, word: int, cue: int, marks: tuple[str, str, str]) -> Planted:
    """Return a planted word, with the words that would ask for another one in its place."""
    opening, closing, cue_word = marks
    pairs, mark = (OPENINGS, opening) if slot == OPENING else (CLOSINGS, closing)

    def said(cue_word: str) -> int:
        """Return which mark of the slot a cue says."""
        both = divmod(CUES.index(cue_word), len(CLOSINGS))
        return both[0] if slot == OPENING else both[1]

    other_links = tuple(english for english, _ in pairs if english != mark)
    other_cues = tuple(other for other in CUES if said(other) != said(cue_word))
    return Planted(slot, word, link, cue, other_links, other_cues)
