"""Which words of the toy corpora may stand in each other's place.

Words of one kind in one form: a masculine noun for a masculine noun, an adjective in -en for one in
-en. Function words, such as articles, have no substitute: another form would be another sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from xnmt_bench.corpora.substitutes import BothSides, Substitutes, by_key
from xnmt_bench.corpora.toy.lexicon import lexicon

ENDINGS = ("", "e", "er", "en", "es", "em")  # of adjectives; the first is the predicate's


@cache
def toy_substitutes() -> BothSides:
    """Return the categories of both sides."""
    return BothSides(Substitutes(_english()), Substitutes(_german()))


def _english() -> Iterator[list[str]]:
    words = lexicon()
    for nouns in (words.objects, (*words.people, *words.epicenes)):
        yield [noun.english for noun in nouns]
    for verbs in (words.transitive, words.intransitive):
        for form in ("third", "base", "participle"):
            yield [getattr(verb, form) for verb in verbs]
    yield [english for english, _ in words.adjectives]
    yield [english for english, _ in words.adverbs]
    yield [name.english for name in words.names]
    yield [english for english, _ in words.surnames]
    yield ["knows", "says", "thinks"]


def _german() -> Iterator[list[str]]:
    words = lexicon()
    for nouns in (words.objects, (*words.people, *words.epicenes)):
        yield from by_key((noun.gender, noun.german) for noun in nouns).values()
    for verbs in (words.transitive, words.intransitive):
        for form in ("finite_third", "finite_second", "infinitive", "bare_infinitive",
                     "german_participle"):  # fmt: skip
            yield [getattr(verb, form) for verb in verbs]
        yield [verb.particle + verb.finite_third for verb in verbs]
    for ending in ENDINGS:
        stems = (german.removesuffix("e") if ending else german for _, german in words.adjectives)
        yield [stem + ending for stem in stems]
    yield [german for _, german in words.adverbs]
    yield [spelling for name in words.names for spelling in name.spellings]
    yield [german for _, german in words.surnames]
    yield ["weiß", "sagt", "denkt"]
