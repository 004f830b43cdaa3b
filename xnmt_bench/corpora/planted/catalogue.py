"""A catalogue of causes: generated text in which two words bear on a third in a known way.

    : the dog sleeps . ; bruno cora
    : der Hund schläft . ; ja

The last target word, the mark, follows from two last source words, each of two kinds. How it
follows is the cue (`RULES`): one of both words is enough (or), both are needed (and), they have to
differ (xor), or the second one cancels the first (cancelling). In `far` the first word of the
sentence decides, and the last word has no part. In `prefix` no source word has a part: the first
target word is drawn freely, and the mark repeats it.

The mark's slot is licensed only by place, as in `planted.twins`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from xnmt_bench.corpora.exchange.substitutes import BothSides, Substitutes
from xnmt_bench.corpora.planted.twins import CUES, MIRRORS, OPENINGS, between_marks
from xnmt_bench.corpora.sentence import Corpus, Planted, Sentence, Split
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.corpora.toy.lexicon import Dice
from xnmt_bench.corpora.toy.sentences import ToyCorpus
from xnmt_bench.corpora.view import CorpusView
from xnmt_bench.options import Count, Seed, Text

KIND = "toy_catalogue"
VERSION = 2  # raise it when the same seed gives other marks
SLOT = "closing"
MARKS = ("ja", "nein", "offen")  # the third one where the first word is cancelled
STARTS = tuple(german for _, german in OPENINGS[:2])  # of `prefix`
# Two kinds of each word: the first half of its list, and the second.
KINDS = {words: (words[: len(words) // 2], words[len(words) // 2 :]) for words in (MIRRORS, CUES)}
Cue = Literal["or", "and", "xor", "cancelling", "far", "prefix"]
# The mark's number, by the kinds of both words; of `prefix`, by the kind of the first target word.
RULES: Mapping[str, Callable[[int, int], int]] = {
    "or": lambda first, second: first | second,
    "and": lambda first, second: first & second,
    "xor": lambda first, second: first ^ second,
    "cancelling": lambda first, second: 2 if second else first,
    "far": lambda first, second: first,
}
# Under these rules a word may change nothing alone, or only because of what the other one is.
TAKE_BOTH = ("or", "and", "xor", "cancelling")


class Catalogue(CorpusView):
    """The toy corpus in front of a mark that other words decide.

    Args:
        seed: another seed is another corpus.
        train, valid, test: numbers of sentences.
        cue: how the words decide.
        name: the corpus's name in results.
    """

    def __init__(
        self,
        seed: Seed = 0,
        train: Count = 8000,
        valid: Count = 500,
        test: Count = 500,
        cue: Cue = "or",
        name: Text = KIND,
    ) -> None:
        super().__init__(ToyCorpus(seed, train, valid, test))
        self.plants = True
        self.name, self._cue, self._seed = name, cue, seed

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Stream the split."""
        for number, sentence in enumerate(self.corpus.sentences(split)):
            yield self._mark(sentence, Dice(KIND, self._seed, split, number))

    def vocabulary_corpus(self) -> Corpus:
        """Return the corpus itself."""
        return self

    def substitutes(self) -> BothSides:
        """Return the categories of the words that decide, and the toy corpus's."""
        inner = self.corpus.substitutes() or BothSides(Substitutes([]), Substitutes([]))
        target = [MARKS, STARTS] if self._cue == "prefix" else [MARKS]
        return inner.beside([MIRRORS, CUES], target)

    def recipe(self, split: Split | None = None) -> dict[str, Any]:
        """Return the toy corpus's, the cue, and the version of the marks."""
        return {
            "kind": KIND,
            "marks": VERSION,
            "corpus": self.corpus.recipe(split),
            "cue": self._cue,
            "seed": self._seed,
        }

    def _mark(self, sentence: Sentence, dice: Dice) -> Sentence:
        """Return a sentence whose mark follows from the drawn words."""
        # Kinds first and words of them second, so that all four pairs of kinds are as frequent.
        kinds = dice.pick((0, 1)), dice.pick((0, 1))
        first, second = (
            dice.pick(KINDS[words][kind])
            for words, kind in zip((MIRRORS, CUES), kinds, strict=True)
        )
        # Thrown under every cue, so that one seed gives the same words under all.
        start = dice.pick((0, 1))
        words, target = split_words(sentence.source), [":", *split_words(sentence.target), ";"]
        if self._cue == "prefix":
            target, mark = [STARTS[start], *target], start
        else:
            mark = RULES[self._cue](*kinds)
        target.append(MARKS[mark])
        far = self._cue == "far"
        source = [first, ":", *words, ";"] if far else [":", *words, ";", first]
        source.append(second)
        planted = Planted(
            SLOT,
            len(target) - 1,
            0 if far else len(source) - 2,
            len(source) - 1,
            # Words of the other kind: putting one in place of the word changes its part.
            KINDS[MIRRORS][1 - kinds[0]],
            KINDS[CUES][1 - kinds[1]],
            0 if self._cue == "prefix" else None,
            self._cue in TAKE_BOTH,
        )
        # Under the other cues both words decide together.
        both = [planted.link, planted.cue]
        deciding = {"far": [planted.link], "prefix": []}.get(self._cue, both)
        earlier = {} if planted.earlier is None else {planted.word: frozenset([planted.earlier])}
        gold = between_marks(
            sentence.gold, source, target, (planted,), {planted.word: frozenset(deciding)}, earlier
        )
        return replace(sentence, source=" ".join(source), target=" ".join(target), gold=gold)
