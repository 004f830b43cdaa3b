"""The toy corpus's gold, derived a second time by changing the sentence's content.

A document is generated again from the same dice, with one choice of one sentence changed just
before it is rendered: a lexeme for a made-up one, a gender, a case, a tense... The words that come
out differently are compared. A source or earlier target word decides a target word if the choice is
made or shown by the one and the other comes out differently. Of the grammar's bookkeeping no
feature is read; a word's `key` only finds the verbs of a clause, whose number changes with the
tense, and what an ellipsis repeats.

Who makes a choice is listed here: a lexeme's words make its gender, person, auxiliary and the case
of its object; an article makes definiteness, a pronoun whom it means, a finite verb the tense. On
the source side what follows from another word shows nothing: `sees` not the person, `see` in `can
see` not the tense. On the target side a word shows gender, case, person and address if its form
changes.

What the derivation cannot see: words without an alternative (FRAME, `is`, verbs of saying, `does`
of an ellipsis), which stand here by name; word order but for the place of the finite verb; what
comes out differently only if two choices change together; other sentences of the document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import product
from typing import Any

import pytest

from xnmt_bench.corpora.sentence import Gold
from xnmt_bench.corpora.toy.grammar import (
    Clause,
    Ellipsis,
    NounPhrase,
    Phrase,
    Property,
    Vocative,
    Word,
    gold,
)
from xnmt_bench.corpora.toy.lexicon import Dice, Verb
from xnmt_bench.corpora.toy.sentences import Document

DOCUMENTS = 75
FRAME = {"und": "and", "auch": "too", "dass": "that", "weil": "because", ".": ".", "?": "?"}
OTHER_CASE = {"nominative": "accusative", "accusative": "nominative"}
GENDERS, PERSONS, TENSES = ("m", "f", "n"), ("third", "du", "Sie"), ("present", "perfect", "can")

Places = set[int]
Both = tuple[Places, Places]  # of the source, of the target
Wanted = Callable[[Any, str], bool]  # of a part, and the field that it is of the part around it


@dataclass
class Change:
    """What is different when a document is generated again.

    Attributes:
        part: what is rendered instead of a part.
        case: the id of the noun phrase that gets the other case.
        person: the id of a noun phrase, and the person that its verb takes it for.
    """

    part: Callable[[Any, str], Any] = lambda part, role: part
    case: str = ""
    person: tuple[str, str] = ("", "")


@dataclass
class Scene:
    """A generated sentence, the parts it was rendered from, and how it would be otherwise."""

    phrase: Phrase
    parts: list[Any]
    again: Callable[[Change], Phrase]

    @property
    def gold(self) -> Gold:
        return gold(self.phrase.source, self.phrase.target)


class Stage:
    """Generates documents, unchanged or with a change."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._change, self._inside, self._parts = Change(), False, list[Any]()
        for kind in (Clause, Ellipsis, NounPhrase, Property, Vocative):
            monkeypatch.setattr(kind, "render", self._hooked(kind.render))
        person_of = NounPhrase.person.fget

        def person(phrase: NounPhrase) -> str:
            name, other = self._change.person
            return other if phrase.id == name else person_of(phrase)

        monkeypatch.setattr(NounPhrase, "person", property(person))

    def _hooked(self, render: Callable[..., Phrase]) -> Callable[..., Phrase]:
        def changed(part: Any, *case: str) -> Phrase:
            if isinstance(part, NounPhrase) and part.id == self._change.case:
                case = (OTHER_CASE[case[0]],)
            if self._inside:
                return render(part, *case)
            self._parts.append(part)
            self._inside = True
            phrase = render(deep(part, self._change.part), *case)
            self._inside = False
            return phrase

        return changed

    def scenes(self, number: int, change: Change | None = None) -> Iterator[Scene]:
        self._change = change or Change()
        document = Document(Dice("toy", 0, "train", number), "a document")
        for position, phrase in enumerate(document.phrases()):
            yield Scene(phrase, self._parts[:], self._again(number, position))
            self._parts.clear()

    def _again(self, number: int, position: int) -> Callable[[Change], Phrase]:
        def again(change: Change) -> Phrase:
            return next(
                s for n, s in enumerate(self.scenes(number, change)) if n == position
            ).phrase

        return again


