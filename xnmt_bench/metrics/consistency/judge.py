"""What a translation says: the genders of entity, pronoun and other entity, and what follows.

A mention's gender is that of the target words that are linked to it (Yehudai et al. 2023, section
3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xnmt_bench.corpora.sentence import Links
from xnmt_bench.corpora.suites.consistency.pronouns import bare, with_article
from xnmt_bench.corpora.suites.consistency.suite import Entity, Item, Suite
from xnmt_bench.metrics.consistency.mention_links import linked
from xnmt_bench.morphology import Gender, GenderEvidence, Morphology

# Why a pronoun is left out, in the order of the checks.
# A plural pronoun (`they`) shows no gender in any translation.
PLURAL = "plural_pronoun"
CAUSES = (
    *(PLURAL, "entity_unlinked", "pronoun_unlinked"),
    *("entity_undetermined", "pronoun_undetermined"),
)
CLUSTERS = ("right", "wrong", "both", "none", "unknown")


@dataclass(frozen=True)
class Translation:
    """A sentence's.

    Attributes:
        words: of it, between blanks.
        links: source words to these.
    """

    words: Sequence[str]
    links: Links


@dataclass(frozen=True)
class TranslatedMention:
    """A mention in a translation.

    Attributes:
        back: how many sentences before the pronoun's it stands.
        source: places of its words, with an article.
        target: places of the words that are linked to them.
        evidence: their gender; None where they show none.
    """

    back: int
    source: Sequence[int]
    target: Sequence[int]
    evidence: GenderEvidence | None

    @property
    def gender(self) -> Gender | None:
        """Of its words; None where it is undetermined or nothing is linked."""
        return self.evidence.gender if self.target and self.evidence else None


@dataclass(frozen=True)
class JudgedPronoun:
    """One pronoun.

    Attributes:
        entity, pronoun, other: in the translation; `other` is None where there is none.
        accurate: the entity has the gold gender, as far as the source tells one.
        expected: the pronoun is translated as in the right translation; None where no file
            knows that.
        cause: why it is left out, one of `CAUSES`; empty where it counts.
    """

    entity: TranslatedMention
    pronoun: TranslatedMention
    other: TranslatedMention | None
    accurate: bool
    expected: bool | None
    cause: str

    @property
    def consistent(self) -> bool:
        """Whether pronoun and entity have one gender."""
        return not self.cause and self.entity.gender == self.pronoun.gender

    @property
    def cluster(self) -> str:
        """With which entity the pronoun goes, one of `CLUSTERS` (Figure 1).

        Empty without another entity, and of plural pronouns.
        """
        if self.other is None or self.cause == PLURAL:
            return ""
        genders = [mention.gender for mention in (self.entity, self.pronoun, self.other)]
        if None in genders:
            return "unknown"
        # Compared with both: where the entities share a gender the pronoun decides nothing.
        entity, pronoun, other = genders
        # In every other case the pronoun goes with none.
        goes = {(True, True): "both", (True, False): "right", (False, True): "wrong"}
        return goes.get((pronoun == entity, pronoun == other), "none")


def judge(
    suite: Suite, item: Item, translations: Mapping[int, Translation], morphology: Morphology
) -> JudgedPronoun:
    """Judge the translation of a pronoun.

    Args:
        suite: that it is of.
        item: the pronoun.
        translations: of its sentence, and of those of its entities, by their numbers.
        morphology: of their language.
    """
    translation = translations[item.sentence]

    def seen(entity: Entity) -> TranslatedMention:
        spoken = translations[item.sentence - entity.back]
        # An old rule looks only at the first of several words.
        head = Entity(entity.words[: 1 if morphology.first_word else None], entity.back)
        # Target articles show gender where nouns do not, and are linked to the source's article.
        source = with_article(suite.words(item, entity), head.words)
        target = linked(spoken.links, source)
        name = suite.named(item, head)
        evidence = morphology.entity_gender(name, spoken.words, target, suite.personal(item))
        return TranslatedMention(entity.back, source, target, evidence)

    entity = seen(item.entity)
    # A pronoun without a link is not guessed from the sentence's other pronouns.
    places = linked(translation.links, [item.pronoun])
    evidence = (
        morphology.pronoun_gender(translation.words, places, suite.personal(item))
        if places
        else None
    )
    pronoun = TranslatedMention(0, [item.pronoun], places, evidence)
    causes = (
        # In the order of `CAUSES`, the first of which that holds is named.
        suite.plural(item),
        not entity.target,
        not places,
        entity.evidence is None,
        evidence is None,
    )
    # One cause for each pronoun, so that causes and `determined` sum to all of them.
    cause = next((name for name, holds in zip(CAUSES, causes, strict=True) if holds), "")
    # The other entity is not needed for consistency, so that it gives no cause.
    other = None if item.other is None else seen(item.other)
    # The released rules have a gender of what is not linked, which counts as its translation's.
    accurate = entity.evidence is not None and entity.evidence.gender == item.gender
    expected = (
        item.expected in [bare(translation.words[n]) for n in places] if item.expected else None
    )
    return JudgedPronoun(entity, pronoun, other, accurate, expected, cause)
