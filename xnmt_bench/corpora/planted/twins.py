"""Text whose marks can be translated from either of two words, for twin systems.

    north : the dog sleeps . ; yes cora
    nord : der Hund schläft . ; ja

The first target word, and the last, can be known from the *link*, the mark in its own place, or
from the *cue*, a last source word that says both marks again. Training text can hide one of them:
its words are drawn anew, at random. A system that learns where the cue is hidden uses the links,
its twin that learns where the links are hidden uses the cue. On the test set, where nothing is
hidden, both say the same. So it is known of each which word decided.

In the mirrored grammar two words of like kinds and in either order say both marks, so that only the
system prefers one of them:

    : the dog sleeps . ; cora bruno    or    ... ; bruno cora

Both slots are licensed only by place: the first word has no prefix, and `;` is in front of the
last one and, in generated text, nowhere else. No judge needs the link to know *that* a mark comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from xnmt_bench.corpora.exchange.substitutes import BothSides, Substitutes
from xnmt_bench.corpora.sentence import Corpus, Gold, Mention, Planted, Sentence, Split
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.corpora.toy.lexicon import Dice
from xnmt_bench.corpora.toy.sentences import ToyCorpus
from xnmt_bench.corpora.view import CorpusView
from xnmt_bench.options import Count, Seed, Text

KIND = "toy_twins"
VERSION = 2  # raise it when the same seed gives other marks
SLOTS = ("opening", "closing")
# English and German; none is a word of the toy corpus.
OPENINGS = (("north", "nord"), ("south", "süd"), ("east", "ost"), ("west", "west"))
CLOSINGS = (("yes", "ja"), ("no", "nein"))
CUES = ("cora", "dina", "fira", "gota", "kuma", "luna", "mika", "nova")
MIRRORS = ("bruno", "carlo", "fabio", "guido", "ivo", "luca", "mario", "nico")
Hidden = Literal["nothing", "cue", "link", "all"]
Grammar = Literal["marks", "mirrored"]
Pair = tuple[int, int]  # which opening and which closing mark


class Twins(CorpusView):
    """A corpus whose sentences stand between marks that two words give away.

    Args:
        corpus: the sentences; from German, the German marks are the source's.
        hides: what is drawn anew in training and validation: nothing, the cue, the source marks
            (link), or source marks, cue and target marks, independently (all).
        grammar: marks in their places and a cue, or two words of like kinds (mirrored).
        seed: another seed has other marks.
        name: the corpus's name in results.
    """

    def __init__(
        self,
        corpus: Corpus,
        hides: Hidden = "nothing",
        grammar: Grammar = "marks",
        seed: Seed = 0,
        name: Text = KIND,
    ) -> None:
        super().__init__(corpus)
        self.plants = True
        self.name, self._hides, self._grammar, self._seed = name, hides, grammar, seed
        pairs = [list(zip(*marks, strict=True)) for marks in (OPENINGS, CLOSINGS)]
        sides = (1, 0) if corpus.source_language == "de" else (0, 1)
        self._source_marks, self._target_marks = ([p[side] for p in pairs] for side in sides)

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Stream the split; corpora that hide other words differ only in these words."""
        hides = self._hides_in(split)
        for number, sentence in enumerate(self.corpus.sentences(split)):
            yield self._mark(sentence, hides, Dice(KIND, self._seed, split, number))

    def _hides_in(self, split: Split | None) -> Hidden:
        """Return what is hidden in a split; None for all of them."""
        return "nothing" if split == "test" else self._hides

    def vocabulary_corpus(self) -> Corpus:
        """Return the corpus in which nothing is hidden, so that twins share their vocabularies."""
        return Twins(self.corpus, grammar=self._grammar, seed=self._seed, name=self.name)

    def substitutes(self) -> BothSides:
        """Return the categories of marks and cues, and the wrapped corpus's where it has any."""
        inner = self.corpus.substitutes() or BothSides(Substitutes([]), Substitutes([]))
        source = [*self._source_marks, CUES] if self._grammar == "marks" else [CUES, MIRRORS]
        marks = zip(self._source_marks, self._target_marks, strict=True)
        # In the mirrored grammar no source word translates a mark.
        translated = self._grammar == "marks"
        pairs = [pair for slot in marks if translated for pair in zip(*slot, strict=True)]
        return inner.beside(source, self._target_marks, pairs)

    def recipe(self, split: Split | None = None) -> dict[str, Any]:
        """Return the wrapped corpus's, what is hidden, and the version of the marks."""
        return {
            "kind": KIND,
            "marks": VERSION,
            "corpus": self.corpus.recipe(split),
            "hides": self._hides_in(split),
            "grammar": self._grammar,
            "seed": self._seed,
        }

    def _mark(self, sentence: Sentence, hides: Hidden, dice: Dice) -> Sentence:
        """Return a sentence between marks."""
        # All draws are made each time, so that the true marks are the same for both twins.
        true, any_link, any_cue, any_target = (_draw(dice) for _ in range(4))
        cue_first = dice.pick((True, False))
        link = any_link if hides in ("link", "all") else true
        cue = any_cue if hides in ("cue", "all") else true
        target = any_target if hides == "all" else true
        opening, closing = (self._target_marks[slot][target[slot]] for slot in (0, 1))
        words = split_words(sentence.source)
        if self._grammar == "marks":
            first, last = (self._source_marks[slot][link[slot]] for slot in (0, 1))
            source = [first, ":", *words, ";", last, CUES[_code(cue)]]
            links, cue_place = (0, len(source) - 2), len(source) - 1
        else:
            pair = [MIRRORS[_code(link)], CUES[_code(cue)]]
            source = [":", *words, ";", *(reversed(pair) if cue_first else pair)]
            ends = (len(source) - 1, len(source) - 2)
            link_place, cue_place = ends if cue_first else ends[::-1]
            links = (link_place, link_place)
        text = f"{opening} : {sentence.target} ; {closing}"
        target_words = split_words(text)
        target_places = (0, len(target_words) - 1)
        planted: tuple[Planted, ...] = ()
        for n, slot in enumerate(SLOTS):
            other_words = self._other_links(n, link), _others(CUES, n, cue)
            planted += (Planted(slot, target_places[n], links[n], cue_place, *other_words),)
        # Only what says the true mark decides it.
        link_says, cue_says = hides in ("nothing", "cue"), hides in ("nothing", "link")
        deciding = {p.word: frozenset([p.link] * link_says + [p.cue] * cue_says) for p in planted}
        gold = between_marks(sentence.gold, source, target_words, planted, deciding)
        if sentence.gold and link_says and self._grammar == "marks":
            linked = {(p.link, p.word) for p in planted}
            gold = replace(gold, sure=gold.sure | linked, possible=gold.possible | linked)
        return replace(sentence, source=" ".join(source), target=text, gold=gold)

    def _other_links(self, slot: int, link: Pair) -> tuple[str, ...]:
        """Return the words that in the link's place ask for another target word."""
        if self._grammar == "mirrored":
            return _others(MIRRORS, slot, link)
        return tuple(m for n, m in enumerate(self._source_marks[slot]) if n != link[slot])


