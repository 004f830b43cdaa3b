"""Which words of the toy corpora may replace each other.

Words of one kind in one form: a masculine noun for a masculine noun, an adjective in -en for one in
-en. Function words, such as articles, have no substitute: another form would be another sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from xnmt_bench.corpora.exchange.substitutes import BothSides, Substitutes, by_key, translations_of
from xnmt_bench.corpora.toy.lexicon import Verb, lexicon

ENDINGS = ("", "e", "er", "en", "es", "em")  # of adjectives; the first is the predicate's
SAYING, GERMAN_SAYING = ("knows", "says", "thinks"), ("weiß", "sagt", "denkt")


@cache
def toy_substitutes() -> BothSides:
    """Return the categories of both sides."""
    return BothSides(
        Substitutes(_english()), Substitutes(_german()), translations_of(_translations())
    )


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
    yield [*SAYING]


def _german() -> Iterator[list[str]]:
    words = lexicon()
    for nouns in (words.objects, (*words.people, *words.epicenes)):
        yield from by_key((noun.gender, noun.german) for noun in nouns).values()
    for verbs in (words.transitive, words.intransitive):
        yield from map(list, zip(*map(_german_forms, verbs), strict=True))
    for ending in ENDINGS:
        yield [_inflect(german, ending) for _, german in words.adjectives]
    yield [german for _, german in words.adverbs]
    yield [spelling for name in words.names for spelling in name.spellings]
    yield [german for _, german in words.surnames]
    yield [*GERMAN_SAYING]


def _german_forms(verb: Verb) -> list[str]:
    forms = [verb.finite_third, verb.finite_second, verb.infinitive, verb.bare_infinitive]
    return [*forms, verb.german_participle, verb.particle + verb.finite_third]


def _inflect(adjective: str, ending: str) -> str:
    return (adjective.removesuffix("e") if ending else adjective) + ending


def _translations() -> Iterator[tuple[str, str]]:
    """Yield English and German words of one meaning, each form with each.

    The category of the word that is replaced has one form, and so picks the right one.
    """
    words = lexicon()
    for noun in (*words.objects, *words.people, *words.epicenes):
        yield noun.english, noun.german
    for verb in (*words.transitive, *words.intransitive):
        for english in (verb.third, verb.base, verb.participle):
            yield from ((english, german) for german in _german_forms(verb))
    for english, german in words.adjectives:
        yield from ((english, _inflect(german, ending)) for ending in ENDINGS)
    yield from (*words.adverbs, *words.surnames)
    for name in words.names:
        yield from ((name.english, spelling) for spelling in name.spellings)
    yield from zip(SAYING, GERMAN_SAYING, strict=True)
