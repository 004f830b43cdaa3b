"""Generated text where a pronoun's gender comes only from its noun two clauses before.

    the guard sleeps and the bridge is old because he is tired .
    die Wache schläft und die Brücke ist alt , weil sie müde ist .

Its noun is *epicene*: a word of one grammatical gender for people of both sexes. English has `he`
or `she` by a throw, the target the noun's gender, and the noun between has another one. Everywhere
else in the corpus `he` is nearly always `er`. So a system has to find the noun, and few training
sentences teach it that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, islice
from typing import Any

from xnmt_bench.corpora.sentence import Links, Sentence, Split
from xnmt_bench.corpora.suites.consistency.suite import Entity, Item, Suite
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.corpora.toy.grammar import Clause, NounPhrase, Phrase, Property, gold
from xnmt_bench.corpora.toy.lexicon import Dice
from xnmt_bench.corpora.toy.sentences import AND, STOP, Document, ToyCorpus
from xnmt_bench.options import Chance, Count, Seed, Text

KIND = "toy_coreference"
VERSION = 1  # raise it when the same seed gives other sentences
SEXES = ("m", "f")


class ToyCoreference(ToyCorpus):
    """The toy corpus with far pronouns, and a suite of nothing else.

    Args:
        seed: another seed is another corpus.
        train, valid, test: numbers of sentences.
        far: chance that a sentence with a far pronoun follows a sentence.
        suite: sentences of the suite (`metric.consistency.suite=corpus`); none is in the
            training split.
        name: the corpus's name in results.
    """

    def __init__(
        self,
        seed: Seed = 0,
        train: Count = 8000,
        valid: Count = 500,
        test: Count = 500,
        far: Chance = 0.02,
        suite: Count = 500,
        name: Text = KIND,
    ) -> None:
        super().__init__(seed, train, valid, test, name)
        self._far, self._suite_size = far, suite

    def _document(self, split: Split, number: int) -> FarDocument:
        dice = Dice(KIND, self._seed, split, number)
        return FarDocument(dice, f"{split}-{number}", self._far)

    def recipe(self, split: Split | None = None) -> dict[str, Any]:
        """Return the seed, the sizes, the share of far pronouns and the generator's version."""
        toy = super().recipe(split)
        # Its documents hold the toy corpus's own sentences too.
        versions = {"version": VERSION, "toy_version": toy["version"]}
        return toy | versions | {"kind": KIND, "far": self._far}

    def suite(self) -> Suite:
        """Return sentences with a far pronoun each, with references and gold annotation."""
        sentences, items = [], []
        for number, phrase in enumerate(islice(self._far_phrases(), self._suite_size)):
            annotation = gold(phrase.source, phrase.target)
            sentences.append(Sentence(*phrase.texts, f"suite-{number}", 0, annotation))
            items.append(_find_item(number, phrase))
        return Suite(self.name, sentences, items, link_far_words)

    def _far_phrases(self) -> Iterator[Phrase]:
        yielded: set[tuple[str, str]] = set()
        for number in count():
            document = self._document("test", -1 - number)  # dice that no split throws
            phrase = document.far_pronoun()
            # A sentence that was trained on would be remembered and not translated.
            if not self._is_trained(phrase) and phrase.texts not in yielded:
                yielded.add(phrase.texts)
                yield phrase


class FarDocument(Document):
    """A toy document with far pronouns among its sentences.

    Args:
        dice: throws of its own.
        name: of the document.
        far: chance that a sentence with a far pronoun follows a sentence.
    """

    def __init__(self, dice: Dice, name: str, far: float) -> None:
        super().__init__(dice, name)
        self._far = far

    def phrases(self) -> Iterator[Phrase]:
        """Yield the document's sentences."""
        for phrase in super().phrases():
            yield phrase
            if self._dice.chance(self._far):
                yield self.far_pronoun()

    def far_pronoun(self) -> Phrase:
        """Return three clauses; the subject of the last is that of the first, as a pronoun."""
        dice, words = self._dice, self._words
        self._count += 1
        chain = f"far{self._count}"
        noun, sex = dice.pick(words.epicenes), dice.pick(SEXES)
        subject = NounPhrase(f"{chain}.a", chain, noun.english, noun.german, noun.gender, sex)
        other = dice.pick([entry for entry in words.objects if entry.gender != noun.gender])
        between = NounPhrase(
            f"{chain}.o", f"{chain}.other", other.english, other.german, other.gender, other.sex
        )
        first = Clause(f"{chain}.c", subject, dice.pick(words.intransitive))
        middle = Property(f"{chain}.m", between, dice.pick(words.adjectives))
        again = replace(subject, id=f"{chain}.r", form="pronoun")
        last = Property(f"{chain}.so", again, dice.pick(words.adjectives), "subordinate")
        because = self._conjunction("because", "weil", f"{chain}.so")
        return first.render() + AND + middle.render() + because + last.render() + STOP


def link_far_words(source: str, translation: str) -> Links:
    """Link both nouns and the pronoun of a sentence with a far pronoun, by their places.

    A noun is the second word of its clause on both sides, and the pronoun stands behind `because`
    and `weil`. A translation without `und` or `weil` lacks the links behind it.
    """
    source_words, words = split_words(source), split_words(translation)

    def behind(here: Sequence[str], word: str, steps: int) -> int | None:
        place = here.index(word) + steps if word in here else len(here)
        return place if place < len(here) else None

    pairs = [(1, 1 if len(words) > 1 else None), (0, 0 if words else None)]
    for english, german, steps in (("and", "und", 1), ("and", "und", 2), ("because", "weil", 1)):
        place = behind(source_words, english, steps)
        assert place is not None, f"no sentence of this suite: {source}"
        pairs.append((place, behind(words, german, steps)))
    return frozenset((i, j) for i, j in pairs if j is not None)


def _find_item(number: int, phrase: Phrase) -> Item:
    """Return the pronoun of a sentence that `far_pronoun` made, with its noun and the other."""

    def places(mention: str, key: str) -> tuple[int, ...]:
        return tuple(
            place
            for place, w in enumerate(phrase.source)
            if w.mention.endswith(mention) and w.key.endswith(key)
        )

    # Only the noun, without its article.
    entity, other, [pronoun] = (places(f".{role}", ".n") for role in "aor")
    [expected] = [w.text for w in phrase.target if w.mention.endswith(".r")]
    return Item(number, pronoun, Entity(entity), Entity(other), expected=expected)