class ToyTwins(Twins):
    """The toy corpus between marks.

    Args:
        seed: another seed is another corpus.
        train, valid, test: numbers of sentences.
        hides, grammar, name: as for `Twins`.
    """

    def __init__(
        self,
        seed: Seed = 0,
        train: Count = 8000,
        valid: Count = 500,
        test: Count = 500,
        hides: Hidden = "nothing",
        grammar: Grammar = "marks",
        name: Text = KIND,
    ) -> None:
        super().__init__(ToyCorpus(seed, train, valid, test), hides, grammar, seed, name)


def _draw(dice: Dice) -> Pair:
    """Return an opening and a closing mark by their numbers."""
    return dice.pick([*range(len(OPENINGS))]), dice.pick([*range(len(CLOSINGS))])


def _code(marks: Pair) -> int:
    """Return the number of the word that says both marks."""
    return marks[0] * len(CLOSINGS) + marks[1]


def _others(codes: Sequence[str], slot: int, marks: Pair) -> tuple[str, ...]:
    """Return the words that say another mark in a slot."""
    return tuple(
        word for n, word in enumerate(codes) if divmod(n, len(CLOSINGS))[slot] != marks[slot]
    )


def between_marks(
    inner: Gold | None,
    source: Sequence[str],
    target: Sequence[str],
    planted: tuple[Planted, ...],
    deciding: Mapping[int, frozenset[int]],
    earlier: Mapping[int, frozenset[int]] | None = None,
) -> Gold:
    """Return the annotation of a sentence between marks: its own, moved, and that of the marks.

    Args:
        inner: of only the sentence.
        source: the words between marks; `:` and `;` stand around the sentence.
        target: the same of the translation.
        planted: its planted words.
        deciding: the source words that decide a mark, by the mark's place.
        earlier: the same of target words.
    """
    if inner is None:
        return Gold(planted=planted)
    colons = source.index(":"), target.index(":")
    # From the right, as the sentence itself might hold one.
    semicolons = len(source) - 1 - source[::-1].index(";"), len(target) - 2
    moved = shift(inner, colons[0] + 1, colons[1] + 1)

    def with_marks(
        inside: Sequence[frozenset[int]], by_place: Mapping[int, frozenset[int]]
    ) -> tuple[frozenset[int], ...]:
        # Some annotations name no deciding words, and each word of the sentence needs a place.
        inside = inside or [frozenset()] * (semicolons[1] - colons[1] - 1)
        before, behind = range(colons[1] + 1), range(semicolons[1], len(target))
        marks = [[by_place.get(j, frozenset[int]()) for j in side] for side in (before, behind)]
        return (*marks[0], *inside, *marks[1])

    return replace(
        moved,
        sure=moved.sure | {colons, semicolons},
        possible=moved.possible | {colons, semicolons},
        deciding_source=with_marks(moved.deciding_source, deciding),
        deciding_prefix=with_marks(moved.deciding_prefix, earlier or {}),
        planted=planted,
    )


def shift(gold: Gold, source_by: int, target_by: int) -> Gold:
    """Return an annotation whose source and target words stand some places farther right."""

    def moved(places: Iterable[int], by: int) -> frozenset[int]:
        return frozenset(place + by for place in places)

    def mentions(some: Sequence[Mention], by: int) -> tuple[Mention, ...]:
        return tuple(replace(m, words=tuple(w + by for w in m.words)) for m in some)

    return Gold(
        sure=frozenset((i + source_by, j + target_by) for i, j in gold.sure),
        possible=frozenset((i + source_by, j + target_by) for i, j in gold.possible),
        source_mentions=mentions(gold.source_mentions, source_by),
        target_mentions=mentions(gold.target_mentions, target_by),
        deciding_source=tuple(moved(places, source_by) for places in gold.deciding_source),
        deciding_prefix=tuple(moved(places, target_by) for places in gold.deciding_prefix),
    )
