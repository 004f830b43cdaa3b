"""What a morphology answers: of which gender the words are that name or stand for something."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal

Gender = Literal["m", "f", "n"]


class Morphology(ABC):
    """Of one language; a plug-in declares one in the entry-point group `xnmt_bench.morphologies`.

    Attributes:
        language: such as `de`.
        version: of the rules and of the dictionary; another one may give other genders.
    """

    language: ClassVar[str]
    version: str

    @abstractmethod
    def gender(self, words: Sequence[str], chosen: Sequence[int]) -> Gender | None:
        """The grammatical gender of what some words of a sentence name or stand for.

        Args:
            words: the whole sentence, which may be looked at.
            chosen: places of the words, such as an article and its noun, or a pronoun.

        Returns:
            None where the form does not tell, as in the plural, or where the words are unknown.
        """
