"""A text while its pronouns are being read: entities so far, candidates and their features."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from xnmt_bench.resolvers.learnt.entities import SPEAKERS, Entity, join_names_and_nouns, name_words
from xnmt_bench.resolvers.learnt.lexicon import Lexicon
from xnmt_bench.resolvers.learnt.mentions import Mention, find_mentions
from xnmt_bench.resolvers.learnt.tokens import (
    CONJUNCTIONS,
    DETERMINERS,
    GENDERED_NOUNS,
    PREPOSITIONS,
    SUBORDINATORS,
    tokenize,
    words,
)

FARTHEST_BEFORE, FARTHEST_AFTER = 4, 1  # sentences between a pronoun and a candidate
PERSONAL = ("he", "she")
RESOLVED = ("he", "she", "it", "they")
ROLES = ("subject", "object", "possessive", "prepositional", "joined", "other", "reflexive")
# What follows an `it` that refers to nothing: `it rains`, `it is clear that`.
WEATHER = words("rains rained snows snowed rain snow")
EMPTY_BEFORE = words("is was 's ’s seems seemed appears appeared takes took turned turns")
EMPTY_WITH = words("that to who whether")
CLAUSE_ENDS = words(", . ; : ! ? because but and when")
PERSON_ENDINGS = ("er", "or", "ist", "ian", "man", "woman", "ant", "ent", "ess", "eer", "ary")


@dataclass(frozen=True)
class Candidate:
    """An entity that a pronoun may refer to.

    Attributes:
        entity: the entity.
        mention: its nearest mention: the latest before the pronoun, else the first behind it.
        after: whether that stands behind the pronoun.
    """

    entity: Entity
    mention: Mention
    after: bool


class Passage:
    """A text with its mentions and entities.

    Args:
        text: English, raw or cut into words.
        lexicon: genders of names and nouns of people.
    """

    def __init__(self, text: str, lexicon: Lexicon) -> None:
        self.tokens = tokenize(text)
        self.mentions = find_mentions(self.tokens)
        self.entities = join_names_and_nouns(self.tokens, self.mentions)
        self._lexicon = lexicon
        lower = [token.lower for token in self.tokens]
        # Sums up to each token, so that what stands between two places is a difference.
        self._sums = {
            "commas": [0, *accumulate(form in ",;:()–—" for form in lower)],
            "verbs": [0, *accumulate(token.verb_like for token in self.tokens)],
            "conjunctions": [0, *accumulate(form in CONJUNCTIONS for form in lower)],
            "subordinators": [0, *accumulate(form in SUBORDINATORS for form in lower)],
            "quotes": [0, *accumulate(form in "\"“”''``" for form in lower)],
            "brackets": [0, *accumulate((form == "(") - (form == ")") for form in lower)],
        }
        self._firsts = [mention.first for mention in self.mentions]
        starts: dict[int, int] = {}
        for n, token in enumerate(self.tokens):
            starts.setdefault(token.sentence, n)
        self._sentence_starts = starts

    @property
    def pronouns(self) -> list[Mention]:
        """The pronouns of the third person that refer to something, in the order of the text."""
        return [
            mention
            for mention in self.mentions
            if mention.pronoun in RESOLVED and not self._is_empty(mention)
        ]

    def _is_empty(self, pronoun: Mention) -> bool:
        """Return whether a pronoun is an `it` that refers to nothing."""
        if self._form(pronoun.first) != "it":
            return False
        # Seven words: `it is not at all clear that` still refers to nothing.
        following = [self._form(pronoun.first + n) for n in range(1, 8)]
        if following[0] in WEATHER:
            return True
        if following[0] not in EMPTY_BEFORE and "be" not in following[:3]:
            return False
        # `that`, `to` or `who` has to come before the clause ends.
        end = next((n for n, form in enumerate(following) if form in CLAUSE_ENDS), len(following))
        return not EMPTY_WITH.isdisjoint(following[1:end])

    def assign(self, pronoun: Mention, entity: Entity | None) -> None:
        """Make a pronoun a mention of an entity; of a new one where None is given."""
        if entity is None:
            entity = Entity()
            self.entities.append(entity)
        entity.mentions.append(pronoun)
        # A pronoun may stand before the name that it is assigned to.
        entity.mentions.sort(key=lambda mention: mention.first)
        # From now on a pronoun of another gender passes the entity by.
        if pronoun.pronoun in PERSONAL:
            entity.gender = pronoun.pronoun

    def candidates(self, pronoun: Mention) -> list[Candidate]:
        """Return the entities that a pronoun may refer to, the nearest mention of each.

        The subject of its verb is none of an object's: `her` of `Anna asked her` is not Anna.
        """
        here = self.tokens[pronoun.first].sentence
        candidates = []
        for entity in self.entities:
            if not self._may_be(entity, pronoun):
                continue
            before = [m for m in entity.mentions if m.last < pronoun.first]
            # A pronoun behind it is not read yet, so it cannot speak for its entity.
            after = [m for m in entity.mentions if m.first > pronoun.last and m.kind != "pronoun"]
            # Another person than the subject: else English says `herself`.
            if before and pronoun.role == "object" and self._is_last_subject(before[-1], pronoun):
                continue
            if before and here - self.tokens[before[-1].first].sentence <= FARTHEST_BEFORE:
                candidates.append(Candidate(entity, before[-1], False))
            elif after and self.tokens[after[0].first].sentence - here <= FARTHEST_AFTER:
                candidates.append(Candidate(entity, after[0], True))
        return candidates

    @staticmethod
    def _may_be(entity: Entity, pronoun: Mention) -> bool:
        pronouns = {m.pronoun for m in entity.mentions if m.kind == "pronoun"}
        if pronouns - {pronoun.pronoun}:
            return False  # another person, or the speaker
        gendered = pronoun.pronoun if pronoun.pronoun in PERSONAL else ""
        # `they` may be one person of either gender.
        if entity.gender in PERSONAL and entity.gender != gendered:
            return pronoun.pronoun == "they"
        return entity.mentions[0].pronoun not in SPEAKERS

    def features(self, pronoun: Mention, candidates: Sequence[Candidate]) -> np.ndarray:
        """Return the features of each candidate, (candidates, FEATURES) as float32."""
        rows = [self._row(pronoun, candidate) for candidate in candidates]
        if not rows:
            return np.zeros((0, len(FEATURES)), np.float32)
        # How a candidate stands among the others.
        # Any candidate before the pronoun counts as nearer than all behind it.
        tokens_away = np.array([row["tokens_away"] + 1e3 * row["after"] for row in rows])
        fit = np.array([row["gender_fit"] for row in rows])
        is_subject = np.array([row["candidate_subject"] for row in rows])
        people = np.array([row["is_name"] or row["person"] > 0 for row in rows])
        for n, row in enumerate(rows):
            nearer = tokens_away < tokens_away[n]
            row["nearer"] = nearer.sum()
            row["nearer_people"] = (nearer & people).sum()
            row["nearer_subjects"] = (nearer & (is_subject > 0)).sum()
            row["candidates"] = len(rows)
            row["people"] = people.sum()
            # A fit that another candidate has too tells little.
            row["best_other_fit"] = max(np.delete(fit, n), default=-9)
            row["is_nearest"] = not nearer.any()
        return np.array([[row[name] for name in FEATURES] for row in rows], np.float32)

    def _row(self, pronoun: Mention, candidate: Candidate) -> dict[str, float]:
        tokens, mention, entity = self.tokens, candidate.mention, candidate.entity
        first, last = sorted((mention, pronoun), key=lambda m: m.first)
        start, stop = first.last + 1, last.first
        same_sentence = tokens[mention.first].sentence == tokens[pronoun.first].sentence
        between = {name: sums[stop] - sums[start] for name, sums in self._sums.items()}
        in_between = self._between(start, stop)
        head = tokens[mention.last]
        nouns = [m for m in entity.mentions if m.kind == "noun"]
        names = [m for m in entity.mentions if m.kind == "name"]
        fit = self._gender_fit(pronoun, entity, names)
        place = self._place(mention)
        last_subject = not candidate.after and self._is_last_subject(mention, pronoun)
        row: dict[str, float] = {
            "pronoun": RESOLVED.index(pronoun.pronoun),
            "pronoun_role": ROLES.index(pronoun.role),
            "pronoun_place": self._place(pronoun),
            "pronoun_sentence": tokens[pronoun.first].sentence,
            "role": ROLES.index(mention.role),
            "candidate_subject": mention.role == "subject",
            "same_role": mention.role == pronoun.role,
            "last_subject": last_subject,
            "own_subject": last_subject and pronoun.role == "prepositional",
            "both_subjects": mention.role == pronoun.role == "subject",
            "is_name": bool(names),
            "is_noun": bool(nouns) and not names,
            "mention_is_pronoun": mention.kind == "pronoun",
            "only_pronouns": not names and not nouns,
            "after": candidate.after,
            "tokens_away": stop - start,
            "sentences_away": abs(tokens[mention.first].sentence - tokens[pronoun.first].sentence),
            "mentions_between": len(in_between),
            "names_between": sum(m.kind == "name" for m in in_between),
            "same_pronoun_between": sum(m.pronoun == pronoun.pronoun for m in in_between),
            "place": place,
            "first_in_sentence": not self._between(mention.first - place, mention.first),
            "length": mention.last - mention.first + 1,
            "bracketed": self._sums["brackets"][mention.first] > 0,
            "comma_before": mention.first > 0 and tokens[mention.first - 1].form == ",",
            "comma_behind": self._form(mention.last + 1) == ",",
            "and_before": self._form(mention.first - 1) in ("and", "or", "&"),
            "and_behind": self._form(mention.last + 1) in ("and", "or", "&"),
            "by_before": self._form(mention.first - 1) == "by",
            "of_before": self._form(mention.first - 1) == "of",
            "place_before": self._form(mention.first - 1) in ("in", "at", "from", "near"),
            "with_before": self._form(mention.first - 1) in ("with", "to", "for", "against"),
            "the_before": tokens[mention.first].lower in DETERMINERS,
            "definite": tokens[mention.first].lower == "the",
            "preposition_pronoun": self._form(pronoun.first - 1) in PREPOSITIONS,
            "conjunction_pronoun": self._form(pronoun.first - 1) in CONJUNCTIONS,
            "subordinator_pronoun": self._form(pronoun.first - 1) in SUBORDINATORS,
            "same_clause": same_sentence
            and not any(between[name] for name in ("commas", "subordinators", "conjunctions")),
            "entity_mentions": len(entity.mentions),
            "entity_names": len(names),
            "entity_same_pronouns": sum(m.kind == "pronoun" for m in entity.mentions),
            "earliest": entity.mentions[0].first,
            "is_earliest_name": self._is_earliest(entity),
            "gender_fit": fit,
            "gender_known": bool(entity.gender),
            "person": 0.0 if names else max((self._person(m) for m in nouns), default=0.0),
            "person_ending": not names and head.lower.endswith(PERSON_ENDINGS),
            "plural": head.lower.endswith("s") and not head.lower.endswith("ss"),
            "long_name": max((m.last - m.first + 1 for m in names), default=0),
            "upper": head.form.isupper() and len(head.form) > 1,
        }
        return row | {name: between[name] for name in BETWEEN}

    def _between(self, start: int, stop: int) -> list[Mention]:
        """Return the mentions that begin at or behind one token and before another."""
        return self.mentions[bisect_left(self._firsts, start) : bisect_left(self._firsts, stop)]

    def _is_last_subject(self, mention: Mention, pronoun: Mention) -> bool:
        """Return whether a mention is the last subject before a pronoun, in its sentence."""
        return (
            mention.role == "subject"
            and self.tokens[mention.first].sentence == self.tokens[pronoun.first].sentence
            and not any(m.role == "subject" for m in self._between(mention.last + 1, pronoun.first))
        )

    def _form(self, n: int) -> str:
        return self.tokens[n].lower if 0 <= n < len(self.tokens) else ""

    def _place(self, mention: Mention) -> int:
        return mention.first - self._sentence_starts[self.tokens[mention.first].sentence]

    def _is_earliest(self, entity: Entity) -> bool:
        named = (e for e in self.entities if any(m.kind == "name" for m in e.mentions))
        return next(named, None) is entity

    def _person(self, mention: Mention) -> float:
        noun = self.tokens[mention.last].lower
        # Certain by meaning, and rare nouns among them have no counts.
        if noun in GENDERED_NOUNS:
            return 5.0
        return self._lexicon.person(noun)

    def _gender_fit(self, pronoun: Mention, entity: Entity, names: Sequence[Mention]) -> float:
        """Return how well an entity's gender fits a pronoun, as log-odds; 0 for unknown."""
        if pronoun.pronoun not in PERSONAL:
            return 0.0
        if entity.gender:
            return 5.0  # `_may_be` leaves another gender out
        # Log-odds are of `he`.
        sign = 1 if pronoun.pronoun == "he" else -1
        odds = [
            self._lexicon.name_gender(forms[0])
            for forms in (name_words(self.tokens, name) for name in names)
            # A surname shows no gender.
            if len(forms) > 1 or forms[0] in self._lexicon.given_names
        ]
        # The clearest name speaks: a further nickname may be unknown.
        return sign * max(odds, key=abs, default=0.0)


BETWEEN = ("commas", "verbs", "conjunctions", "subordinators", "quotes")
_NAMES = """
pronoun pronoun_role pronoun_place pronoun_sentence role candidate_subject same_role last_subject
own_subject both_subjects is_name is_noun mention_is_pronoun only_pronouns after tokens_away
sentences_away mentions_between names_between same_pronoun_between place first_in_sentence length
bracketed comma_before comma_behind and_before and_behind by_before of_before place_before
with_before the_before definite preposition_pronoun conjunction_pronoun subordinator_pronoun
same_clause entity_mentions entity_names entity_same_pronouns earliest is_earliest_name gender_fit
gender_known person person_ending plural long_name upper commas verbs conjunctions subordinators
quotes nearer nearer_people nearer_subjects candidates people best_other_fit is_nearest
"""
FEATURES = tuple(_NAMES.split())
