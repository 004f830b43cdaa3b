"""Evidence of single words: the gender of given names, and which nouns name people."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from functools import cached_property

Pair = tuple[int, int]
STRENGTH = 2.0  # of the backing-off estimate, in counts
ENDING = 2  # letters of a name that its ending has


class Lexicon:
    """Counts from texts whose coreference people have annotated.

    Args:
        given_names: first words of names, each with how often `he` and `she` stood for it.
        nouns: each with how often it named a person, and how often not.
    """

    def __init__(self, given_names: Mapping[str, Pair], nouns: Mapping[str, Pair]) -> None:
        self.given_names, self.nouns = dict(given_names), dict(nouns)

    @cached_property
    def _endings(self) -> dict[str, Pair]:
        he, she = Counter[str](), Counter[str]()
        for name, (masculine, feminine) in self.given_names.items():
            # One name is one piece of evidence for its ending, however often it is there.
            he[name[-ENDING:].lower()] += masculine > feminine
            she[name[-ENDING:].lower()] += feminine > masculine
        return {ending: (he[ending], she[ending]) for ending in he.keys() | she.keys()}

    def name_gender(self, name: str) -> float:
        """Return the log-odds that `he` and not `she` is the pronoun of a given name.

        An unknown name has those of its last letters, which count less.
        """
        he, she = self._endings.get(name[-ENDING:].lower(), (0, 0))
        # One of each is added, so that an ending seen once does not decide.
        share = (he + 1.0) / (he + she + 2.0)
        he, she = self.given_names.get(name, (0, 0))
        return math.log((he + STRENGTH * share) / (she + STRENGTH * (1 - share)))

    def person(self, noun: str) -> float:
        """Return the log-odds that a noun names a person; 0 where it is unknown."""
        # Half a count of each keeps the logarithm finite, and unknown nouns at 0.
        person, other = self.nouns.get(noun, (0, 0))
        return math.log((person + 0.5) / (other + 0.5))
