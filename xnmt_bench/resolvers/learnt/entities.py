"""Entities of a text: its names and nouns joined by their words, before any pronoun is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xnmt_bench.resolvers.learnt.mentions import Mention
from xnmt_bench.resolvers.learnt.tokens import DETERMINERS, GENDERED_NOUNS, TITLES, Token, words

INDEFINITE = words("a an another some any no each every")
SPEAKERS = ("i", "we", "you")  # pronouns that refer to the same people throughout a sentence


@dataclass
class Entity:
    """Mentions that are taken for one person or thing.

    Attributes:
        mentions: in the order of the text.
        gender: `he` or `she`, where a title or a noun's meaning tells.
    """

    mentions: list[Mention] = field(default_factory=list)
    gender: str = ""


def name_words(tokens: Sequence[Token], mention: Mention) -> tuple[str, ...]:
    """Return the words of a name without determiner and title."""
    forms = [tokens[n].form for n in range(mention.first, mention.last + 1)]
    bare = [form for form in forms if form not in TITLES and form.lower() not in DETERMINERS]
    return tuple(bare or forms)


def join_names_and_nouns(tokens: Sequence[Token], mentions: Sequence[Mention]) -> list[Entity]:
    """Return entities of all mentions but the pronouns, in the order of their first mentions.

    Names are one entity where one holds all words of the other and no title differs in gender; the
    latest such entity is taken. Noun phrases are one where their nouns are equal and the later one
    is definite. `I`, `we` and `you` are one entity each, without any name.
    """
    entities: list[Entity] = []
    for mention in mentions:
        if mention.kind == "pronoun":
            # Other pronouns have no entity yet: the model assigns them one by one.
            if mention.pronoun in SPEAKERS:
                _add_speaker(entities, mention)
            continue
        gender = _gender(tokens, mention)
        entity = next(
            (
                entity
                # From the latest, since texts name again whom they named last.
                for entity in reversed(entities)
                if _same(tokens, entity, mention) and not {"he", "she"} <= {gender, entity.gender}
            ),
            None,
        )
        if entity is None:
            entity = Entity()
            entities.append(entity)
        entity.mentions.append(mention)
        # The first title or noun that shows a gender decides; another gender was refused above.
        entity.gender = entity.gender or gender
    return entities


def _add_speaker(entities: list[Entity], mention: Mention) -> None:
    for entity in entities:
        if entity.mentions[0].pronoun == mention.pronoun:
            entity.mentions.append(mention)
            return
    entities.append(Entity([mention]))


def _gender(tokens: Sequence[Token], mention: Mention) -> str:
    forms = [tokens[n].form for n in range(mention.first, mention.last + 1)]
    if mention.kind == "name":
        return next((TITLES[form] for form in forms if form in TITLES), "")
    return GENDERED_NOUNS.get(forms[-1].lower(), "")


def _same(tokens: Sequence[Token], entity: Entity, mention: Mention) -> bool:
    """Return whether a name or noun repeats one of an entity's."""
    if mention.kind == "noun":
        if tokens[mention.first].lower in INDEFINITE:
            return False
        return any(
            other.kind == "noun"
            and tokens[other.last].lower == tokens[mention.last].lower
            # `his car` and `her car` are two cars.
            and tokens[other.first].lower in {*INDEFINITE, "the", tokens[mention.first].lower}
            for other in entity.mentions
        )
    # By words and not by equal text: a second mention is often only the surname.
    own_words = set(name_words(tokens, mention))
    return any(
        own_words <= (others := set(name_words(tokens, other))) or others <= own_words
        for other in entity.mentions
        if other.kind == "name"
    )
