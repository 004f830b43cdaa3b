"""Mentions of an English text, found without a parser: pronouns, names and common nouns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from xnmt_bench.resolvers.learnt.tokens import (
    AUXILIARIES,
    CONJUNCTIONS,
    DATES,
    DETERMINERS,
    FUNCTION_WORDS,
    POSSESSIVES,
    PREPOSITIONS,
    PRONOUNS,
    REFLEXIVES,
    SUBJECT_PRONOUNS,
    TITLES,
    Token,
    words,
)

Kind = Literal["pronoun", "name", "noun"]
LONGEST_NOUN_PHRASE = 5  # words behind the determiner
# Small words inside of a name, as in Duke of York or Ludwig van Beethoven.
LINKS_IN_NAMES = words("of de van von der den la le du da di al bin del")
BEHIND_VERBS = words("to that when because while if although though")
CLITICS = frozenset({"'s", "’s"})


@dataclass(frozen=True, slots=True)
class Mention:
    """A mention.

    Attributes:
        kind: a pronoun, a name, or a common noun with its determiner.
        first, last: its tokens, both inclusive. The last one is its head: a pronoun, a noun, a
            name's last word.
        pronoun: which pronoun it is, by its subject form, such as `he` for `his`.
        role: subject, object, possessive, prepositional, reflexive or other, by its neighbours.
    """

    kind: Kind
    first: int
    last: int
    pronoun: str
    role: str


def find_mentions(tokens: Sequence[Token]) -> list[Mention]:
    """Return the mentions of a text in the order of their first tokens.

    A noun phrase with a possessive (`his car`) holds another mention (`his`); names and nouns do
    not overlap otherwise.
    """
    mentions: list[Mention] = []
    # Evidence of the text itself on whether a sentence's first word is a name.
    lower_forms = {token.form for token in tokens if token.form.islower()}
    inner_names = {token.form for token in tokens if token.capitalised and not token.first}

    def add(kind: Kind, first: int, last: int, pronoun: str = "") -> None:
        mentions.append(Mention(kind, first, last, pronoun, _role(tokens, first, last)))

    n = 0
    while n < len(tokens):
        token = tokens[n]
        if is_pronoun(token):
            add("pronoun", n, n, PRONOUNS[token.lower])
            # From the pronoun on, so that `his` itself stays a mention within `his car`.
            if token.lower in POSSESSIVES and (last := _noun_end(tokens, n)) is not None:
                add("noun", n, last)
            n += 1
            continue
        # A determiner may begin either a noun phrase or a name.
        begins = token.lower in DETERMINERS
        noun = _noun_end(tokens, n) if begins else None
        name = _name_end(tokens, n + begins, lower_forms, inner_names)
        if noun is not None and (name is None or noun > name):
            add("noun", n, noun)
            n = noun
        elif name is not None:
            add("name", n + (begins and token.lower != "the"), name)  # `that Anna came`
            n = name
        n += 1
    return mentions


def is_pronoun(token: Token) -> bool:
    """Return whether a token is a pronoun; `US` and `IT` are none."""
    return token.lower in PRONOUNS and (len(token.form) == 1 or not token.form.isupper())


def _name_end(
    tokens: Sequence[Token], n: int, lower_forms: set[str], inner_names: set[str]
) -> int | None:
    """Return the last token of a name that begins at token n; None where none begins."""
    if n >= len(tokens) or not _in_name(tokens[n]):
        return None
    last, place = n, n + 1
    # Capitalised words of two sentences are two names.
    while place < len(tokens) and tokens[place].sentence == tokens[n].sentence:
        if _in_name(tokens[place]):
            last = place
        # At most two small words in a row, as in `van der`; further ones begin something else.
        elif tokens[place].form not in LINKS_IN_NAMES or place > last + 2:
            break
        place += 1
    if last == n:
        token = tokens[n]
        if token.form in DATES or (token.form in TITLES and not token.first):
            return None
        # A word that begins a sentence is capitalised in any case.
        if token.first and token.form not in inner_names:
            ordinary = token.lower in lower_forms or token.lower.endswith(("ed", "ing", "ly"))
            if ordinary:
                return None
    return last


def _in_name(token: Token) -> bool:
    if is_pronoun(token) or (token.lower in FUNCTION_WORDS and token.lower not in PRONOUNS):
        return False  # such as one that begins a sentence
    return token.capitalised and not token.verb_like


def _noun_end(tokens: Sequence[Token], n: int) -> int | None:
    """Return the last token of the noun phrase that a determiner at token n begins, if any."""
    place = n + 1
    while place < len(tokens) and place - n <= LONGEST_NOUN_PHRASE:
        token = tokens[place]
        if (
            not token.is_word
            or token.capitalised
            or token.lower in FUNCTION_WORDS - {"own", "same"}
        ):
            break
        # A verb ends the phrase once there is a noun: `the old man walked`, but `the armed man`.
        if place > n + 1 and token.verb_like:
            break
        place += 1
    last = place - 1
    # `the dog chases the cat`: the verb has the ending of a plural.
    if last > n + 1 and _is_present_verb(tokens, last):
        last -= 1
    if last == n or tokens[last].lower in ("own", "same"):
        return None
    # `the British actor Tom`: the name behind it is the mention.
    return last


def _is_present_verb(tokens: Sequence[Token], n: int) -> bool:
    """Return whether a word in -s behind a noun is its verb: an object follows it."""
    word, following = tokens[n].lower, tokens[n + 1].lower if n + 1 < len(tokens) else ""
    ends_as_verb = (
        # Behind a plural a verb ends without -s, so such a word is a noun.
        word.endswith("s") and not word.endswith("ss") and not tokens[n - 1].lower.endswith("s")
    )
    return ends_as_verb and (
        following in DETERMINERS or following in PRONOUNS or following in BEHIND_VERBS
    )


def _role(tokens: Sequence[Token], first: int, last: int) -> str:
    """Return a mention's part in its clause, guessed from its neighbours."""
    form = tokens[first].lower
    before = tokens[first - 1].lower if first else ""
    after = tokens[last + 1] if last + 1 < len(tokens) else None
    if first == last and form in PRONOUNS:
        if form in REFLEXIVES:
            return "reflexive"
        if form in ("his", "its", "their", "my", "your", "our"):
            return "possessive"
        if form == "her":
            # `her` is an object where no noun follows.
            noun = after is not None and after.is_word and after.lower not in FUNCTION_WORDS
            if noun or (after is not None and after.lower in ("own", "first", "last", "two")):
                return "possessive"
            return "prepositional" if before in PREPOSITIONS else "object"
        # `it` and `you` have one form for subject and object, so their neighbours decide.
        if form in SUBJECT_PRONOUNS and form not in ("it", "you"):
            return "subject"
    # `Anna's car` is a possessive; in `Anna's been` and `Anna's the` the clitic is a verb.
    if after is not None and after.lower in CLITICS and after.end - after.start == 2:
        following = tokens[last + 2] if last + 2 < len(tokens) else None
        if following is None or following.lower not in AUXILIARIES | DETERMINERS:
            return "possessive"
    if before in PREPOSITIONS:
        return "prepositional"
    # `Anna quickly left`: the verb stands behind the adverb.
    adverb = after is not None and after.lower.endswith("ly") and last + 2 < len(tokens)
    if adverb:
        after = tokens[last + 2]
    if after is not None and after.verb_like:
        return "subject"
    # Behind the test of subjects: `said Anna left` has a verb on both sides.
    if first and tokens[first - 1].verb_like:
        return "object"
    if before in CONJUNCTIONS:
        return "joined"
    return "other"
