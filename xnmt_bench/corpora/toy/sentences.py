"""The toy corpus: small generated documents with exact gold, the same on every platform.

Its numbers are called *generated* wherever they are shown. What makes it hard is what makes
translation hard: agreement with a gender that another word carries, case, verb-final clauses,
separable verbs, formal and informal address, ellipsis, pronouns whose antecedent may be a sentence
away, and names that two writers spell differently.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from xnmt_bench.corpora.exchange.substitutes import BothSides
from xnmt_bench.corpora.sentence import Corpus, Sentence, Split
from xnmt_bench.corpora.toy.categories import toy_substitutes
from xnmt_bench.corpora.toy.grammar import (
    Clause,
    Ellipsis,
    NounPhrase,
    Phrase,
    Property,
    Vocative,
    gold,
    word,
)
from xnmt_bench.corpora.toy.lexicon import Dice, Name, Noun, Verb, lexicon
from xnmt_bench.options import Count, Seed, Text

VERSION = 2  # raise it when the same seed gives other sentences or another gold
READER = "reader"  # the coreference chain of who is addressed
# Kept beyond a corpus, since each job of a sweep opens its own. One at a time, since it is large.
_training_texts: dict[str, TrainingTexts] = {}
STOP, QUESTION = (Phrase(word(m, "end", "end"), word(m, "end", "end", "end")) for m in ".?")
AND = Phrase(word("and", "and", "and"), word("und", "and", "and", "and"))


class ToyCorpus(Corpus):
    """Generated English and German-like documents.

    No test pair is in the training split. A test document in which one does is left out whole
    and another drawn in its place, so the context of every sentence is there and the count is kept.

    Args:
        seed: another seed is another corpus.
        train, valid, test: numbers of sentences.
        name: the corpus's name in results.
    """

    generated = True
    source_language = "en"
    target_language = "de"

    def __init__(
        self,
        seed: Seed = 0,
        train: Count = 8000,
        valid: Count = 500,
        test: Count = 1000,
        name: Text = "toy",
    ) -> None:
        self.name, self._seed = name, seed
        self._sizes = {"train": train, "valid": valid, "test": test}

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Stream the split; a document's draws depend on nothing but its number.

        The first test document waits for the training split, whose pairs are then remembered.
        """
        sentences_left, number = self._sizes[split], 0
        while sentences_left > 0:
            document = self._document(split, number)
            phrases = list(document.phrases())
            number += 1
            # A pair that was trained on would be remembered and not translated.
            if split == "test" and any(self._is_trained(phrase) for phrase in phrases):
                continue
            # The last document is cut, so that the count is exact.
            for position, phrase in enumerate(phrases[:sentences_left]):
                annotation = gold(phrase.source, phrase.target)
                yield Sentence(*phrase.texts, document.name, position, annotation)
            sentences_left -= len(phrases)

    def _document(self, split: Split, number: int) -> Document:
        return Document(Dice("toy", self._seed, split, number), f"{split}-{number}")

    def _is_trained(self, phrase: Phrase) -> bool:
        """Return whether the training split holds a sentence with its translation."""
        # A split of another size is the same sentences, and more or fewer of them.
        recipe = {n: value for n, value in self.recipe().items() if n not in self._sizes}
        key = json.dumps(recipe, sort_keys=True)
        if key not in _training_texts:
            _training_texts.clear()
            _training_texts[key] = TrainingTexts(partial(self._document, "train"))
        return _training_texts[key].hold(phrase.texts, self._sizes["train"])

    def substitutes(self) -> BothSides:
        """Return the grammar's categories."""
        return toy_substitutes()

    def recipe(self, split: Split | None = None) -> dict[str, Any]:
        """Return the seed, the sizes and the version of the generator."""
        # A test document waits for the training split.
        read = {"train", "test"} if split == "test" else {split}
        sizes = {name: n for name, n in self._sizes.items() if split is None or name in read}
        return {"kind": "toy", "seed": self._seed, "version": VERSION, **sizes}


