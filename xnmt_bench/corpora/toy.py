"""The toy corpus: small generated documents with exact gold, the same on every platform.

Its numbers are called *generated* wherever they are shown. What makes it hard is what makes
translation hard: agreement with a gender that another word carries, case, verb-final clauses,
separable verbs, formal and informal address, ellipsis, pronouns whose antecedent may be a sentence
away, and names that two writers spell differently.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from xnmt_bench.corpora.sentence import Corpus, Sentence, Split
from xnmt_bench.corpora.toy_grammar import Clause, NounPhrase, Phrase, gold, word
from xnmt_bench.corpora.toy_lexicon import Dice, Lexicon, Name, Noun, Verb, lexicon

VERSION = 1  # raise it when the same seed gives other sentences


class ToyCorpus(Corpus):
    """Generated English and German-like documents.

    Args:
        seed: another seed is another corpus.
        train: number of training sentences.
        valid: number of validation sentences.
        test: number of test sentences.
        name: the corpus's name in results.
    """

    generated = True
    source_language = "en"
    target_language = "de"

    def __init__(
        self,
        seed: int = 0,
        train: int = 8000,
        valid: int = 500,
        test: int = 1000,
        name: str = "toy",
    ) -> None:
        self.name = name
        self._seed = seed
        self._sizes = {"train": train, "valid": valid, "test": test}

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Streams the split; a document's draws depend on nothing but its number."""
        left, number = self._sizes[split], 0
        while left > 0:
            document = Document(Dice("toy", self._seed, split, number), f"{split}-{number}")
            for sentence in document.sentences()[:left]:
                yield sentence
                left -= 1
            number += 1

    def recipe(self) -> dict[str, Any]:
        """The seed, the sizes and the version of the generator."""
        return {"kind": "toy", "seed": self._seed, "version": VERSION, **self._sizes}


