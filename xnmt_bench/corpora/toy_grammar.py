"""The grammar of the toy corpus: English and a German-like target, generated side by side.

Every word is written down with the *features* it carries (a lexeme, a gender, a clause type...)
and every target word with the features it needs. The gold then needs no judgement: the words that
decide a target word are those, in the source and in the prefix, that carry what it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from xnmt_bench.corpora.sentence import Gold, Mention
from xnmt_bench.corpora.toy_lexicon import Verb

DEFINITE = {
    "nominative": {"m": "der", "f": "die", "n": "das"},
    "accusative": {"m": "den", "f": "die", "n": "das"},
}
INDEFINITE_ENDING = {
    "nominative": {"m": "", "f": "e", "n": ""},
    "accusative": {"m": "en", "f": "e", "n": ""},
}
ADJECTIVE_ENDING = {
    ("definite", "nominative"): {"m": "e", "f": "e", "n": "e"},
    ("definite", "accusative"): {"m": "en", "f": "e", "n": "e"},
    ("indefinite", "nominative"): {"m": "er", "f": "e", "n": "es"},
    ("indefinite", "accusative"): {"m": "en", "f": "e", "n": "es"},
}
PRONOUN = {
    "nominative": {"m": "er", "f": "sie", "n": "es"},
    "accusative": {"m": "ihn", "f": "sie", "n": "es"},
}
ENGLISH_PRONOUN = {
    "nominative": {"m": "he", "f": "she", "n": "it"},
    "accusative": {"m": "him", "f": "her", "n": "it"},
}
ENGLISH_POSSESSIVE = {"m": "his", "f": "her", "n": "its"}
AUXILIARY = {
    "haben": {"third": "hat", "du": "hast", "Sie": "haben"},
    "sein": {"third": "ist", "du": "bist", "Sie": "sind"},
    "können": {"third": "kann", "du": "kannst", "Sie": "können"},
}


@dataclass(frozen=True, slots=True)
class Word:
    """One word of either side.

    Attributes:
        text: the word.
        key: names a source word; on the target side, the source words it is aligned with (sure).
        carries: features that can be read off this word.
        needs: features that decide a target word.
        possible: source words it may also be aligned with.
        chain: the coreference chain it is a mention of.
    """

    text: str
    key: str = ""
    carries: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    possible: str = ""
    chain: str = ""


def word(
    text: str, key: str = "", carries: str = "", needs: str = "",
    possible: str = "", chain: str = "",
) -> list[Word]:  # fmt: skip
    """The words of a text, which share all else; features are separated by blanks."""
    have, want = frozenset(carries.split()), frozenset(needs.split())
    return [Word(part, key, have, want, possible, chain) for part in text.split()]


@dataclass(slots=True)
class Phrase:
    """A stretch of both sides."""

    source: list[Word] = field(default_factory=list)
    target: list[Word] = field(default_factory=list)

    def __add__(self, other: Phrase) -> Phrase:
        return Phrase(self.source + other.source, self.target + other.target)


@dataclass(slots=True)
class NounPhrase:
    """Somebody or something in one sentence, before it has a case.

    Attributes:
        id: distinguishes the phrases of a sentence; features start with it.
        chain: the coreference chain.
        english, german: the head; for a pronoun they are empty.
        gender: m, f or n on the target side.
        sex: picks the English pronoun.
        form: how it is said: definite, indefinite, possessive, name, pronoun or you.
        adjective: (English, German) or None.
        owner: for a possessive, the phrase that owns it.
        address: for `you`, how the document addresses its reader: du or Sie.
    """

    id: str
    chain: str
    english: str = ""
    german: str = ""
    gender: str = "m"
    sex: str = "n"
    form: str = "definite"
    adjective: tuple[str, str] | None = None
    owner: NounPhrase | None = None
    address: str = "du"

    @property
    def person(self) -> str:
        """The verb form this phrase asks for as a subject."""
        return self.address if self.form == "you" else "third"

    def render(self, case: str) -> Phrase:
        """Both sides of the phrase in a case."""
        i, chain = self.id, self.chain
        if self.form == "you":
            carries, needs = f"{i}.you {i}.person", f"{i}.you address"
            target = word(self.address, f"{i}.n", carries + " address", needs)
            return Phrase(word("you", f"{i}.n", carries), target)
        if self.form == "pronoun":
            # The gender comes from the antecedent, wherever in the sentence it stands.
            carries, needs = f"{i}.ref {i}.person", f"{i}.ref {i}.case {chain}.gender"
            english, german = ENGLISH_PRONOUN[case][self.sex], PRONOUN[case][self.gender]
            return Phrase(
                word(english, f"{i}.n", carries, chain=chain),
                word(german, f"{i}.n", f"{carries} {chain}.gender", needs, chain=chain),
            )
        # The chain's gender is what a later pronoun looks for.
        carries = f"{i}.lex {i}.gender {i}.person {chain}.gender"
        head = Phrase(
            word(self.english, f"{i}.n", carries, chain=chain),
            word(self.german, f"{i}.n", carries, f"{i}.lex", chain=chain),
        )
        return head if self.form == "name" else self._article(case) + self._adjective(case) + head

    def _article(self, case: str) -> Phrase:
        i = self.id
        needs = f"{i}.form {i}.gender {i}.case"
        carries, source_carries = f"{needs} {self.chain}.gender", f"{i}.form"
        ending = INDEFINITE_ENDING[case][self.gender]
        if self.form == "possessive" and self.owner:
            english = ENGLISH_POSSESSIVE[self.owner.sex]
            german = ("ihr" if self.owner.gender == "f" else "sein") + ending
            needs += f" {self.owner.chain}.gender"
            source_carries += f" {self.owner.id}.ref"
        elif self.form == "definite":
            english, german = "the", DEFINITE[case][self.gender]
        else:
            next_word = self.adjective[0] if self.adjective else self.english
            english, german = "an" if next_word[0] in "aeiou" else "a", "ein" + ending
        return Phrase(
            word(english, f"{i}.a", source_carries, chain=self.chain),
            word(german, f"{i}.a", carries, needs, chain=self.chain),
        )

    def _adjective(self, case: str) -> Phrase:
        if not self.adjective:
            return Phrase()
        i, (english, german) = self.id, self.adjective
        kind = "definite" if self.form == "definite" else "indefinite"
        german = german.removesuffix("e") + ADJECTIVE_ENDING[kind, case][self.gender]
        carries, needs = f"{i}.adj {i}.gender", f"{i}.adj {i}.gender {i}.case {i}.form"
        return Phrase(
            word(english, f"{i}.j", f"{i}.adj", chain=self.chain),
            word(german, f"{i}.j", carries, needs, chain=self.chain),
        )


@dataclass(slots=True)
class Clause:
    """A verb and what belongs to it.

    Attributes:
        id: distinguishes the clauses of a sentence.
        subject, verb, object: who does what to whom.
        adverb: (English, German) or None; `fronted` puts it first on both sides.
        tense: present, perfect or can.
        order: main, question or subordinate (verb-final).
    """

    id: str
    subject: NounPhrase
    verb: Verb
    object: NounPhrase | None = None
    adverb: tuple[str, str] | None = None
    fronted: bool = False
    tense: str = "present"
    order: str = "main"

    def render(self) -> Phrase:
        """Both sides of the clause."""
        subject = self.subject.render("nominative")
        other = self.object.render("accusative") if self.object else Phrase()
        (english, german), key = self.adverb or ("", ""), f"{self.id}.adv"
        return Phrase(
            self._source(subject.source, other.source, word(english, key, key)),
            self._target(subject.target, other.target, word(german, key, key, key)),
        )

    def _verb_carries(self) -> str:
        case = f" {self.object.id}.case" if self.object else ""  # it is the verb that asks for it
        return f"{self.id}.lex {self.id}.tense{case}"

    def _source(self, subject: list[Word], other: list[Word], adverb: list[Word]) -> list[Word]:
        c, verb, third = self.id, self.verb, self.subject.person == "third"
        helper, form, carries = "", verb.third if third else verb.base, f"{c}.tense {c}.order"
        if self.tense == "perfect":
            helper, form = "has" if third else "have", verb.participle
        elif self.tense == "can":
            helper, form = "can", verb.base
        elif self.order == "question":
            # Do-support has no counterpart: it may only be linked to the verb, never must.
            helper, form, carries = "does" if third else "do", verb.base, f"{c}.order"
        first = word(helper, f"{c}.h", carries)
        clause = first + subject if self.order == "question" else subject + first
        clause += word(form, f"{c}.v", self._verb_carries()) + other
        return adverb + clause if self.fronted else clause + adverb

    def _target(self, subject: list[Word], other: list[Word], adverb: list[Word]) -> list[Word]:
        finite, last = self._verbs()
        if self.order == "subordinate":
            return subject + adverb + other + last + finite
        if self.order == "question":
            return finite + subject + adverb + other + last
        if self.fronted:
            return adverb + finite + subject + other + last
        return subject + finite + adverb + other + last

    def _verbs(self) -> tuple[list[Word], list[Word]]:
        """The finite verb, and the part of the verb that stands at the end."""
        c, verb, person = self.id, self.verb, self.subject.person
        agreement = f"{self.subject.id}.person" + (" address" if person != "third" else "")
        clause = f" {c}.clause" if self.order == "subordinate" else ""
        if self.tense == "present":
            forms = {"third": verb.finite_third, "du": verb.finite_second}
            finite = forms.get(person, verb.bare_infinitive)  # which formal `Sie` asks for
            needs, carries = f"{c}.lex {agreement}{clause}", self._verb_carries()
            if self.order == "subordinate":  # where the particle stays with its verb
                return word(verb.particle + finite, f"{c}.v", carries, needs), []
            possible = f"{c}.h" if self.order == "question" else ""
            return (
                word(finite, f"{c}.v", carries, needs, possible),
                word(verb.particle, f"{c}.v", f"{c}.lex", f"{c}.lex"),
            )
        auxiliary = "können" if self.tense == "can" else verb.auxiliary
        lexical = f" {c}.lex" if self.tense == "perfect" else ""  # haben or sein: the verb says
        needs = f"{c}.tense {agreement}{clause}{lexical}"
        form = verb.infinitive if self.tense == "can" else verb.german_participle
        return (
            word(AUXILIARY[auxiliary][person], f"{c}.h", f"{c}.tense", needs),
            word(form, f"{c}.v", f"{c}.lex", f"{c}.lex {c}.tense"),
        )


def gold(source: Sequence[Word], target: Sequence[Word]) -> Gold:
    """The exact annotation of a generated pair."""
    pairs = [(i, x.key, j, y) for j, y in enumerate(target) for i, x in enumerate(source) if x.key]
    sure = frozenset((i, j) for i, key, j, y in pairs if key == y.key)
    return Gold(
        sure=sure,
        possible=sure | {(i, j) for i, key, j, y in pairs if key == y.possible},
        source_mentions=_mentions(source),
        target_mentions=_mentions(target),
        deciding_source=tuple(_carriers(y, source) for y in target),
        deciding_prefix=tuple(_carriers(y, target[:j]) for j, y in enumerate(target)),
    )


def _carriers(wanted: Word, among: Iterable[Word]) -> frozenset[int]:
    return frozenset(i for i, w in enumerate(among) if w.carries & wanted.needs)


def _mentions(words: Sequence[Word]) -> tuple[Mention, ...]:
    """Neighbouring words of one chain are one mention."""
    runs = groupby(range(len(words)), key=lambda i: words[i].chain)
    return tuple(Mention(chain, tuple(run)) for chain, run in runs if chain)
