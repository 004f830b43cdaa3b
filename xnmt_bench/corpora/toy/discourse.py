"""Generated documents in which context decides, and mirrored contrastive sets of the same language.

Each document has one topic of Voita et al. (2019): how its reader is addressed (du or Sie), how a
name is spelled, the gender of what `it` refers to, or the verb that `does too` leaves out. What
decides stands up to three sentences back, and nothing in the current source sentence shows it.

The sets are mirrored: in a family of n groups the current source and its n variants are the same,
and the contexts make each variant the true one once. So a system that reads no context, or none in
which anything differs, is right in exactly 1/n of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import count, product
from typing import Any

from xnmt_bench.corpora.passage import Passage
from xnmt_bench.corpora.sentence import SIDES, Split, lang_pair
from xnmt_bench.corpora.suites.context.example import SENSITIVE, Example, ExampleSet
from xnmt_bench.corpora.suites.contrastive.group import Antecedent, ContrastiveSet, Group, Variant
from xnmt_bench.corpora.toy.grammar import (
    Clause,
    Ellipsis,
    NounPhrase,
    Phrase,
    Property,
    Word,
)
from xnmt_bench.corpora.toy.lexicon import Dice, Noun, Verb, lexicon
from xnmt_bench.corpora.toy.sentences import STOP, ToyCorpus
from xnmt_bench.options import Count, Seed, Text

KIND = "toy_discourse"
VERSION = 1  # raise it when the same seed gives other sentences
TOPICS = ("address", "names", "pronouns", "ellipsis")
WINDOW = 3  # sentences back
VERBS = 4  # variants of an ellipsis
PRONOUNS_OF = {"m": "er", "f": "sie", "n": "es"}
PRONOUNS = tuple(PRONOUNS_OF.values())
READER, ENTITY = "reader", "entity"  # coreference chains


class ToyDiscourse(ToyCorpus):
    """Documents of five to eight sentences, with sets for address, names, pronouns and ellipsis.

    Args:
        seed: another seed is another corpus.
        train, valid, test: numbers of sentences.
        families: of each set and each distance, 1 to 3; a family is n groups.
        name: the corpus's name in results.
    """

    def __init__(
        self,
        seed: Seed = 0,
        train: Count = 8000,
        valid: Count = 500,
        test: Count = 500,
        families: Count = 100,
        name: Text = KIND,
    ) -> None:
        super().__init__(seed, train, valid, test, name)
        self._families = families

    def _document(self, split: Split, number: int) -> Document:  # type: ignore[override]
        return Document(Dice(KIND, self._seed, split, number), f"{split}-{number}")

    def recipe(self, split: Split | None = None) -> dict[str, Any]:
        """Return the seed, the sizes and the version of the generator."""
        toy = super().recipe(split)
        # Its grammar and its gold are the toy corpus's.
        return toy | {"kind": KIND, "version": VERSION, "toy_version": toy["version"]}

    def contrastive(self, split: Split) -> list[ContrastiveSet]:
        """Return a set a topic, mirrored."""
        sets = []
        for topic in TOPICS:
            groups = [
                group
                for distance in range(1, WINDOW + 1)
                for number in range(self._families)
                for group in self._family(split, topic, distance, number)
            ]
            sets.append(ContrastiveSet(f"{self.name} {topic}", lang_pair(self), groups, True))
        return sets

    def cued(self, split: Split) -> list[ExampleSet]:
        """Return a set a topic: the true translations of its contrastive set, with exact cues.

        Context-sensitive are the words at which a translation parts from one of its variants: what
        follows from an earlier word, such as the verb from `du`, needs no context. Cues are the
        words in which its context differs from one of theirs. Of pronouns only the noun that they
        refer to, with its article, decides.
        """
        sets = []
        for topic, contrastive in zip(TOPICS, self.contrastive(split), strict=True):
            examples = list[Example]()
            families = product(range(1, WINDOW + 1), range(self._families))
            for unit, (distance, number) in enumerate(families):
                family = self._draw(split, topic, distance, number)
                examples += _examples(topic, unit, distance, family)
            sets.append(
                ExampleSet(
                    contrastive.name, contrastive.lang_pair, examples, True, units_of=contrastive
                )
            )
        return sets

    def _draw(self, split: Split, topic: str, distance: int, number: int) -> list[Variation]:
        """Return the sentences of a family."""
        # Dice of its own: a family's words do not depend on how many there are.
        words = Words(Dice(KIND, self._seed, "sets", _unit(split, topic, distance, number)))
        # The same sentences decide nothing in every variant, so that only the cue differs.
        fillers = [words.filler() for _ in range(WINDOW - 1)]
        family = []
        for cue, probe in words.family(topic):
            context = [*fillers]
            context.insert(WINDOW - distance, cue)  # so far before the current sentence
            family.append(Variation(context, probe))
        return family

    def _family(self, split: Split, topic: str, distance: int, number: int) -> Iterator[Group]:
        """Yield the groups of one sentence, each with the context that makes a variant true."""
        pronouns, family = topic == "pronouns", self._draw(split, topic, distance, number)
        variants = [variation.probe.texts[1] for variation in family]
        for true, variation in enumerate(family):
            sources, targets = variation.context_texts
            yield Group(
                variation.probe.texts[0],
                tuple(Variant(text, targets) for text in variants),
                true,
                sources,
                distance=distance,
                unit=_unit(split, topic, distance, number),
                pronoun=PRONOUNS[true] if pronouns else "",
                antecedent=Antecedent(distance, tuple(sources[-distance].split(" is ")[0].split()))
                if pronouns
                else None,
            )


def _unit(split: Split, topic: str, distance: int, number: int) -> str:
    return f"{split} {topic} {distance} {number}"


@dataclass(frozen=True)
class Variation:
    """One context of a family, and the sentence behind it with its translation."""

    context: Sequence[Phrase]
    probe: Phrase

    @property
    def context_texts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The sentences of the context, of source and target."""
        sources, targets = zip(*(phrase.texts for phrase in self.context), strict=True)
        return sources, targets


