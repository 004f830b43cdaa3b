"""Attention over coreference links (Dinarelli et al. 2024, section 3.3).

Shapes: I words of the current sentence, N words of one context sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

ROUNDING = 1e-5  # relative: uniform weights that were rounded are still uniform


def significant(weights_IN: np.ndarray, whole_matrix: bool = False) -> np.ndarray:
    """Weights worth looking at, scaled so that the greatest is 1.

    First, raw weights at or below 1/N, what a uniform distribution over the context sentence would
    give, are dropped. Then what is left is divided by the greatest weight.

    Args:
        weights_IN: raw weights of the current sentence's words over one context sentence.
        whole_matrix: divide by the greatest weight of the matrix, not of each current word.
    """
    if not weights_IN.size:
        return weights_IN
    kept = np.where(weights_IN > (1 + ROUNDING) / weights_IN.shape[1], weights_IN, 0.0)
    greatest = kept.max() if whole_matrix else kept.max(axis=1, keepdims=True)
    return np.divide(kept, greatest, out=np.zeros_like(kept), where=greatest > 0)


@dataclass(frozen=True)
class Link:
    """A mention of the current sentence and one of its chain in a context sentence.

    Attributes:
        sentence: number of the current sentence.
        distance: how many sentences back the antecedent stands, from 1.
        weight: the greatest significant weight over the link's words; 0 where there is none.
        naive: mention and antecedent are the same words, or only words they share are attended to.
        needed: annotators said so; where they said nothing, the current sentence itself holds no
            antecedent of the mention.
        hard: some content word of the mention is none of its antecedent's.
    """

    sentence: int
    distance: int
    weight: float
    naive: bool
    needed: bool
    hard: bool

    @property
    def greatest(self) -> bool:
        """The link has the greatest weight in its context sentence."""
        return self.weight >= 1 - ROUNDING

    @property
    def nonzero(self) -> bool:
        """The link has a significant weight."""
        return self.weight > 0


@dataclass(frozen=True)
class Mention:
    """A mention as the metric sees it.

    Attributes:
        chain: the chain's name.
        words: its words' places.
        texts: its words.
        needed: whether its context is needed, where annotators said so.
    """

    chain: str
    words: tuple[int, ...]
    texts: tuple[str, ...]
    needed: bool | None = None


@dataclass(frozen=True)
class Attended:
    """How far the weights of one current word spread over one context sentence.

    Attributes:
        content: words with a significant weight, function words apart.
        function: function words and punctuation marks with a significant weight.
    """

    content: int
    function: int


@dataclass
class Looked:
    """Where a mention's significant weights are, over all its context sentences."""

    antecedent: bool = False  # some context sentence holds one
    anywhere: bool = False
    right: bool = False


@dataclass
class CorefScores:
    """Everything that the table of one explainer and side is computed from.

    Attributes:
        links: every coreference link.
        looked: for each mention of each sentence where it looks.
        spread: of each current word with a significant weight.
    """

    links: list[Link] = field(default_factory=list)
    looked: dict[tuple[int, Mention], Looked] = field(default_factory=dict)
    spread: list[Attended] = field(default_factory=list)

    @property
    def precise(self) -> list[bool]:
        """Of the mentions with an antecedent and any significant weight, who looks at one."""
        return [m.right for m in self.looked.values() if m.antecedent and m.anywhere]

    def add(
        self,
        sentence: int,
        distance: int,
        weights_IN: np.ndarray,
        current: Sequence[Mention],
        context: Sequence[Mention],
        context_words: Sequence[str],
        function_words: frozenset[str],
        links: Iterable[tuple[Mention, Mention]] | None = None,
    ) -> None:
        """Scores the links between a sentence and one of its context sentences.

        Args:
            sentence: number of the current sentence.
            distance: of the context sentence, from 1.
            weights_IN: significant weights, from `significant`.
            current: mentions of the current sentence.
            context: mentions of the context sentence.
            context_words: its N words.
            function_words: lower-cased words that do not make a mention hard.
            links: the pairs to score; every pair of one chain, if not given.
        """
        pairs = [(m, a) for m in current for a in context if m.chain == a.chain]
        for mention, antecedent in pairs if links is None else links:
            self.links.append(
                Link(
                    sentence,
                    distance,
                    _weight(weights_IN, mention, antecedent),
                    _naive(weights_IN, mention, antecedent),
                    _needed(mention, current),
                    _hard(mention, antecedent, function_words),
                )
            )
        for mention in current:
            attended = weights_IN[list(mention.words)].max(axis=0, initial=0.0) > 0
            right = [n for m, a in pairs if m == mention for n in a.words]
            looked = self.looked.setdefault((sentence, mention), Looked())
            looked.antecedent |= bool(right)
            looked.anywhere |= bool(attended.any())
            looked.right |= bool(attended[right].any())
        is_function = np.array([_is_function(w, function_words) for w in context_words], dtype=bool)
        for row in weights_IN > 0:
            if row.any():
                self.spread.append(
                    Attended(int((row & ~is_function).sum()), int((row & is_function).sum()))
                )