class Document:
    """One document: a small cast, an addressee, and what happens to them."""

    def __init__(self, dice: Dice, name: str) -> None:
        self._dice, self._name = dice, name
        words = self._words = lexicon()
        self._spelling: dict[str, str] = {}
        self._people = [self._person(words, 0), self._person(words, 1)]
        while self._people[0].english == self._people[1].english:
            self._people[1] = self._person(words, 1)
        things = {dice.pick(words.things) for _ in range(3)}
        self._things = [
            _noun_phrase(noun, f"thing{n}") for n, noun in enumerate(sorted(things, key=str))
        ]
        self._address = dice.pick(("du", "Sie"))
        self._addressee = self._vocative_words()
        self._seen: set[str] = set()
        self._last_verb: Verb | None = None
        self._count = 0

    def _person(self, words: Lexicon, n: int) -> NounPhrase:
        if self._dice.chance(0.4):
            name = self._dice.pick(words.names)
            german = self._spelled(name)
            return NounPhrase(
                "", f"person{n}", name.english, german, name.sex, name.sex, form="name"
            )
        return _noun_phrase(self._dice.pick(words.people), f"person{n}")

    def _spelled(self, name: Name) -> str:
        """A name's spelling, kept through the document: lexical cohesion."""
        drawn = self._dice.pick(name.spellings)
        return self._spelling.setdefault(name.english, drawn)

    def _vocative_words(self) -> tuple[str, str]:
        if self._address == "du":
            name = self._dice.pick(self._words.names)
            return name.english, self._spelled(name)
        english, german = self._dice.pick(self._words.surnames)
        return self._dice.pick(
            ((f"mr {english}", f"Herr {german}"), (f"mrs {english}", f"Frau {german}"))
        )

    def sentences(self) -> list[Sentence]:
        """Three to seven sentences."""
        length = self._dice.pick((3, 4, 5, 6, 7))
        return [self._sentence(position) for position in range(length)]

    def _sentence(self, position: int) -> Sentence:
        kinds = [self._statement] * 6 + [self._report, self._reason] * 3
        kinds += [self._question, self._address_reader, self._property, self._coordination] * 2
        if self._last_verb:
            kinds.append(self._elliptical)
        phrase = self._dice.pick(kinds)()
        return Sentence(
            " ".join(w.text for w in phrase.source),
            " ".join(w.text for w in phrase.target),
            self._name,
            position,
            gold(phrase.source, phrase.target),
        )

    # Who and what -------------------------------------------------------------------------

    def _refer(self, entity: NounPhrase, pronoun: float = 0.3) -> NounPhrase:
        """The entity as it is said next: a pronoun, or a noun phrase that may be described."""
        dice = self._dice
        self._count += 1
        phrase = replace(entity, id=entity.chain + f".{self._count}")
        if entity.chain in self._seen and dice.chance(pronoun):
            phrase.form = "pronoun"
        elif entity.form != "name":
            phrase.form = (
                "definite" if entity.chain in self._seen else dice.pick(("definite", "indefinite"))
            )
            if dice.chance(0.35):
                phrase.adjective = dice.pick(self._words.adjectives)
        self._seen.add(entity.chain)
        return phrase

    def _object_of(self, subject: NounPhrase) -> NounPhrase:
        thing = self._refer(self._dice.pick(self._things), pronoun=0.25)
        if thing.chain == subject.chain:
            thing = self._refer(self._dice.pick(self._people), pronoun=0)
        owned = thing.form != "pronoun" and subject.form != "you" and self._dice.chance(0.15)
        if owned and thing.form != "name":
            thing.form, thing.owner = "possessive", subject
        return thing

    def _clause(self, subject: NounPhrase, order: str = "main") -> Clause:
        dice, words = self._dice, self._words
        self._count += 1
        transitive = dice.chance(0.65)
        verb = dice.pick(words.transitive if transitive else words.intransitive)
        self._last_verb = verb
        adverb = dice.pick(words.adverbs) if dice.chance(0.4) else None
        return Clause(
            f"c{self._count}",
            subject,
            verb,
            self._object_of(subject) if transitive else None,
            adverb,
            fronted=bool(adverb) and order == "main" and dice.chance(0.4),
            tense=dice.pick(("present", "present", "perfect", "can")),
            order=order,
        )

    def _anyone(self) -> NounPhrase:
        return self._refer(self._dice.pick(self._people + self._things[:1]))

    def _reader(self) -> NounPhrase:
        self._count += 1
        return NounPhrase(f"you{self._count}", "", form="you", address=self._address)

    # What is said -------------------------------------------------------------------------

    def _statement(self) -> Phrase:
        return _end(self._clause(self._anyone()).render(), ".")

    def _question(self) -> Phrase:
        return _end(self._clause(self._anyone(), "question").render(), "?")

    def _address_reader(self) -> Phrase:
        order = self._dice.pick(("main", "question"))
        phrase = self._clause(self._reader(), order).render()
        mark = "?" if order == "question" else "."
        if self._dice.chance(0.6):
            return _end(self._with_vocative(phrase), mark)
        return _end(phrase, mark)

    def _with_vocative(self, phrase: Phrase) -> Phrase:
        english, german = self._addressee
        source = word(english, "voc", "voc address")
        target = word(german, "voc", "voc address", "voc")
        comma = (word(",", "voc.comma", "voc.comma"), word(",", "voc.comma", "", "voc.comma"))
        if self._dice.chance(0.5):
            return Phrase(source + comma[0] + phrase.source, target + comma[1] + phrase.target)
        return Phrase(phrase.source + comma[0] + source, phrase.target + comma[1] + target)

    def _report(self) -> Phrase:
        """A main clause, and what somebody knows: verb-final on the target side."""
        speaker = self._refer(self._people[0]).render("nominative")
        saying = self._dice.pick((("knows", "weiß"), ("says", "sagt"), ("thinks", "denkt")))
        inner = self._clause(self._refer(self._people[1]), "subordinate")
        rest = inner.render()
        c, subject = inner.id, speaker.source[-1]
        person = " ".join(f for f in subject.carries if f.endswith(".person"))
        return _end(
            Phrase(
                speaker.source
                + word(saying[0], "say", "say")
                + word("that", "that", f"{c}.clause")
                + rest.source,
                speaker.target
                + word(saying[1], "say", "say", f"say {person}")
                + word(",", "", f"{c}.clause", f"{c}.clause")
                + word("dass", "that", f"{c}.clause", f"{c}.clause")
                + rest.target,
            ),
            ".",
        )

    def _reason(self) -> Phrase:
        """A main clause and its reason, with a pronoun that goes back to the subject."""
        subject = self._anyone()
        main = self._clause(subject).render()
        pronoun = replace(subject, id=subject.id + "r", form="pronoun", adjective=None)
        again, prop = pronoun.render("nominative"), self._dice.pick(self._words.adjectives)
        self._count += 1
        c = f"r{self._count}"
        return _end(
            Phrase(
                main.source
                + word("because", f"{c}.w", f"{c}.clause")
                + again.source
                + word("is", f"{c}.is", f"{c}.is")
                + word(prop[0], f"{c}.j", f"{c}.adj"),
                main.target
                + word(",", "", f"{c}.clause", f"{c}.clause")
                + word("weil", f"{c}.w", f"{c}.clause", f"{c}.clause")
                + again.target
                + word(prop[1], f"{c}.j", f"{c}.adj", f"{c}.adj")
                + word("ist", f"{c}.is", "", f"{c}.is {c}.clause"),
            ),
            ".",
        )

    def _property(self) -> Phrase:
        subject = self._refer(self._dice.pick(self._people + self._things), pronoun=0.5)
        if subject.adjective:
            subject.adjective = None
        phrase, prop = subject.render("nominative"), self._dice.pick(self._words.adjectives)
        return _end(
            Phrase(
                phrase.source + word("is", "is", "is") + word(prop[0], "j", "adj"),
                phrase.target
                + word("ist", "is", "is", f"is {subject.id}.person")
                + word(prop[1], "j", "adj", "adj"),
            ),
            ".",
        )

    def _coordination(self) -> Phrase:
        """One does it and the other does too: English leaves the verb out, the target does not."""
        first = self._clause(self._refer(self._people[0]))
        first.tense, first.fronted, first.adverb = "present", False, None
        main, tail = first.render(), self._too(self._people[1], first.id, first.verb, first.object)
        return _end(
            Phrase(
                main.source + word("and", "and", "and") + tail.source,
                main.target + word("und", "and", "and", "and") + tail.target,
            ),
            ".",
        )

    def _elliptical(self) -> Phrase:
        """The same across a sentence boundary: the verb stands in the sentence before."""
        assert self._last_verb
        self._count += 1
        who = self._dice.pick(self._people)
        return _end(self._too(who, f"c{self._count}", self._last_verb, None), ".")

    def _too(self, who: NounPhrase, clause: str, verb: Verb, other: NounPhrase | None) -> Phrase:
        """`... does too`; `clause` carries the verb where this sentence has one."""
        subject = self._refer(who, pronoun=0)
        phrase = subject.render("nominative")
        again = Phrase()
        if other and other.chain != subject.chain:
            pronoun = replace(other, id=other.id + "t", form="pronoun", adjective=None)
            again.target = pronoun.render("accusative").target
            again.target = [
                replace(w, key="", possible="does", needs=w.needs | {"does"}) for w in again.target
            ]
        verb_needs = f"{clause}.lex does {subject.id}.person"
        return Phrase(
            phrase.source + word("does", "does", "does") + word("too", "too", "too"),
            phrase.target
            + word(verb.finite_third, "does", f"{clause}.lex does", verb_needs)
            + again.target
            + word("auch", "too", "too", "too")
            + word(verb.particle, "does", "", f"{clause}.lex does"),
        )


def _noun_phrase(noun: Noun, chain: str) -> NounPhrase:
    return NounPhrase("", chain, noun.english, noun.german, noun.gender, noun.sex)


def _end(phrase: Phrase, mark: str) -> Phrase:
    return Phrase(
        phrase.source + word(mark, "end", "end"), phrase.target + word(mark, "end", "end", "end")
    )