def _examples(
    topic: str, unit: int, distance: int, family: Sequence[Variation]
) -> Iterator[Example]:
    """Yield a family's true translations with the words that decide them."""
    place = WINDOW - distance
    for variation in family:
        variants = [other for other in family if other is not variation]
        parting = (_parting(variation.probe.target, other.probe.target) for other in variants)
        tags = {SENSITIVE: frozenset(parting)}
        cue, cues = variation.context[place], {}
        for side in SIDES:
            words = getattr(cue, side)
            decisive = _differing(
                words, [getattr(other.context[place], side) for other in variants]
            )
            if topic == "pronouns":  # the rest of the sentence differs too, and decides nothing
                decisive = frozenset(n for n in decisive if words[n].mention)
            cues[side] = frozenset((place, word) for word in decisive)
        sources, targets = variation.context_texts
        passage = Passage(*variation.probe.texts, sources, targets)
        yield Example(unit, unit, passage, tags, cues)


def _parting(words: Sequence[Word], other: Sequence[Word]) -> int:
    """Return the place of the first word that is not the other sentence's."""
    pairs = enumerate(zip(words, other, strict=False))
    return next(n for n, (first, second) in pairs if first.text != second.text)


def _differing(words: Sequence[Word], variants: Sequence[Sequence[Word]]) -> frozenset[int]:
    """Return the places of words that are not in one of some other sentences."""
    texts, differing = [word.text for word in words], set[int]()
    for other in variants:
        blocks = SequenceMatcher(None, texts, [w.text for w in other], False).get_matching_blocks()
        differing |= {*range(len(texts))}.difference(
            *(range(block.a, block.a + block.size) for block in blocks)
        )
    return frozenset(differing)