def _weight(weights_IN: np.ndarray, mention: Mention, antecedent: Mention) -> float:
    """One weight for a link of many words: the greatest."""
    return float(weights_IN[np.ix_(mention.words, antecedent.words)].max())


def _naive(weights_IN: np.ndarray, mention: Mention, antecedent: Mention) -> bool:
    ours, theirs = _lower(mention.texts), _lower(antecedent.texts)
    if ours == theirs:
        return True
    block = weights_IN[np.ix_(mention.words, antecedent.words)] > 0
    pairs = [(ours[i], theirs[n]) for i, n in np.argwhere(block)]
    return bool(pairs) and all(one == two for one, two in pairs)


def _hard(mention: Mention, antecedent: Mention, function_words: frozenset[str]) -> bool:
    ours, theirs = (
        {w for w in _lower(m.texts) if not _is_function(w, function_words)}
        for m in (mention, antecedent)
    )
    return bool(ours - theirs)


def _needed(mention: Mention, current: Sequence[Mention]) -> bool:
    if mention.needed is not None:
        return mention.needed
    # A heuristic: the current sentence does not name the chain before this mention does.
    return not any(m.chain == mention.chain and m.words < mention.words for m in current)


def _lower(texts: Sequence[str]) -> list[str]:
    return [text.lower() for text in texts]


def _is_function(word: str, function_words: frozenset[str]) -> bool:
    return word.lower() in function_words or not any(c.isalnum() for c in word)


@dataclass(frozen=True)
class CorefAttention:
    """The metrics of one explainer and side (Dinarelli et al. 2024, Tables 5 and 6).

    Attributes:
        links: number of coreference links.
        max_weight: share of links with the greatest weight of their context sentence.
        nonzero: share of links with a significant weight.
        average: mean weight of a link.
        naive: share of naive links.
        precision: of mentions that have an antecedent in the context and any significant
            attention there, the share that looks at a right one.
        dispersion: mean number of attended words, function words apart.
        dispersion_function: mean number of attended function words and punctuation marks.
    """

    links: int
    max_weight: float
    nonzero: float
    average: float
    naive: float
    precision: float
    dispersion: float
    dispersion_function: float


def coref_attention(scores: CorefScores, links: Sequence[Link] | None = None) -> CorefAttention:
    """The metrics over all links, or over some of them (by distance, needed, hard).

    Args:
        scores: of one explainer and side.
        links: some of its links.
    """
    chosen = scores.links if links is None else links
    return CorefAttention(
        len(chosen),
        _mean([link.greatest for link in chosen]),
        _mean([link.nonzero for link in chosen]),
        _mean([link.weight for link in chosen]),
        _mean([link.naive for link in chosen]),
        _mean(scores.precise),
        _mean([a.content for a in scores.spread]),
        _mean([a.function for a in scores.spread]),
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")
