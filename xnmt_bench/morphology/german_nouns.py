"""German: a dictionary of nouns, and what articles, pronouns and possessives say by their form."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from functools import cache, reduce
from importlib.resources import files
from typing import ClassVar, NamedTuple, cast

from xnmt_bench.morphology.base import Gender, GenderEvidence, Morphology, stripped, versions

RULES = 4  # raise it when a rule gives other genders
PACKAGE = "german-nouns"
SHORTEST_TAIL = 5  # letters of a compound's last part: `Lkw-Fahrer` is a `Fahrer`
REACH = 3  # words between an article and its noun, at most, with the noun itself
ADJECTIVAL = "adjektivische Deklination"
NAMES = ("Nachname", FIRST_NAME := "Vorname")  # take the gender of their bearer
FEMALE = "in"  # the ending that makes a woman of a noun
# The genders that a form's singular can have. `der` and `dieser` are a feminine's dative too, which
# counts only before a noun that is one.
PERSONAL = {"er": "m", "ihn": "m", "sie": "f", "es": "n", "ihm": "mn"}
FORMS = {"der": "m", "die": "f", "das": "n", "den": "m", "dem": "mn", "des": "mn"}
FORMS |= {"dessen": "mn", "deren": "f"}
STRONG = {"er": "m", "e": "f", "es": "mn", "en": "m", "em": "mn"}
MIXED = {"": "mn", "e": "f", "en": "m", "em": "mn", "er": "f", "es": "mn"}
FORMS |= {
    stem + end: sexes
    for stem in ("dies", "jen", "jed", "welch", "manch", "solch")
    for end, sexes in STRONG.items()
}
DEMONSTRATIVES = [form for form in FORMS if form != "der"]
# Of a possessive the ending agrees with what is possessed; see POSSESSIVES.
FORMS |= {
    stem + end: sexes
    for stem in ("ein", "kein", "mein", "dein", "unser", "euer", "eur")
    for end, sexes in MIXED.items()
}
VERB = re.compile(r"sein\W", re.IGNORECASE)  # with the mark that ends its clause
CLAUSE_END = re.compile(r"[.,;:!?…]+")
# The stem says who possesses.
POSSESSIVES = {stem + end: sexes for stem, sexes in (("sein", "mn"), ("ihr", "f")) for end in MIXED}
SHOWN = PERSONAL | POSSESSIVES | FORMS
# What may stand before a noun, by its ending; of a plural none.
ARTICLES = FORMS | {stem + end: MIXED[end] for stem in ("sein", "ihr") for end in MIXED}
ARTICLES |= dict.fromkeys(("vom", "zum", "beim", "im", "am"), "mn") | {"zur": "f"}
PLURAL = "alle beide viele mehrere einige wenige zwei drei vier fünf"
ARTICLES |= dict.fromkeys(PLURAL.split(), "")
ADJECTIVE = re.compile(r"[^A-ZÄÖÜ].*(e|en|er|es|em)$")


class GermanNouns(Morphology):
    """By the dictionary `german-nouns`, which is made from Wiktionary (CC BY-SA 4.0).

    A noun has its lexical gender, a compound that of its last part, a plural none; articles decide
    between several (`der See`, `die See`). Pronouns and possessives (`sein`, `ihr`) tell by their
    form, as far as it does: `sein` is masculine or neuter, so it is of no gender here, `sie` and
    `ihr` count as the singular.
    """

    language: ClassVar[str] = "de"

    def __init__(self) -> None:
        self.version = f"{versions('German', 'morphology', PACKAGE)}, rules {RULES}"

    def gender(self, words: Sequence[str], chosen: Sequence[int]) -> GenderEvidence | None:
        """Return the genders of some words of a sentence; see `Morphology.gender`."""
        return self.entity_gender("", words, chosen, personal=False)

    def entity_gender(
        self, entity: str, words: Sequence[str], chosen: Sequence[int], personal: bool = True
    ) -> GenderEvidence | None:
        """Return the gender; `dem Koch` may be masculine or neuter, and of a person is a man."""
        sexes, by = self._shown(words, chosen)
        if personal and sexes == {"m", "n"}:
            return GenderEvidence("m", by)
        return GenderEvidence(cast(Gender, next(iter(sexes))), by) if len(sexes) == 1 else None

    def _shown(self, words: Sequence[str], chosen: Sequence[int]) -> tuple[frozenset[str], str]:
        """Return the genders that words can have, and the words that show them."""
        words = [stripped(word) or word for word in words]
        for place in chosen:
            if (noun_genders := self._noun(words[place])) is not None:
                return self._agreed(noun_genders, words[place], _article(words, place))
        for place in chosen:  # an unknown noun
            unknown = words[place][:1].isupper() and not _sexes(words[place])
            if unknown and (article := _article(words, place)):
                return frozenset(ARTICLES[article]), f"{article} {words[place]}"
        sexes_of = {words[place]: frozenset(_sexes(words[place])) for place in chosen}
        sexes_of = {form: sexes for form, sexes in sexes_of.items() if sexes}
        return reduce(frozenset.__and__, sexes_of.values(), frozenset("mfn")), " ".join(sexes_of)

    def pronoun_gender(
        self, words: Sequence[str], chosen: Sequence[int], personal: bool = True
    ) -> GenderEvidence | None:
        """Return the gender; `sein` and `ihm` are masculine for a person, ambiguous for a thing.

        Personal pronouns and possessives come before demonstratives. `der` is a feminine dative
        too, and `sein` at the end of a clause a verb: they are ambiguous.
        """
        forms = [stripped(words[n]) for n in chosen if not _is_verb(words, n)]
        pronouns = [form for form in forms if form.lower() in (*PERSONAL, *POSSESSIVES)]
        for form in [*pronouns, *(form for form in forms if form.lower() in DEMONSTRATIVES)]:
            sexes = _sexes(form)
            if len(sexes) == 1 or (personal and sexes == "mn"):
                return GenderEvidence(cast(Gender, sexes[0]), form)
        return None

    def _noun(self, word: str) -> frozenset[str] | None:
        """Return the genders of a noun, none for a plural; None for an unknown noun."""
        if not word[:1].isupper() or _sexes(word):
            return None
        # The word itself, before it is taken apart.
        if word in read_dictionary().nouns:
            return read_dictionary().nouns[word]
        # The longest tail first, which is the least ambiguous.
        tails = (word[start:] for start in range(1, len(word) - SHORTEST_TAIL + 1))
        nouns = (read_dictionary().nouns.get(tail[0].upper() + tail[1:]) for tail in tails)
        first_genders = next((genders for genders in nouns if genders is not None), None)
        if word.endswith(FEMALE) and len(word) > SHORTEST_TAIL + 1:
            # Her who does it, or a compound (`Elektrokamin`): an article decides.
            return (first_genders or frozenset()) | {"f"}
        return first_genders

    def _agreed(
        self, noun: frozenset[str], word: str, article: str | None
    ) -> tuple[frozenset[str], str]:
        """Return the genders on which noun and article agree; none is a plural (`die Hunde`)."""
        if article is None:
            # `Studenten` is a plural too.
            return frozenset[str]() if word in read_dictionary().weak else noun, word
        by = f"{article} {word}"
        sexes = frozenset(ARTICLES[article])
        if word in read_dictionary().adjectival and word.endswith("en"):
            # `der Angestellten` is a woman's dative, `die` and `den` may stand before a plural.
            weak = {"der": frozenset("f"), "die": frozenset[str](), "den": frozenset[str]()}
            return noun & weak.get(article, sexes), by
        dative = frozenset("f" if article.endswith("er") and ARTICLES[article] == "m" else "")
        return noun & sexes or noun & dative, by


class Dictionary(NamedTuple):
    """The nouns of `german-nouns`.

    Attributes:
        nouns: each form, and the genders of the nouns whose lemma it is, else of whose singular it
            is; a lone plural has no gender.
        adjectival: forms of nouns declined as adjectives, which have no one lemma (`der
            Angestellte`, `die Angestellte`).
        weak: forms of a plural and of a singular, but no lemma.
    """

    nouns: dict[str, frozenset[str]]
    adjectival: set[str]
    weak: set[str]


@cache  # it takes a second to read
def read_dictionary() -> Dictionary:
    """Read the dictionary, once in a process."""
    lemmas, forms = dict[str, set[str]](), dict[str, set[str]]()
    plurals, names, adjectival = set[str](), set[str](), set[str]()
    with (files("german_nouns") / "nouns.csv").open(encoding="utf-8") as lines:
        rows = csv.reader(lines)
        header = next(rows)
        sexes = [n for n, name in enumerate(header) if name.startswith("genus")]
        singulars = [
            n
            for n, name in enumerate(header)
            if "singular" in name and name != "dativ singular*"  # `dem Hunde`, now a plural
        ]
        plural = [n for n, name in enumerate(header) if "plural" in name]
        for row in rows:
            lemma, kind = row[0], row[1]
            if any(name in kind for name in NAMES):
                if FIRST_NAME in kind:
                    names.add(lemma)
                continue
            row_genders = {row[n] for n in sexes if row[n]}
            if ADJECTIVAL not in kind:
                lemmas.setdefault(lemma, set()).update(row_genders)
            else:
                adjectival |= {row[n] for n in singulars if row[n]}
            for form in {row[n] for n in singulars if row[n]}:
                forms.setdefault(form, set()).update(row_genders)
            plurals |= {row[n] for n in plural if row[n]}
    genders_of = {form: set[str]() for form in plurals} | forms | lemmas
    for name in names & genders_of.keys():  # `Anna` is a coin too (m): an article decides
        genders_of[name] = genders_of[name] | {"m", "f"}
    for form in adjectival:
        genders_of[form] = forms[form] | lemmas.get(form, set())
    weak = (plurals & forms.keys()) - lemmas.keys() - adjectival
    nouns = {form: frozenset(genders) for form, genders in genders_of.items()}
    return Dictionary(nouns, adjectival, weak)


def _sexes(form: str) -> str:
    """Return the genders that an article, a pronoun or a possessive can have by its form."""
    return SHOWN.get(form.lower(), "")


def _article(words: Sequence[str], place: int) -> str | None:
    """Return the nearest article before a noun."""
    for n in range(place - 1, max(-1, place - REACH - 1), -1):
        if words[n].lower() in ARTICLES:
            return words[n].lower()
        if not ADJECTIVE.match(words[n]):
            return None
    return None


def _is_verb(words: Sequence[str], place: int) -> bool:
    """Return whether a word is `sein` before a mark that ends a clause."""
    word, behind = words[place], "".join(words[place + 1 : place + 2])
    # The mark is attached to the word, or in a tokenised text it is a word of its own.
    return bool(VERB.match(word) or (word.lower() == "sein" and CLAUSE_END.fullmatch(behind)))