class TrainingTexts:
    """Remembers where in an endless training split each pair of sentences first stands.

    Args:
        document: makes the document of a number.
    """

    def __init__(self, document: Callable[[int], Document]) -> None:
        self._document, self._documents, self._sentences = document, 0, 0
        self._places: dict[tuple[str, str], int] = {}

    def hold(self, texts: tuple[str, str], sentences: int) -> bool:
        """Return whether a pair stands among the first sentences."""
        while self._sentences < sentences:
            phrases = list(self._document(self._documents).phrases())
            for place, phrase in enumerate(phrases, self._sentences):
                self._places.setdefault(phrase.texts, place)
            # Counted last: what is interrupted is read once more, and finds the same places.
            self._documents += 1
            self._sentences += len(phrases)
        return self._places.get(texts, sentences) < sentences


class Document:
    """One document: a small cast, an addressee, and what happens to them.

    The order of the draws decides the sentences: moving a draw makes another corpus.
    """

    def __init__(self, dice: Dice, name: str) -> None:
        self._dice, self.name, self._words = dice, name, lexicon()
        self._spelling: dict[str, str] = {}
        self._people = [self._person(0), self._person(1)]
        # Two people of one noun could not be told apart by it.
        while self._people[0].english == self._people[1].english:
            self._people[1] = self._person(1)
        nouns = {dice.pick(self._words.objects) for _ in range(3)}
        # A set has another order in every process.
        things_in_order = enumerate(sorted(nouns, key=str))
        self._things = [_noun_phrase(noun, f"thing{n}") for n, noun in things_in_order]
        # Drawn once: a document addresses its reader in one way.
        self._address = dice.pick(("du", "Sie"))
        if self._address == "du":
            first_name = dice.pick(self._words.names)
            self._addressee = Vocative(first_name.english, self._spelled(first_name), READER)
        else:
            english, german = dice.pick(self._words.surnames)
            mr_or_mrs = ((f"mr {english}", f"Herr {german}"), (f"mrs {english}", f"Frau {german}"))
            self._addressee = Vocative(*dice.pick(mr_or_mrs), READER)
        self._seen: set[str] = set()
        self._last_verb: Verb | None = None
        self._count = 0

    def _person(self, n: int) -> NounPhrase:
        if not self._dice.chance(0.4):
            return _noun_phrase(self._dice.pick(self._words.people), f"person{n}")
        name = self._dice.pick(self._words.names)
        german = self._spelled(name)
        return NounPhrase("", f"person{n}", name.english, german, name.sex, name.sex, form="name")

    def _spelled(self, name: Name) -> str:
        """Return a name's spelling, kept through the document: lexical cohesion."""
        drawn = self._dice.pick(name.spellings)  # also where it is known: draws stay in step
        return self._spelling.setdefault(name.english, drawn)

    def phrases(self) -> Iterator[Phrase]:
        """Yield three to seven sentences."""
        for _ in range(self._dice.pick((3, 4, 5, 6, 7))):
            # Repeated entries are weights of the draw.
            kinds = [self._statement] * 6 + [self._report, self._reason] * 3
            kinds += [self._question, self._address_reader, self._property, self._coordination] * 2
            if self._last_verb:  # or there is nothing to leave out
                kinds.append(self._elliptical)
            yield self._dice.pick(kinds)()

    # Who and what -------------------------------------------------------------------------

    def _refer(self, entity: NounPhrase, pronoun: float = 0.3) -> NounPhrase:
        """Return the next mention of an entity: a pronoun or a noun phrase."""
        dice = self._dice
        self._count += 1
        phrase = replace(entity, id=f"{entity.chain}.{self._count}")
        # A pronoun needs a mention before it.
        mentioned = entity.chain in self._seen
        if mentioned and dice.chance(pronoun):
            phrase.form = "pronoun"
        elif entity.form != "name":
            phrase.form = "definite" if mentioned else dice.pick(("definite", "indefinite"))
            if dice.chance(0.35):
                phrase.adjective = dice.pick(self._words.adjectives)
        self._seen.add(entity.chain)
        return phrase

    def _object_of(self, subject: NounPhrase) -> NounPhrase:
        noun_phrase = self._refer(self._dice.pick(self._things), pronoun=0.25)
        if noun_phrase.chain == subject.chain:  # subject and object differ
            # A noun, so that subject and object differ.
            noun_phrase = self._refer(self._dice.pick(self._people), pronoun=0)
        owned = noun_phrase.form != "pronoun" and subject.form != "you" and self._dice.chance(0.15)
        if owned and noun_phrase.form != "name":
            noun_phrase.form, noun_phrase.owner = "possessive", subject
        return noun_phrase

    def _clause(self, subject: NounPhrase, order: str = "main") -> Clause:
        dice, words = self._dice, self._words
        self._count += 1
        transitive = dice.chance(0.65)
        verb = dice.pick(words.transitive if transitive else words.intransitive)
        self._last_verb = verb  # a later sentence may leave it out
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
        # Mostly people: few things act.
        return self._refer(self._dice.pick(self._people + self._things[:1]))

    # Clauses -----------------------------------------------------------------------------

    def _statement(self) -> Phrase:
        return self._clause(self._anyone()).render() + STOP

    def _question(self) -> Phrase:
        return self._clause(self._anyone(), "question").render() + QUESTION

    def _address_reader(self) -> Phrase:
        """Return a clause about the reader, who may be called by name."""
        order = self._dice.pick(("main", "question"))
        self._count += 1
        reader = NounPhrase(f"you{self._count}", READER, form="you", address=self._address)
        phrase = self._clause(reader, order).render()
        if self._dice.chance(0.6):
            comma = Phrase(word(",", "comma", "comma"), word(",", "comma", "", "comma"))
            called, first = self._addressee.render(), self._dice.chance(0.5)
            phrase = called + comma + phrase if first else phrase + comma + called
        return phrase + (QUESTION if order == "question" else STOP)

    def _report(self) -> Phrase:
        """Return a main clause with an object clause, verb-final on the target side."""
        speaker = self._refer(self._people[0])
        saying = self._dice.pick((("knows", "weiß"), ("says", "sagt"), ("thinks", "denkt")))
        inner = self._clause(self._refer(self._people[1]), "subordinate")
        knows = Phrase(
            word(saying[0], "say", "say"), word(saying[1], "say", "", f"say {speaker.agreement}")
        )
        that = self._conjunction("that", "dass", inner.id)
        return speaker.render("nominative") + knows + that + inner.render() + STOP

    def _reason(self) -> Phrase:
        """Return a main clause and its reason, with a pronoun that goes back to the subject."""
        subject = self._anyone()
        main = self._clause(subject).render()
        # Of the same chain, so that its gender is decided by the first mention.
        again = replace(subject, id=f"{subject.id}r", form="pronoun", adjective=None)
        so, adjective = f"{subject.id}.so", self._dice.pick(self._words.adjectives)
        reason = Property(so, again, adjective, "subordinate").render()
        return main + self._conjunction("because", "weil", so) + reason + STOP

    def _conjunction(self, english: str, german: str, clause: str) -> Phrase:
        """Return a comma, which English leaves out, and a word that puts the finite verb last."""
        key, carries = f"{clause}.w", f"{clause}.clause"
        comma, subordinator = word(",", needs=key), word(german, key, carries, key)
        return Phrase(word(english, key, f"{key} {carries}"), comma + subordinator)

    def _property(self) -> Phrase:
        subject = self._refer(self._dice.pick(self._people + self._things), pronoun=0.5)
        subject.adjective = None  # `the old dog is old` would repeat itself
        return Property("is", subject, self._dice.pick(self._words.adjectives)).render() + STOP

    def _coordination(self) -> Phrase:
        """Return two coordinated clauses; English drops the second verb."""
        first = self._clause(self._refer(self._people[0]))
        # `does too` repeats verb and object in the present.
        first.tense, first.fronted, first.adverb = "present", False, None
        subject = self._refer(self._people[1], pronoun=0)
        tail = Ellipsis(first.id, subject, first.verb, first.object)
        return first.render() + AND + tail.render() + STOP

    def _elliptical(self) -> Phrase:
        """Return an ellipsis whose verb is in the sentence before."""
        assert self._last_verb
        self._count += 1
        clause, verb = f"c{self._count}", self._last_verb
        subject = self._refer(self._dice.pick(self._people), pronoun=0)
        return Ellipsis(clause, subject, verb).render() + STOP


def _noun_phrase(noun: Noun, chain: str) -> NounPhrase:
    return NounPhrase("", chain, noun.english, noun.german, noun.gender, noun.sex)