def deep(part: Any, change: Callable[[Any, str], Any], role: str = "") -> Any:
    """A part changed, and all that it is made of."""
    part = change(part, role)
    inner = {f.name: getattr(part, f.name) for f in fields(part)}
    return replace(part, **{n: deep(p, change, n) for n, p in inner.items() if is_dataclass(p)})


def named(name: str, *kinds: type) -> Wanted:
    """Parts by their id; not a noun phrase again where it owns something."""
    return lambda part, role: (
        isinstance(part, kinds) and getattr(part, "id", "") == name and role != "owner"
    )


def made_up(text: str) -> str:
    """Other words, as many; the first letter, which decides on `a` or `an`, is the same."""
    return " ".join(f"{w[0]}x{w[1:]}" for w in text.split())


def made_up_pair(name: str, pair: tuple[str, str]) -> list[dict[str, Any]]:
    """A pair of words, made up on the source side, and on the target side."""
    english, german = pair
    return [{name: (made_up(english), german)}, {name: (english, made_up(german))}]


def made_up_verb(verb: Verb) -> list[dict[str, Any]]:
    names = [f.name for f in fields(Verb) if f.name != "auxiliary"]
    return [
        {"verb": replace(verb, **{name: made_up(getattr(verb, name)) for name in forms})}
        for forms in (names[:3], names[3:])
    ]


def differing(before: list[Word], after: list[Word]) -> Places:
    return {n for n, (a, b) in enumerate(zip(before, after, strict=True)) if a.text != b.text}


