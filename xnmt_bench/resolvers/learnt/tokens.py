"""Tokens of English text, and the closed classes of words that tell where a mention ends."""

from __future__ import annotations

import re
from dataclasses import dataclass

from xnmt_bench.corpora.text import key_of_word, word_lists

PIECES = re.compile(
    r"(?:Mr|Mrs|Ms|Dr|St|Jr|Sr|Prof|Capt|Col|Gen|Rev|Hon|Lt|Sgt)\.(?=\s)"
    r"|(?:[A-Z]\.)+(?=\s|[A-Z,'’]|$)"  # initials
    r"|\w+n['’]t\b"
    r"|['’](?:s|re|ve|ll|d|m)\b"
    r"|\w+(?:-\w+)*"
    r"|[^\w\s]"
)
SENTENCE_ENDS = frozenset(".!?")


def words(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


# Lists instead of a tagger, so that the resolver needs no other package's model. The list of verbs
# has irregular past forms and frequent verbs; the regular past is known by its ending.
WORDS = {name: frozenset(listed) for name, listed in word_lists(__package__, "words.tsv").items()}
DETERMINERS, POSSESSIVES = WORDS["determiners"], WORDS["possessives"]
PREPOSITIONS, CONJUNCTIONS = WORDS["prepositions"], WORDS["conjunctions"]
SUBORDINATORS, AUXILIARIES = WORDS["subordinators"], WORDS["auxiliaries"]
SUBJECT_PRONOUNS, REFLEXIVES = WORDS["subject pronouns"], WORDS["reflexives"]
# Capitalised in the middle of a sentence, and no person or thing that a pronoun refers to.
DATES = WORDS["dates"]
# The pronoun of each form, such as `he` of `him`, `Mr.` and `uncle`. Nouns are gendered by their
# meaning: occupations are left out, since their gender is a stereotype.
PRONOUNS, TITLES, GENDERED_NOUNS = (
    key_of_word({name.split()[1]: forms for name, forms in WORDS.items() if name.startswith(kind)})
    for kind in ("pronoun ", "title ", "noun ")
)
FUNCTION_WORDS = (
    DETERMINERS
    | POSSESSIVES
    | PREPOSITIONS
    | CONJUNCTIONS
    | SUBORDINATORS
    | AUXILIARIES
    | WORDS["other function words"]
    | frozenset(PRONOUNS)
)


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its place in its text.

    Attributes:
        form: as it is written.
        lower: the same in small letters.
        start, end: characters, from its first to behind its last.
        sentence: number of its sentence in the text.
        first: whether it begins a sentence; quotes and brackets before it do not count.
    """

    form: str
    lower: str
    start: int
    end: int
    sentence: int
    first: bool

    @property
    def capitalised(self) -> bool:
        """Whether it begins with a capital letter."""
        return self.form[0].isupper()

    @property
    def is_word(self) -> bool:
        """Whether it has letters or digits."""
        return self.form[0].isalnum()

    @property
    def verb_like(self) -> bool:
        """Whether it is an auxiliary, a listed verb or a regular past form."""
        lower = self.lower
        return (
            lower in AUXILIARIES
            or lower in WORDS["verbs"]
            or lower.endswith(("n't", "n’t"))
            # Of five letters or more, which leaves out `red` and `bed`.
            or (len(lower) > 4 and lower.endswith("ed") and not self.capitalised)
        )


def tokenize(text: str) -> list[Token]:
    """Return the tokens of an English text, raw or cut into words already."""
    tokens: list[Token] = []
    sentence, first, ended = 0, True, False
    for match in PIECES.finditer(text):
        form = match[0]
        is_word = form[0].isalnum()
        if ended and is_word:
            # A small letter goes on with a sentence, as after an abbreviation.
            if not form[0].islower():
                sentence, first = sentence + 1, True
            ended = False
        tokens.append(Token(form, form.lower(), *match.span(), sentence, first and is_word))
        first = first and not is_word
        # Kept until the next word: closing quotes still belong to the sentence.
        ended = ended or form in SENTENCE_ENDS
    return tokens
