"""The grammar of the toy corpus: English and a German-like target, generated side by side.

Every word is written down with the *features* it carries (a lexeme, a gender, a clause type...)
and every target word with the features it needs. The gold then needs no judgement: the words that
decide a target word are those, in the source and in the prefix, that carry what it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

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
    text: str,
    key: str = "",
    carries: str = "",
    needs: str = "",
    possible: str = "",
    chain: str = "",
) -> list[Word]:
    """The words of a text that belong together; features are written separated by blanks."""
    have, want = frozenset(carries.split()), frozenset(needs.split())
    return [Word(part, key, have, want, possible, chain) for part in text.split()]


@dataclass(slots=True)
class Phrase:
    """A stretch of both sides."""

    source: list[Word] = field(default_factory=list)
    target: list[Word] = field(default_factory=list)


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
        if self.form == "you":
            return self._you()
        if self.form == "pronoun":
            return self._pronoun(case)
        phrase = Phrase() if self.form == "name" else self._article(case)
        if self.adjective and self.form != "name":
            adjective = self._adjective(case, self.adjective)
            phrase.source += adjective.source
            phrase.target += adjective.target
        # The chain's gender is what a later pronoun looks for.
        head = f"{self.id}.lex {self.id}.gender {self.id}.person {self.chain}.gender"
        phrase.source += word(self.english, f"{self.id}.n", head, chain=self.chain)
        phrase.target += word(self.german, f"{self.id}.n", head, f"{self.id}.lex", chain=self.chain)
        return phrase

    def _you(self) -> Phrase:
        carries = f"{self.id}.you {self.id}.person"
        return Phrase(
            word("you", f"{self.id}.n", carries),
            word(self.address, f"{self.id}.n", carries + " address", f"{self.id}.you address"),
        )

    def _pronoun(self, case: str) -> Phrase:
        i = self.id
        source = word(
            ENGLISH_PRONOUN[case][self.sex], f"{i}.n", f"{i}.ref {i}.person", chain=self.chain
        )
        # The gender comes from the antecedent, wherever in the sentence it stands.
        needs = f"{i}.ref {i}.case {self.chain}.gender"
        carries = f"{i}.ref {i}.person {self.chain}.gender"
        target = word(PRONOUN[case][self.gender], f"{i}.n", carries, needs, chain=self.chain)
        return Phrase(source, target)

    def _article(self, case: str) -> Phrase:
        i = self.id
        needs = f"{i}.form {i}.gender {i}.case"
        carries = f"{needs} {self.chain}.gender"
        next_word = self.adjective[0] if self.adjective else self.english
        a = "an" if next_word[0] in "aeiou" else "a"
        english = {"definite": "the", "indefinite": a}.get(self.form, "")
        german = DEFINITE[case][self.gender] if self.form == "definite" else ""
        source_carries = f"{i}.form"
        if not german:
            german = "ein" + INDEFINITE_ENDING[case][self.gender]
        if self.form == "possessive" and self.owner:
            english = ENGLISH_POSSESSIVE[self.owner.sex]
            stem = "ihr" if self.owner.gender == "f" else "sein"
            german = stem + INDEFINITE_ENDING[case][self.gender]
            needs += f" {self.owner.chain}.gender"
            source_carries += f" {self.owner.id}.ref"
        return Phrase(
            word(english, f"{i}.a", source_carries, chain=self.chain),
            word(german, f"{i}.a", carries, needs, chain=self.chain),
        )

    def _adjective(self, case: str, adjective: tuple[str, str]) -> Phrase:
        i, (english, german) = self.id, adjective
        kind = "definite" if self.form == "definite" else "indefinite"
        ending = ADJECTIVE_ENDING[kind, case][self.gender]
        return Phrase(
            word(english, f"{i}.j", f"{i}.adj", chain=self.chain),
            word(
                german.removesuffix("e") + ending,
                f"{i}.j",
                f"{i}.adj {i}.gender",
                f"{i}.adj {i}.gender {i}.case {i}.form",
                chain=self.chain,
            ),
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
        return Phrase(
            self._source(subject.source, other.source), self._target(subject.target, other.target)
        )

    def _case(self) -> str:
        return f" {self.object.id}.case" if self.object else ""

    def _source(self, subject: list[Word], other: list[Word]) -> list[Word]:
        c, third = self.id, self.subject.person == "third"
        verb_carries, helper_carries = f"{c}.lex {c}.tense" + self._case(), f"{c}.tense"
        form = {"perfect": self.verb.participle, "can": self.verb.base}.get(
            self.tense, self.verb.third if third else self.verb.base
        )
        helper = {"perfect": "has" if third else "have", "can": "can"}.get(self.tense, "")
        if self.order == "question" and not helper:
            # Do-support has no counterpart: it may only be linked to the verb, never must.
            helper, form, helper_carries = "does" if third else "do", self.verb.base, f"{c}.order"
        first = word(helper, f"{c}.h", helper_carries + f" {c}.order")
        verb = word(form, f"{c}.v", verb_carries)
        adverb = self._adverb(0)
        start = adverb if self.fronted else []
        end = [] if self.fronted else adverb
        inner = first + subject if self.order == "question" else subject + first
        return start + inner + verb + other + end

    def _adverb(self, side: int) -> list[Word]:
        if not self.adverb:
            return []
        needs = f"{self.id}.adv" if side else ""
        return word(self.adverb[side], f"{self.id}.adv", f"{self.id}.adv", needs)

    def _target(self, subject: list[Word], other: list[Word]) -> list[Word]:
        finite, last = self._verbs()
        adverb = self._adverb(1)
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
        helper = f"{c}.h"
        if self.tense == "present":
            finite = {
                "third": verb.finite_third,
                "du": verb.finite_second,
                "Sie": verb.bare_infinitive,
            }[person]
            needs, carries = f"{c}.lex {agreement}{clause}", f"{c}.lex {c}.tense{self._case()}"
            if self.order == "subordinate":
                return word(verb.particle + finite, f"{c}.v", carries, needs), []
            possible = helper if self.order == "question" else ""
            return (
                word(finite, f"{c}.v", carries, needs, possible),
                word(verb.particle, f"{c}.v", f"{c}.lex", f"{c}.lex"),
            )
        auxiliary = "können" if self.tense == "can" else verb.auxiliary
        lexical = f" {c}.lex" if self.tense == "perfect" else ""  # haben or sein: the verb says
        needs = f"{c}.tense {agreement}{clause}{lexical}"
        form = verb.infinitive if self.tense == "can" else verb.german_participle
        return (
            word(AUXILIARY[auxiliary][person], helper, f"{c}.tense", needs),
            word(form, f"{c}.v", f"{c}.lex", f"{c}.lex {c}.tense"),
        )


def gold(source: Sequence[Word], target: Sequence[Word]) -> Gold:
    """The exact annotation of a generated pair."""
    sure = {
        (i, j)
        for j, y in enumerate(target)
        for i, x in enumerate(source)
        if y.key and x.key == y.key
    }
    possible = {
        (i, j)
        for j, y in enumerate(target)
        for i, x in enumerate(source)
        if y.possible and x.key == y.possible
    }
    return Gold(
        sure=frozenset(sure),
        possible=frozenset(sure | possible),
        source_mentions=_mentions(source),
        target_mentions=_mentions(target),
        deciding_source=tuple(_carriers(y, source) for y in target),
        deciding_prefix=tuple(_carriers(y, target[:j]) for j, y in enumerate(target)),
    )


def _carriers(wanted: Word, among: Iterable[Word]) -> frozenset[int]:
    return frozenset(i for i, w in enumerate(among) if w.carries & wanted.needs)


def _mentions(words: Sequence[Word]) -> tuple[Mention, ...]:
    """Neighbouring words of one chain are one mention."""
    mentions: list[Mention] = []
    for i, w in enumerate(words):
        if not w.chain:
            continue
        if mentions and mentions[-1].chain == w.chain and mentions[-1].words[-1] == i - 1:
            mentions[-1] = Mention(w.chain, (*mentions[-1].words, i))
        else:
            mentions.append(Mention(w.chain, (i,)))
    return tuple(mentions)