class Derivation:
    """The gold of one sentence.

    Attributes:
        words: of either side.
        source, prefix: for each target word what decides it.
        sure: (source word, target word) links.
        possible: those beside them.
    """

    def __init__(self, scene: Scene) -> None:
        self.scene, self._x, self._y = scene, scene.phrase.source, scene.phrase.target
        self.words = [w.text for w in self._x], [w.text for w in self._y]
        self.source, self.prefix = ([set[int]() for _ in self._y] for _ in range(2))
        self._lexemes, self._function = list[Both](), list[Both]()
        self._called, self.possible = list[Both](), set[tuple[int, int]]()
        # What an ellipsis leaves out on the source side.
        self._repeated = self._keyed(self._y, "does") | self._keyed(self._y, "does", "possible")
        for part in scene.parts:
            {Clause: self._clause, Ellipsis: self._ellipsis, NounPhrase: self._speaker,
             Property: self._property, Vocative: self._vocative}[type(part)](part)  # fmt: skip
        inner = [getattr(p, name, None) for p in scene.parts for name in ("subject", "object")]
        noun_phrases = [p for p in [*scene.parts, *inner] if isinstance(p, NounPhrase)]
        for phrase in {p.id: p for p in noun_phrases}.values():
            self._phrase(phrase)
        self._frame()
        lexical = set[int]().union(*(target for _, target in self._lexemes))
        self.sure = {
            link
            for words, excluded in ((self._lexemes, set[int]()), (self._function, lexical))
            for source, target in words
            for link in product(source, target - excluded - self._repeated)
        } | set(product(self._does(), self._repeated & lexical))
        self.possible |= set(product(self._does(), self._repeated - lexical))

    # What differs ----------------------------------------------------------------------------

    def _decide(self, source: Places, prefix: Places, decided: Places) -> None:
        for j in decided:
            self.source[j] |= source
            self.prefix[j] |= {k for k in prefix if k < j}

    def _made(self, by: Both, decided: Places, shown: bool = True) -> None:
        """A choice was made by words, and shown by all that differ with it on the target side."""
        self._decide(by[0], by[1] | decided if shown else by[1], decided)

    def _otherwise(self, is_changed: Wanted, **values: Any) -> Phrase:
        return self.scene.again(
            Change(lambda part, role: replace(part, **values) if is_changed(part, role) else part)
        )

    def _differing(self, after: Phrase) -> Both:
        return differing(self._x, after.source), differing(self._y, after.target)

    def _lexeme(self, is_changed: Wanted, values: list[dict[str, Any]]) -> Both:
        """Where the words of a lexeme are, which is made up on one side and then on the other."""
        english, german = (self._differing(self._otherwise(is_changed, **v)) for v in values)
        assert not english[1] and not german[0]
        words = english[0], german[1]
        self._made(words, words[1])
        self._lexemes.append(words)
        return words

    @staticmethod
    def _keyed(words: list[Word], key: str, field: str = "key") -> Places:
        return {n for n, w in enumerate(words) if getattr(w, field) == key}

    # Clauses ---------------------------------------------------------------------------------

    def _clause(self, clause: Clause) -> None:
        this = named(clause.id, Clause)
        verb = self._lexeme(named(clause.id, Clause, Ellipsis), made_up_verb(clause.verb))
        other = {"haben": "sein", "sein": "haben"}[clause.verb.auxiliary]
        after = self._otherwise(this, verb=replace(clause.verb, auxiliary=other))
        self._made(verb, self._differing(after)[1])
        if clause.object:
            self._case(clause.object, verb)
        if clause.adverb:
            self._lexeme(this, made_up_pair("adverb", clause.adverb))
        source, target = self._verbs(self.scene.phrase, clause)
        finite = {source[0]}, {target[0]}
        for tense in TENSES:
            after = self._otherwise(this, tense=tense)
            pairs = zip(target, self._verbs(after, clause)[1], strict=False)
            differ = {j for j, k in pairs if self._y[j].text != after.target[k].text}
            self._made(finite, differ, shown=False)
        if clause.tense != "present":
            self._function.append(finite)
        elif clause.order == "question":
            self.possible.add((source[0], target[0]))
        if clause.order == "question":
            self._order(clause, (finite[0], set()))
        elif clause.order == "subordinate":
            self._order(clause, self._pair("that", "dass"))

    def _verbs(self, phrase: Phrase, clause: Clause | Property) -> list[list[int]]:
        """The verbs of a clause, of either side, the finite one first."""
        keys = [f"{clause.id}.h", f"{clause.id}.v"]
        source, target = (
            sorted(self._keyed(words, keys[0]) | self._keyed(words, keys[1]))
            for words in (phrase.source, phrase.target)
        )
        return [source, target[::-1] if clause.order == "subordinate" else target]

    def _order(self, clause: Clause | Property, by: Both) -> None:
        """The finite verb's place and form, as against those in a statement."""
        main = self._otherwise(named(clause.id, type(clause)), order="main")
        here = self._verbs(self.scene.phrase, clause)[1][0]
        there = self._verbs(main, replace(clause, order="main"))[1][0]
        if (here, self._y[here].text) != (there, main.target[there].text):
            self._made(by, {here})

    def _property(self, prop: Property) -> None:
        self._lexeme(named(prop.id, Property), made_up_pair("adjective", prop.adjective))
        [source], [target] = self._verbs(self.scene.phrase, prop)
        self._made(({source}, {target}), {target})
        self._function.append(({source}, {target}))
        if prop.order == "subordinate":
            self._order(prop, self._pair("because", "weil"))

    def _ellipsis(self, ellipsis: Ellipsis) -> None:
        """`does` stands for all that the target repeats, of which its finite verb is the first."""
        if not any(isinstance(part, Clause) for part in self.scene.parts):
            self._lexeme(named(ellipsis.id, Ellipsis), made_up_verb(ellipsis.verb))
        self._decide(self._does(), {min(self._repeated)}, self._repeated)

    def _does(self) -> Places:
        x = self.words[0]
        return {x.index("too") - 1} if "too" in x else set()

    # Noun phrases ----------------------------------------------------------------------------

    def _phrase(self, phrase: NounPhrase) -> None:
        this = named(phrase.id, NounPhrase)
        if phrase.form == "you":
            head = self._you(phrase)
        elif phrase.form == "pronoun":
            changes = [self._otherwise(this, gender=g, sex=g) for g in GENDERS]
            head = self._united(changes)
            self._made(head, head[1])
            self._function.append(head)
        else:
            english, german = made_up(phrase.english), made_up(phrase.german)
            head = self._lexeme(this, [{"english": english}, {"german": german}])
        self._gender(phrase, (set(), set()) if phrase.form == "pronoun" else head)
        if phrase.form not in ("you", "pronoun", "name"):
            self._article(phrase, this)
        if phrase.adjective and phrase.form != "pronoun":
            self._lexeme(this, made_up_pair("adjective", phrase.adjective))
        for person in PERSONS:
            after = self.scene.again(Change(person=(phrase.id, person)))
            self._made(head, differing(self._y, after.target))
        if phrase in self.scene.parts:
            self._made(head, self._keyed(self._y, "say"), shown=False)
        self._case(phrase, (set(), set()))

    def _united(self, changes: list[Phrase]) -> Both:
        differ = [self._differing(after) for after in changes]
        return set().union(*(x for x, _ in differ)), set().union(*(y for _, y in differ))

    def _gender(self, phrase: NounPhrase, head: Both) -> None:
        """Every phrase of the sentence about a person or thing, owned things included."""
        for gender in GENDERS:
            after = self._otherwise(
                lambda p, _: isinstance(p, NounPhrase) and p.chain == phrase.chain, gender=gender
            )
            self._made(head, differing(self._y, after.target))

    def _case(self, phrase: NounPhrase, by: Both) -> None:
        after = self.scene.again(Change(case=phrase.id))
        self._made(by, differing(self._y, after.target))

    def _article(self, phrase: NounPhrase, this: Wanted) -> None:
        changes = [self._otherwise(this, form=form) for form in ("definite", "indefinite")]
        if phrase.owner:
            owners = [replace(phrase.owner, gender=g, sex=g) for g in GENDERS]
            changes += [self._otherwise(this, owner=owner) for owner in owners]
        for after in changes:
            source, target = self._differing(after)
            self._made((source, target), target)
        self._function.append(self._united(changes))

    def _speaker(self, speaker: NounPhrase) -> None:
        says = self._keyed(self._x, "say"), self._keyed(self._y, "say")
        self._made(says, says[1])
        self._function.append(says)

    # The reader, and words that are always the same ------------------------------------------

    def _you(self, phrase: NounPhrase) -> Both:
        head = self._pair("you", phrase.address)
        self._made(head, head[1])
        self._function.append(head)
        # The vocative's first word is a title, or a first name without one.
        first = self._called[0] if self._called else (set(), set())
        for address in ("du", "Sie"):
            after = self._otherwise(named(phrase.id, NounPhrase), address=address)
            self._made(first, differing(self._y, after.target))
        return head

    def _vocative(self, called: Vocative) -> None:
        english, german = called.english.split(), called.german.split()
        for n in range(len(english)):
            sides = (
                " ".join(made_up(w) if n == i else w for i, w in enumerate(words))
                for words in (english, german)
            )
            values = [{name: text} for name, text in zip(("english", "german"), sides, strict=True)]
            self._called.append(self._lexeme(lambda p, _: isinstance(p, Vocative), values))

    def _pair(self, english: str, german: str) -> Both:
        return {self.words[0].index(english)}, {self.words[1].index(german)}

    def _frame(self) -> None:
        x, y = self.words
        pairs = [self._pair(e, g) for g, e in FRAME.items() if g in y]
        if "," in y:
            pairs += [self._pair(next(w for w in (",", "that", "because") if w in x), ",")]
        for pair in pairs:
            self._made(pair, pair[1])
        # The comma of a clause has no counterpart.
        self._function += pairs if "," in x or "," not in y else pairs[:-1]


@pytest.fixture(scope="module")
def derivations() -> list[Derivation]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        stage = Stage(monkeypatch)
        scenes = [scene for n in range(DOCUMENTS) for scene in stage.scenes(n)]
        return [Derivation(scene) for scene in scenes]


def test_the_derivation_meets_everything_the_grammar_says(derivations):
    assert len(derivations) > 300
    used = {w for d in derivations for side in d.words for w in side}
    assert used >= {"his", "its", "mr", "mrs", "du", "Sie", "too", "does", "can", "because", "that"}
    assert used >= {*FRAME, "seinen", "ihr", "ihn", "einen", "den", "kann", "hat", "hast"}


def test_deciding_words_are_those_of_the_derivation(derivations):
    for d in derivations:
        assert list(d.scene.gold.deciding_source) == d.source, d.words
        assert list(d.scene.gold.deciding_prefix) == d.prefix, d.words


def test_links_are_those_of_the_derivation(derivations):
    for d in derivations:
        assert d.scene.gold.sure == d.sure, d.words
        assert d.scene.gold.possible == d.sure | d.possible, d.words