class Words:
    """Draws what sentences are about."""

    def __init__(self, dice: Dice) -> None:
        self.dice, self._lexicon = dice, lexicon()
        self._count = 0

    def _person(self) -> NounPhrase:
        """Return a person in the third person, described half of the time."""
        dice, noun = self.dice, self.dice.pick(self._lexicon.people)
        adjective = dice.pick(self._lexicon.adjectives) if dice.chance(0.5) else None
        return replace(self._noun(noun), adjective=adjective)

    def _noun(self, noun: Noun, chain: str | None = None) -> NounPhrase:
        """Return a noun that refers to something new, if no chain is given."""
        self._count += 1
        name = f"n{self._count}"
        return NounPhrase(name, chain or name, noun.english, noun.german, noun.gender, noun.sex)

    def filler(self) -> Phrase:
        """Return a sentence that decides nothing: a person and an adjective."""
        adjective = self.dice.pick(self._lexicon.adjectives)
        return Property("is", self._person(), adjective).render() + STOP

    def _act(self, subject: NounPhrase) -> Clause:
        """Return a clause: a person acts on an object."""
        dice, words = self.dice, self._lexicon
        noun = self._noun(dice.pick(words.objects))
        adverb = dice.pick(words.adverbs) if dice.chance(0.3) else None
        tense = dice.pick(("present", "present", "perfect", "can"))
        return Clause("c", subject, dice.pick(words.transitive), noun, adverb, tense=tense)

    # Each topic: a first clause, and the clauses that follow from it --------------------------

    def reader(self) -> Clause:
        """Return a clause about the reader, whose form of address is not known yet."""
        return self._act(NounPhrase("you", READER, form="you"))

    def complete(self, clause: Clause, place: str = "subject", **known: str) -> Phrase:
        """Return the sentence of a clause with what was not known yet of its subject, or object.

        Args:
            clause: that another method made.
            place: subject or object.
            known: such as its form of address.
        """
        phrase = replace(getattr(clause, place), **known)
        return replace(clause, **{place: phrase}).render() + STOP

    def somebody(self, english: str, sex: str) -> Clause:
        """Return a clause about a named person, whose spelling is not known yet."""
        return self._act(NounPhrase("name", ENTITY, english, "", sex, sex, form="name"))

    def thing(self, noun: Noun, chain: str = ENTITY) -> Phrase:
        """Return how a thing is, which `it` may then refer to."""
        adjective = self.dice.pick(self._lexicon.adjectives)
        return Property("is", self._noun(noun, chain), adjective).render() + STOP

    def about_it(self, chain: str = ENTITY) -> Clause:
        """Return a clause about a thing that is only called `it`, whose gender is not known yet."""
        dice, words = self.dice, self._lexicon
        it = NounPhrase("it", chain, form="pronoun", sex="n")
        adverb = dice.pick(words.adverbs) if dice.chance(0.5) else None
        tense = dice.pick(("present", "perfect", "can"))
        if dice.chance(0.5):
            return Clause("c", it, dice.pick(words.intransitive), adverb=adverb, tense=tense)
        verb = dice.pick(words.transitive)
        return Clause("c", self._person(), verb, it, adverb, tense=tense)

    def referring(self, clause: Clause, gender: str) -> Phrase:
        """Return the clause about an object of a gender."""
        return self.complete(clause, "object" if clause.object else "subject", gender=gender)

    # Families ---------------------------------------------------------------------------------

    def family(self, topic: str) -> Iterator[tuple[Phrase, ...]]:
        """Yield each variant's deciding context, and the sentence itself."""
        dice, words = self.dice, self._lexicon
        if topic == "address":
            clauses = [self.reader(), self.reader()]
            for address in ("du", "Sie"):
                yield tuple(self.complete(clause, address=address) for clause in clauses)
        elif topic == "names":
            name = dice.pick(words.names)
            clauses = [self.somebody(name.english, name.sex) for _ in range(2)]
            for spelling in name.spellings:
                yield tuple(self.complete(clause, german=spelling) for clause in clauses)
        elif topic == "pronouns":
            clause = self.about_it()
            for gender in PRONOUNS_OF:
                # A noun of each gender, so that each pronoun is right once.
                noun = dice.pick([n for n in words.objects if n.gender == gender])
                yield self.thing(noun), self.referring(clause, gender)
        else:
            first_person, second_person = self._person(), self._person()
            verbs = list[Verb]()
            while len(verbs) < VERBS:
                verb = dice.pick(words.intransitive)
                # Variants have to differ in what they say.
                verbs += [verb] if verb not in verbs else []
            for verb in verbs:
                yield (
                    Clause("c", first_person, verb).render() + STOP,
                    Ellipsis("c", second_person, verb).render() + STOP,
                )


class Document(Words):
    """One document of one topic; the order of its draws decides its sentences."""

    def __init__(self, dice: Dice, name: str) -> None:
        super().__init__(dice)
        self.name = name

    def phrases(self) -> Iterator[Phrase]:
        """Yield five to eight sentences; every third one, or so, decides nothing."""
        # One topic a document, so that what decides is never ambiguous.
        size, topic = self.dice.pick((5, 6, 7, 8)), self.dice.pick(TOPICS)
        on_topic = getattr(self, f"_{topic}")()
        for _ in range(size):
            yield self.filler() if self.dice.chance(0.35) else next(on_topic)

    def _address(self) -> Iterator[Phrase]:
        address = self.dice.pick(("du", "Sie"))
        while True:
            yield self.complete(self.reader(), address=address)

    def _names(self) -> Iterator[Phrase]:
        name = self.dice.pick(self._lexicon.names)
        spelling = self.dice.pick(name.spellings)
        while True:
            yield self.complete(self.somebody(name.english, name.sex), german=spelling)

    def _pronouns(self) -> Iterator[Phrase]:
        """Yield an object, about two clauses on it, then another object."""
        for number in count():
            noun, chain = self.dice.pick(self._lexicon.objects), f"{ENTITY}{number}"
            yield self.thing(noun, chain)
            while self.dice.chance(0.65):
                yield self.referring(self.about_it(chain), noun.gender)

    def _ellipsis(self) -> Iterator[Phrase]:
        """Yield a clause and its ellipses: others do the same."""
        while True:
            verb = self.dice.pick(self._lexicon.intransitive)
            yield Clause("c", self._person(), verb).render() + STOP
            while self.dice.chance(0.65):
                yield Ellipsis("c", self._person(), verb).render() + STOP
