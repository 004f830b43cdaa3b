"""What a morphology answers: of which gender the words are that name or refer to something."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import ClassVar, Literal, NamedTuple

import regex

from xnmt_bench.errors import XnmtError

Gender = Literal["m", "f", "n"]
_ATTACHED = regex.compile(r"^[^\p{L}\p{M}\p{N}_]+|[^\p{L}\p{M}\p{N}_]+$")


class GenderEvidence(NamedTuple):
    """A gender, and the word of the sentence that shows it."""

    gender: Gender
    by: str


def stripped(word: str) -> str:
    """Return a word without the punctuation that is attached to it."""
    # Marks stay: a vowel of Hindi or Thai, or a vowel point of Arabic, is one.
    return str(_ATTACHED.sub("", word))


def versions(language: str, extra: str, *packages: str) -> str:
    """Return the versions of packages.

    Args:
        language: as a message names it.
        extra: of this project, which brings the packages.
        packages: their names.

    Raises:
        XnmtError: one is missing; the line names the extra.
    """
    try:
        return ", ".join(f"{name} {version(name)}" for name in packages)
    except PackageNotFoundError as error:
        problem = f"{error.name} is not installed: pip install 'xnmt_bench[{extra}]'"
        raise XnmtError(f"the genders of {language} words: {problem}") from None


def by_form(masculine: str, feminine: str, neuter: str = "") -> dict[str, Gender]:
    """Return the gender of each form, of texts that list the forms of each gender."""
    by_gender: dict[Gender, str] = {"m": masculine, "f": feminine, "n": neuter}
    return {form: gender for gender, words in by_gender.items() for form in words.split()}


class Morphology(ABC):
    """Of one language; a plug-in declares one in the entry-point group `xnmt_bench.morphologies`.

    Attributes:
        language: such as `de`.
        version: of the rules and of the dictionary; another one may give other genders.
        first_word: of an entity of several words, only the first's translation is looked at.
        pronouns: the genders of pronouns by their forms, in lower case; the first masculine form is
            the nominative. Empty where they need more than a list.
        usual: whether its language takes it, unless told otherwise.
    """

    language: ClassVar[str]
    first_word: ClassVar[bool] = False
    usual: ClassVar[bool] = True
    pronouns: ClassVar[Mapping[str, Gender]] = {}
    version: str

    @abstractmethod
    def gender(self, words: Sequence[str], chosen: Sequence[int]) -> GenderEvidence | None:
        """Return the grammatical gender of what some words of a sentence name or refer to.

        Args:
            words: the whole sentence, which may be looked at.
            chosen: places of the words, such as an article and its noun, or a pronoun.

        Returns:
            None where the form does not tell, as in the plural, or where the words are unknown.
        """

    def pronoun_gender(
        self, words: Sequence[str], chosen: Sequence[int], personal: bool = True
    ) -> GenderEvidence | None:
        """Return the gender that a pronoun or possessive shows by its form, and by nothing else.

        Args:
            words: the whole sentence.
            chosen: places of the words that are linked to a pronoun, not all of them pronouns.
            personal: it refers to a person, so that a masculine or neuter form is masculine.
        """
        if not self.pronouns:
            return self.gender(words, chosen)
        # Punctuation hangs on words where text is not tokenised.
        forms = (stripped(words[place]).lower() for place in chosen)
        form = next((form for form in forms if form in self.pronouns), "")
        masculine = [form for form, gender in self.pronouns.items() if gender == "m"]
        # All masculine forms but the nominative may be neuter, so of a thing they do not tell.
        if not form or (form in masculine[1:] and not personal):
            return None
        return GenderEvidence(self.pronouns[form], form)

    def entity_gender(
        self, entity: str, words: Sequence[str], chosen: Sequence[int], personal: bool = True
    ) -> GenderEvidence | None:
        """Return the gender of an entity's translation; its name in the source may help.

        Args:
            entity: the source's words, in lower case.
            words: the translation.
            chosen: places of the words that are linked to it, which may be none.
            personal: it is a person, so that a masculine or neuter form is masculine.
        """
        return self.gender(words, chosen)
