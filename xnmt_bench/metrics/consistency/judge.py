"""What a translation says: the genders of entity, pronoun and other entity, and what follows.

A mention's gender is that of the target words that are linked to it (Yehudai et al. 2023, section
3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xnmt_bench.corpora.consistency import ARTICLES, Item, bare
from xnmt_bench.corpora.sentence import Links
from xnmt_bench.metrics.consistency.links import linked
from xnmt_bench.morphology import Gender, Morphology

# Why a sentence is left out, in the order in which they are asked.
# A plural pronoun (`they`) shows no gender, whatever its translation.
CAUSES = (
    "plural_pronoun",
    "entity_unlinked",
    "pronoun_unlinked",
    "entity_undetermined",
    "pronoun_undetermined",
)
CLUSTERS = ("right", "wrong", "both", "none", "unknown")


@dataclass(frozen=True)
class Judged:
    """One sentence.

    Attributes:
        entity, pronoun, other: the genders; None where undetermined.
        cause: why it is left out, one of `CAUSES`; empty where it counts.
        cluster: with which entity the pronoun goes, one of `CLUSTERS`; empty without another one,
            and of plural pronouns.
        linked: source and target words of entity and pronoun, which are linked.
    """

    entity: Gender | None
    pronoun: Gender | None
    other: Gender | None
    cause: str
    cluster: str
    linked: Sequence[tuple[int, int]]

    @property
    def consistent(self) -> bool:
        """Whether pronoun and entity have one gender."""
        return not self.cause and self.entity == self.pronoun


def judge(item: Item, words: Sequence[str], links: Links, morphology: Morphology) -> Judged:
    """Judges a translation.

    Args:
        item: of the suite.
        words: of the translation, between blanks.
        links: source words to these.
        morphology: of its language.
    """

    def of_entity(span: Sequence[int]) -> tuple[list[int], list[int], Gender | None]:
        head = span[:1] if morphology.first_word else span
        mention = _with_article(item.words, head)
        chosen = linked(links, mention)
        name = " ".join(bare(item.words[n]) for n in head)
        return mention, chosen, morphology.entity_gender(name, words, chosen)

    mention, entity_words, entity = of_entity(item.entity)
    pronoun_words = linked(links, [item.pronoun])
    pronoun = morphology.pronoun_gender(words, pronoun_words) if pronoun_words else None
    plural = item.gender == "n"
    causes = (plural, not entity_words, not pronoun_words, entity is None, pronoun is None)
    cause = next((name for name, holds in zip(CAUSES, causes, strict=True) if holds), "")
    other, cluster = None, ""
    if item.other:
        _, other_words, other = of_entity(item.other)
        every = (entity_words and entity, pronoun, other_words and other)
        cluster = "" if plural else _cluster(*(gender or None for gender in every))
    own = [(s, t) for s, t in sorted(links) if s in (*mention, item.pronoun)]
    return Judged(entity, pronoun, other, cause, cluster, own)


def _with_article(words: Sequence[str], span: Sequence[int]) -> list[int]:
    before = span[0] - 1
    return [before, *span] if before >= 0 and words[before].lower() in ARTICLES else list(span)


def _cluster(entity: Gender | None, pronoun: Gender | None, other: Gender | None) -> str:
    """With which entity the pronoun goes (Yehudai et al. 2023, Figure 1)."""
    if None in (entity, pronoun, other):
        return "unknown"
    goes = {(True, True): "both", (True, False): "right", (False, True): "wrong"}
    return goes.get((pronoun == entity, pronoun == other), "none")
