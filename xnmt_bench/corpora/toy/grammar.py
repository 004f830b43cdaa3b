"""The grammar of the toy corpus: English and a German-like target, generated side by side.

Every word is written down with the *features* it carries (a lexeme, a gender, a clause type...)
and every target word with the features it needs. The gold then needs no judgement: the words that
decide a target word are those, in the source and in the prefix, that carry what it needs.

A word needs a feature if it would be another word, or stand elsewhere, were that feature alone
different: `den` needs its case, `die` does not, which is nominative and accusative. A source word
carries its own features and none that only follow from another word: in `can see` the tense
is in `can`, and the person of `sees` is its subject's. A target word also carries what its form
shows by agreement, as an article shows a gender.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from xnmt_bench.corpora.sentence import Gold, Mention
from xnmt_bench.corpora.toy.lexicon import Verb, lexicon

# Articles, pronouns and endings by kind, case and gender; finite forms of auxiliaries by person.
FORMS, AUXILIARIES = lexicon().forms, lexicon().auxiliaries


@dataclass(frozen=True, slots=True)
class Word:
    """One word of either side.

    Attributes:
        text: the word.
        key: names a source word; on the target side, the source words it is aligned with (sure).
        carries: features that can be read off this word.
        needs: features that decide a target word.
        possible: source words it may also be aligned with.
        mention: `chain@phrase`; with the phrase, since two mentions of a chain may be neighbours.
    """

    text: str
    key: str = ""
    carries: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    possible: str = ""
    mention: str = ""


def word(
    text: str,
    key: str = "",
    carries: str = "",
    needs: str = "",
    possible: str = "",
    mention: str = "",
) -> list[Word]:
    """Return the words of a text, which share all else; features are separated by blanks."""
    have, want = frozenset(carries.split()), frozenset(needs.split())
    return [Word(part, key, have, want, possible, mention) for part in text.split()]


@dataclass(slots=True)
class Phrase:
    """A stretch of both sides."""

    source: list[Word] = field(default_factory=list)
    target: list[Word] = field(default_factory=list)

    def __add__(self, other: Phrase) -> Phrase:
        return Phrase(self.source + other.source, self.target + other.target)

    @property
    def texts(self) -> tuple[str, str]:
        """Both sides as text."""
        return " ".join(w.text for w in self.source), " ".join(w.text for w in self.target)


@dataclass(slots=True)
class NounPhrase:
    """A person or thing in one sentence, before it has a case.

    Attributes:
        id: distinguishes the phrases of a sentence; features start with it.
        chain: the coreference chain.
        english, german: the head; for a pronoun they are empty.
        gender: m, f or n on the target side.
        sex: picks the English pronoun.
        form: definite, indefinite, possessive, name, pronoun or you.
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

    @property
    def agreement(self) -> str:
        """The features that a finite verb needs of its subject."""
        return f"{self.id}.person" + (" address" if self.form == "you" else "")

    @property
    def mention(self) -> str:
        """Names the mention of the chain that this phrase is."""
        return f"{self.chain}@{self.id}"

    def render(self, case: str) -> Phrase:
        """Return both sides of the phrase in a case."""
        i, chain, mention = self.id, self.chain, self.mention
        if self.form == "you":
            carries, needs = f"{i}.you {i}.person", f"{i}.you address"
            return Phrase(
                word("you", f"{i}.n", carries, mention=mention),
                word(self.address, f"{i}.n", f"{carries} address", needs, mention=mention),
            )
        if self.form == "pronoun":
            # The gender comes from the antecedent, wherever in the sentence it stands.
            carries, needs = f"{i}.ref {i}.person", f"{i}.ref {chain}.gender{self._case}"
            english = FORMS[f"english pronoun {case}"][self.sex]
            german = FORMS[f"pronoun {case}"][self.gender]
            return Phrase(
                word(english, f"{i}.n", carries, mention=mention),
                word(german, f"{i}.n", f"{carries} {chain}.gender", needs, mention=mention),
            )
        # A noun shows its gender on the source side too, for a reader who knows the language pair.
        carries = f"{i}.lex {i}.person {chain}.gender"
        head = Phrase(
            word(self.english, f"{i}.n", carries, mention=mention),
            word(self.german, f"{i}.n", carries, f"{i}.lex", mention=mention),
        )
        return head if self.form == "name" else self._article(case) + self._adjective(case) + head

    @property
    def _case(self) -> str:
        """The feature of its case, which only masculine words show."""
        return f" {self.id}.case" if self.gender == "m" else ""

    def _article(self, case: str) -> Phrase:
        i, mention = self.id, self.mention
        needs = f"{i}.form {self.chain}.gender{self._case}"
        ending = FORMS[f"indefinite ending {case}"][self.gender]
        if self.form == "possessive" and self.owner:
            # A mention of the owner: `his` shows the owner's gender, and that of what is owned.
            mention = f"{self.owner.chain}@{i}.owner"
            needs += f" {self.owner.chain}.gender"
            english = FORMS["english possessive"][self.owner.sex]
            german = ("ihr" if self.owner.gender == "f" else "sein") + ending
        elif self.form == "definite":
            english, german = "the", FORMS[f"definite {case}"][self.gender]
        else:
            next_word = self.adjective[0] if self.adjective else self.english
            english, german = "an" if next_word[0] in "aeiou" else "a", "ein" + ending
        return Phrase(
            word(english, f"{i}.a", f"{i}.form", mention=mention),
            word(german, f"{i}.a", needs, needs, mention=mention),
        )

    def _adjective(self, case: str) -> Phrase:
        if not self.adjective:
            return Phrase()
        i, (english, german) = self.id, self.adjective
        definite, indefinite = (
            FORMS[f"adjective ending {form} {case}"] for form in ("definite", "indefinite")
        )
        endings = definite if self.form == "definite" else indefinite
        # What the ending shows depends on how many endings differ.
        shows = f"{i}.adj{self._case}"
        # Where all endings are one, the form shows no gender.
        if len(set(endings.values())) > 1:
            shows += f" {self.chain}.gender"
        if definite[self.gender] != indefinite[self.gender]:  # `der alte`, but `ein alter`
            shows += f" {i}.form"
        german = german.removesuffix("e") + endings[self.gender]
        return Phrase(
            word(english, f"{i}.j", f"{i}.adj", mention=self.mention),
            word(german, f"{i}.j", shows, shows, mention=self.mention),
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
        """Return both sides of the clause."""
        subject = self.subject.render("nominative")
        other = self.object.render("accusative") if self.object else Phrase()
        (english, german), key = self.adverb or ("", ""), f"{self.id}.adv"
        return Phrase(
            self._source(subject.source, other.source, word(english, key, key)),
            self._target(subject.target, other.target, word(german, key, key, key)),
        )

    @property
    def _lexeme(self) -> str:
        """What the verb's lexeme says: itself and the case of its object."""
        return f"{self.id}.lex" + (f" {self.object.id}.case" if self.object else "")

    def _source(self, subject: list[Word], other: list[Word], adverb: list[Word]) -> list[Word]:
        c, verb, third = self.id, self.verb, self.subject.person == "third"
        helper, form = "", verb.third if third else verb.base  # present tense has no helper
        if self.tense == "perfect":
            helper, form = "has" if third else "have", verb.participle
        elif self.tense == "can":
            helper, form = "can", verb.base
        elif self.order == "question":
            # Do-support has no counterpart: it may only be linked to the verb, never must.
            helper, form = "does" if third else "do", verb.base
        first = word(helper, f"{c}.h", f"{c}.tense")  # which the finite verb has
        last = word(form, f"{c}.v", self._lexeme + ("" if helper else f" {c}.tense"))
        clause = first + subject if self.order == "question" else subject + first
        clause += last + other
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
        """Return the finite verb, and the part of the verb that stands at the end."""
        c, verb, person = self.id, self.verb, self.subject.person
        shows = f"{c}.tense" + (" address" if person != "third" else "")
        needs = f"{c}.tense {self.subject.agreement}{self._place()}"
        if self.tense == "present":
            finite = verb.finite(person)
            shows, needs = f"{shows} {self._lexeme}", f"{needs} {c}.lex"
            if self.order == "subordinate":  # where the particle stays with its verb
                return word(verb.particle + finite, f"{c}.v", shows, needs), []
            possible = f"{c}.h" if self.order == "question" else ""
            return (
                word(finite, f"{c}.v", shows, needs, possible),
                word(verb.particle, f"{c}.v", self._lexeme, f"{c}.lex {c}.tense"),
            )
        auxiliary = "können" if self.tense == "can" else verb.auxiliary
        if self.tense == "perfect":
            needs += f" {c}.lex"  # haben or sein: the verb says
        form = verb.infinitive if self.tense == "can" else verb.german_participle
        # `vergessen` is both.
        tense = f" {c}.tense" if verb.infinitive != verb.german_participle else ""
        return (
            word(AUXILIARIES[auxiliary][person], f"{c}.h", shows, needs),
            word(form, f"{c}.v", self._lexeme, f"{c}.lex{tense}"),
        )

    def _place(self) -> str:
        """Return the feature that puts the finite verb last."""
        # With nothing between, the last place is the second.
        between = self.adverb or self.object or self.verb.particle or self.tense != "present"
        return f" {self.id}.clause" if self.order == "subordinate" and between else ""


@dataclass(slots=True)
class Property:
    """A person or thing and an adjective.

    Attributes:
        id: distinguishes it from the clauses of a sentence.
        subject: who or what.
        adjective: (English, German).
        order: main or subordinate (verb-final).
    """

    id: str
    subject: NounPhrase
    adjective: tuple[str, str]
    order: str = "main"

    def render(self) -> Phrase:
        """Return both sides."""
        c, (english, german) = self.id, self.adjective
        place = f" {c}.clause" if self.order == "subordinate" else ""
        form, needs = AUXILIARIES["sein"][self.subject.person], f"{c}.is {self.subject.agreement}"
        finite = word(form, f"{c}.h", "", needs + place)
        quality = word(german, f"{c}.j", "", f"{c}.j")
        return self.subject.render("nominative") + Phrase(
            word("is", f"{c}.h", f"{c}.is") + word(english, f"{c}.j", f"{c}.j"),
            quality + finite if self.order == "subordinate" else finite + quality,
        )


@dataclass(slots=True)
class Ellipsis:
    """`... does too`: English leaves the verb out, the target says it again.

    Attributes:
        id: that of the clause which has the verb, where this sentence has one.
        subject, verb, object: who does what to whom.
    """

    id: str
    subject: NounPhrase
    verb: Verb
    object: NounPhrase | None = None

    def render(self) -> Phrase:
        """Return both sides."""
        lexeme, other = f"{self.id}.lex does", list[Word]()
        finite = self.verb.finite(self.subject.person)
        if self.object:
            # With the id of the clause's own object, since the words that decide that decide it.
            # English leaves the object out, so that only the target side is made.
            [w] = replace(self.object, form="pronoun").render("accusative").target
            needs, mention = w.needs | {"does"}, f"{w.mention}.again"
            other = [replace(w, key="", possible="does", needs=needs, mention=mention)]
        return self.subject.render("nominative") + Phrase(
            word("does", "does", "does") + word("too", "too", "too"),
            word(finite, "does", lexeme, f"{lexeme} {self.subject.agreement}")
            + other
            + word("auch", "too", "too", "too")
            + word(self.verb.particle, "does", "", lexeme),
        )


@dataclass(slots=True)
class Vocative:
    """The reader, called by a first name, or by a title and a surname.

    Attributes:
        english, german: as many words on either side, which are linked one to one.
        chain: the reader's coreference chain.
    """

    english: str
    german: str
    chain: str

    def render(self) -> Phrase:
        """Return both sides, without a comma."""
        called, mention = Phrase(), f"{self.chain}@voc"
        pairs = zip(self.english.split(), self.german.split(), strict=True)
        for n, (english, german) in enumerate(pairs):
            key = f"voc{n}"  # word by word, as both sides have the same order
            # A title says `Sie`, a first name without one `du`; a surname says neither.
            carries = f"{key} address" if n == 0 else key
            called += Phrase(
                word(english, key, carries, mention=mention),
                word(german, key, carries, key, mention=mention),
            )
        return called


def gold(source: Sequence[Word], target: Sequence[Word]) -> Gold:
    """Return the exact annotation of a generated pair."""
    pairs = [(i, x.key, j, y) for j, y in enumerate(target) for i, x in enumerate(source) if x.key]
    # Words are linked where both come from the same key; that is exact by construction.
    sure = frozenset((i, j) for i, key, j, y in pairs if key == y.key)
    return Gold(
        sure=sure,
        possible=sure | {(i, j) for i, key, j, y in pairs if key == y.possible},
        source_mentions=_mentions(source),
        target_mentions=_mentions(target),
        deciding_source=tuple(_carriers(y, source) for y in target),
        # Only earlier target words: later ones are not there when the word is decided.
        deciding_prefix=tuple(_carriers(y, target[:j]) for j, y in enumerate(target)),
    )


def _carriers(word: Word, among: Iterable[Word]) -> frozenset[int]:
    # Any one of the features: each of these words alone says something of the form.
    return frozenset(i for i, w in enumerate(among) if w.carries & word.needs)


def _mentions(words: Sequence[Word]) -> tuple[Mention, ...]:
    """Return mentions in order. No word is in two: in `his dog`, `his` is the owner's."""
    places: dict[str, list[int]] = {}
    for place, w in enumerate(words):
        if w.mention:
            places.setdefault(w.mention, []).append(place)
    return tuple(Mention(name.partition("@")[0], tuple(at)) for name, at in places.items())
