"""The words of the toy corpus, read from `lexicon.tsv`."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """Draws that come out the same on every platform and Python version.

    Only `random.random()` is promised to be reproducible across versions, so all is built on it.
    """

    def __init__(self, *seed: object) -> None:
        # A text seeds alike in every process; a hash of a tuple does not.
        self._random = random.Random("/".join(map(str, seed)))

    def pick(self, choices: tuple[T, ...] | list[T]) -> T:
        """Return one of the choices."""
        # Not `random.choice`, whose algorithm may change with Python.
        return choices[int(self._random.random() * len(choices))]

    def chance(self, probability: float) -> bool:
        """Return true with the given probability."""
        return self._random.random() < probability


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun; `sex` picks the English pronoun, `gender` everything on the target side."""

    english: str
    german: str
    gender: str
    sex: str = "n"


@dataclass(frozen=True, slots=True)
class Name:
    """A first name and its variant spellings on the target side."""

    english: str
    spellings: tuple[str, ...]
    sex: str


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb: English base, third person and participle; the German forms; auxiliary; particle."""

    base: str
    third: str
    participle: str
    infinitive: str
    finite_third: str
    finite_second: str
    german_participle: str
    auxiliary: str
    particle: str

    @property
    def bare_infinitive(self) -> str:
        """The infinitive without its particle, which is also the form for formal `Sie`."""
        return self.infinitive.removeprefix(self.particle)

    def finite(self, person: str) -> str:
        """Return the present tense for a third person, du or Sie, without the particle."""
        forms = {"third": self.finite_third, "du": self.finite_second}
        return forms.get(person, self.bare_infinitive)


@dataclass(frozen=True, slots=True)
class Lexicon:
    """All the words, by kind; adjectives, adverbs and surnames as (English, German).

    Epicenes are nouns of one gender for people of both sexes. Forms are articles, pronouns and
    endings by kind and case, and then by gender; those of auxiliaries are by person.
    """

    objects: tuple[Noun, ...]
    people: tuple[Noun, ...]
    epicenes: tuple[Noun, ...]
    names: tuple[Name, ...]
    surnames: tuple[tuple[str, str], ...]
    transitive: tuple[Verb, ...]
    intransitive: tuple[Verb, ...]
    adjectives: tuple[tuple[str, str], ...]
    adverbs: tuple[tuple[str, str], ...]
    forms: Mapping[str, Mapping[str, str]]
    auxiliaries: Mapping[str, Mapping[str, str]]


@lru_cache(maxsize=1)
def lexicon() -> Lexicon:
    """Read the lexicon once."""
    text = files("xnmt_bench.corpora.toy").joinpath("lexicon.tsv").read_text(encoding="utf-8")
    rows: dict[str, list[list[str]]] = {}
    for line in text.splitlines():
        kind, *fields = line.split("\t")
        # A dash holds the place of a missing particle or ending.
        rows.setdefault(kind, []).append([field.removeprefix("-") for field in fields])
    return Lexicon(
        objects=tuple(Noun(*row) for row in rows["noun"]),
        people=tuple(Noun(*row) for row in rows["person"]),
        epicenes=tuple(Noun(*row) for row in rows["epicene"]),
        names=tuple(Name(e, tuple(g.split()), sex) for e, g, sex in rows["name"]),
        surnames=tuple((e, g) for e, g in rows["surname"]),
        transitive=tuple(Verb(*row) for row in rows["transitive"]),
        intransitive=tuple(Verb(*row) for row in rows["intransitive"]),
        adjectives=tuple((e, g) for e, g in rows["adjective"]),
        adverbs=tuple((e, g) for e, g in rows["adverb"]),
        forms={name: dict(zip("mfn", forms, strict=True)) for name, *forms in rows["form"]},
        auxiliaries={
            name: dict(zip(("third", "du", "Sie"), forms, strict=True))
            for name, *forms in rows["auxiliary"]
        },
    )
