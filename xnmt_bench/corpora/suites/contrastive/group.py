"""Contrastive test sets: true translations among variants that only the context rules out."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from xnmt_bench.corpora.passage import Passage
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.store import fingerprint


@dataclass(frozen=True, slots=True)
class Variant:
    """One translation of a group's source.

    Attributes:
        text: of the current sentence.
        context: the target sentences before it, the nearest last.
    """

    text: str
    context: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Antecedent:
    """Where the noun stands that the context decides by.

    Attributes:
        distance: how many sentences before the current one; 0 is the current one itself.
        words: its source words, in their own spelling.
    """

    distance: int
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A source and its variants, one of which is true.

    Attributes:
        source: the current sentence.
        variants: its translations.
        true: which of them is the true one.
        source_context: the source sentences before it, the nearest last.
        following: the source sentences behind it.
        distance: how many sentences back the context decides; None if unknown.
        pronoun: of the true translation, in sets of pronouns.
        unit: groups of one unit depend on each other; the source with its context, if empty.
        antecedent: where it is annotated.
    """

    source: str
    variants: tuple[Variant, ...]
    true: int
    source_context: tuple[str, ...] = ()
    following: tuple[str, ...] = ()
    distance: int | None = None
    pronoun: str = ""
    unit: str = ""
    antecedent: Antecedent | None = None

    @property
    def source_unit(self) -> str:
        """What it depends on with other groups."""
        # Groups of one source with one context are decided alike, so they are resampled together.
        return self.unit or "\n".join((*self.source_context, self.source))

    def passages(self) -> list[Passage]:
        """Return its variants, each a sentence pair behind its context."""
        return [
            Passage(self.source, v.text, self.source_context, v.context, self.following)
            for v in self.variants
        ]

    def map(self, source: Callable[[str], str], target: Callable[[str], str]) -> Group:
        """Return the same group with all texts of a side changed."""
        variants = (Variant(target(v.text), tuple(map(target, v.context))) for v in self.variants)
        antecedent = self.antecedent
        if antecedent:
            # Changed with its side, or it would not be found in it.
            words = split_words(source(" ".join(antecedent.words)))
            antecedent = replace(antecedent, words=tuple(words))
        return replace(
            self,
            source=source(self.source),
            variants=tuple(variants),
            source_context=tuple(map(source, self.source_context)),
            following=tuple(map(source, self.following)),
            antecedent=antecedent,
        )


@dataclass(frozen=True)
class ContrastiveSet:
    """A test set of one phenomenon.

    Attributes:
        name: in results.
        lang_pair: such as `en-de`.
        groups: in the set's own order.
        generated: the sentences were made by a program.
        numbers: of each group in the set, where only some of its groups are here.
    """

    name: str
    lang_pair: str
    groups: Sequence[Group]
    generated: bool = False
    numbers: Sequence[int] | None = None

    @cached_property
    def fingerprint(self) -> str:
        """Of everything that it says."""
        # Only groups, so that a set under another name shares its scores.
        return fingerprint({"groups": [asdict(group) for group in self.groups]})

    @property
    def test_set(self) -> str:
        """What a unit's number counts in: its content too, so that only the same groups pair."""
        return f"{self.lang_pair} {self.name} {self.fingerprint}"

    def number(self, index: int) -> int:
        """Return a group's number in the set, from 0."""
        return index if self.numbers is None else self.numbers[index]

    def taken(self, numbers: Sequence[int]) -> ContrastiveSet:
        """Return some of its groups, in the given order."""
        # Numbers stay those of the published set, by which other tools name groups.
        kept = [self.number(n) for n in numbers]
        return replace(self, groups=[self.groups[n] for n in numbers], numbers=kept)

    def map(self, source: Callable[[str], str], target: Callable[[str], str]) -> ContrastiveSet:
        """Return the same set with all texts of a side changed."""
        return replace(self, groups=[group.map(source, target) for group in self.groups])


def checked(group: Group) -> Group:
    """Return the group, if it is one.

    Raises:
        ValueError: it has fewer than two variants, or no such true one.
    """
    if len(group.variants) < 2:  # accuracy would be 1 by definition
        raise ValueError("a group needs at least two variants")
    if not 0 <= group.true < len(group.variants):
        raise ValueError(
            f"the true variant is number {group.true}, but there are {len(group.variants)}, "
            "counted from 0"
        )
    return group


def described(group: Group, phenomenon: str) -> dict[str, Any]:
    """Return a group in the plain form of this project, without what is empty."""
    # A shared context is written once.
    [*contexts] = {v.context for v in group.variants}
    shared = len(contexts) == 1
    fields = {
        "source": group.source,
        "variants": [v.text if shared else [*v.context, v.text] for v in group.variants],
        "true": group.true,
        "source_context": list(group.source_context),
        "target_context": list(contexts[0]) if shared else [],
        "following": list(group.following),
        "distance": group.distance,
        "pronoun": group.pronoun,
        "unit": group.unit,
        "phenomenon": phenomenon,
    }
    return {name: value for name, value in fields.items() if value not in ("", [], None)}


def to_lines(sets: Sequence[ContrastiveSet]) -> str:
    """Return the sets in the plain form: JSON lines, the first of which names the languages."""
    # One file has one header, and so one pair.
    [lang_pair] = {s.lang_pair for s in sets}
    lines = [{"lang_pair": lang_pair, "generated": any(s.generated for s in sets)}]
    lines += [described(group, s.name) for s in sets for group in s.groups]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
