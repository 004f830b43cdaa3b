"""Attention over coreference links (Dinarelli et al. 2024, section 3.3).

Shapes: I words of the current sentence, N words of one context sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from xnmt_bench.corpora.function_words import is_function
from xnmt_bench.measuring.metric import ratio
from xnmt_bench.measuring.units import Bounds, Units
from xnmt_bench.words.pieces import ROUNDING


@dataclass(frozen=True)
class Link:
    """A mention of the current sentence and one of its chain in a context sentence.

    Attributes:
        sentence: number of the current sentence.
        distance: how many sentences back the antecedent stands, from 1.
        weight: the greatest significant weight over the link's words; 0 where there is none.
        attends: the mention has a significant weight anywhere in the context sentence, right or
            wrong (Table 5, "positive attention").
        naive: of the antecedent's words only those are attended to that the mention has too.
        needed: annotators said so; where they said nothing, the current sentence itself holds no
            antecedent of the mention.
        hard: some content word of the mention is none of its antecedent's.
    """

    sentence: int
    distance: int
    weight: float
    attends: bool
    naive: bool
    needed: bool
    hard: bool


@dataclass(frozen=True)
class Verdict:
    """A pronoun that looks at a word of another gender than its antecedents, and at none of them.

    Attributes:
        sentence: number of the current sentence.
        wrong: its translation has the gender of what it looks at.
        right: its translation has the gender of an antecedent.
    """

    sentence: int
    wrong: bool
    right: bool


@dataclass(frozen=True)
class PlacedMention:
    """A mention with its words, in the system's tokenisation.

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


def same_chain(
    current: Iterable[PlacedMention], context: Iterable[PlacedMention]
) -> list[tuple[PlacedMention, PlacedMention]]:
    """Return each mention of a sentence with each of its chain in a context sentence."""
    return [(m, a) for m, a in product(current, context) if m.chain == a.chain]


@dataclass
class CorefScores:
    """Everything that the table of one explainer and side is computed from.

    Attributes:
        links: every coreference link.
        mentions: by sentence and mention, whether any context sentence holds an antecedent, whether
            it looks anywhere in the context, and whether at an antecedent.
        attended: for each current word with a significant weight and each context sentence, the
            sentence's number and how many content and function words it attends to there.
        judged: pronouns that look at a wrong antecedent; None without a morphology.
    """

    links: list[Link] = field(default_factory=list)
    mentions: dict[tuple[int, PlacedMention], np.ndarray] = field(default_factory=dict)
    attended: list[tuple[int, int, int]] = field(default_factory=list)
    judged: list[Verdict] | None = None

    def add(
        self,
        sentence: int,
        distance: int,
        weights_IN: np.ndarray,
        current: Sequence[PlacedMention],
        context: Sequence[PlacedMention],
        context_words: Sequence[str],
        function_words: frozenset[str],
        links: Iterable[tuple[PlacedMention, PlacedMention]] | None = None,
    ) -> None:
        """Score the links between a sentence and one of its context sentences.

        Args:
            sentence: number of the current sentence.
            distance: of the context sentence, from 1.
            weights_IN: from `significant`.
            current: mentions of the current sentence.
            context: mentions of the context sentence.
            context_words: its N words.
            function_words: lower-cased words that do not make a mention hard.
            links: the pairs to score; every pair of one chain, if not given.
        """
        pairs = same_chain(current, context)
        self.links += [
            _link(sentence, distance, weights_IN, current, pair, function_words)
            for pair in (pairs if links is None else links)
        ]
        for mention in current:
            # A mention looks where any of its words does.
            attended_N = weights_IN[list(mention.words)].max(axis=0, initial=0.0) > 0
            right = [n for m, a in pairs if m == mention for n in a.words]
            # By mention and not by link: with two antecedents it still looks right or wrong once.
            looks = self.mentions.setdefault((sentence, mention), np.zeros(3, dtype=bool))
            # In place, since a mention is met once for each context sentence.
            looks |= np.array([bool(right), attended_N.any(), attended_N[right].any()])
        function_N = np.array([is_function(w, function_words) for w in context_words], dtype=bool)
        for attended_N in weights_IN > 0:
            # Dispersion is of words that look at this sentence; others are left out of its mean.
            if attended_N.any():
                function = int((attended_N & function_N).sum())
                self.attended.append((sentence, int(attended_N.sum()) - function, function))

    def units(self, test_set: str, numbers: Sequence[int], subset: str) -> Units:
        """Sum by sentence over the links of a subset.

        Args:
            test_set: what `numbers` count in.
            numbers: of every sentence that was explained; the links' `sentence` are places in it.
            subset: which links count, a name in SUBSETS.
        """
        columns = {name: np.zeros(len(numbers)) for name in LINK_SUMS}
        for link in filter(SUBSETS[subset], self.links):
            # The greatest is scaled to 1; rounding may leave it just below.
            greatest, has_weight = link.weight >= 1 - ROUNDING, link.weight > 0
            # In each row: the share among needed links then comes without another pass.
            needed = link.needed, link.needed and has_weight
            values = (1, greatest, has_weight, link.weight, link.naive, link.attends, *needed)
            for name, value in zip(LINK_SUMS, values, strict=True):
                columns[name][link.sentence] += value
        if subset == "all":  # precision and dispersion belong to sentences, not to links
            columns |= {name: np.zeros(len(numbers)) for name in SENTENCE_SUMS}
            for (sentence, _), (antecedent, anywhere, right) in self.mentions.items():
                columns["looking"][sentence] += antecedent and anywhere
                columns["looking_right"][sentence] += antecedent and anywhere and right
            for sentence, *words in self.attended:
                for name, number in zip(SENTENCE_SUMS[2:], (1, *words), strict=True):
                    columns[name][sentence] += number
        if subset == "all" and self.judged is not None:  # a morphology was named
            columns |= {name: np.zeros(len(numbers)) for name in AGREEMENT_SUMS}
            for verdict in self.judged:
                judged = (1, verdict.wrong, verdict.right)
                for name, value in zip(AGREEMENT_SUMS, judged, strict=True):
                    columns[name][verdict.sentence] += value
        return Units(test_set, np.asarray(numbers, dtype=np.int64), columns)


LINK_SUMS = (
    *("links", "greatest", "nonzero", "weight", "naive", "positive"),
    *("needed", "needed_nonzero"),
)
AGREEMENT_SUMS = ("judged", "follows_wrong", "follows_right")
SENTENCE_SUMS = ("looking", "looking_right", "attending", "content", "function")
BOUNDS = {
    "links": Bounds(0),
    "needed_nonzero": Bounds(0, 1, of="needed"),
    **{name: Bounds(0, 1, of="links") for name in LINK_SUMS},
    "looking_right": Bounds(0, 1, of="looking"),
    "follows_*": Bounds(0, 1, of="judged"),
    **{name: Bounds(0) for name in (*SENTENCE_SUMS, *AGREEMENT_SUMS)},
}
# Which links a row counts (Dinarelli et al. 2024, Table 5; and how far the antecedent stands).
SUBSETS: dict[str, Callable[[Link], bool]] = {
    "all": lambda link: True,
    "distance 1": lambda link: link.distance == 1,
    "distance 2": lambda link: link.distance == 2,
    "distance 3": lambda link: link.distance == 3,
    "context needed": lambda link: link.needed,
    "context needed, hard": lambda link: link.needed and link.hard,
    "positive attention": lambda link: link.attends,
}


def coref_scores(sums_R: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the metrics of Dinarelli et al. (2024), Tables 5 and 6, from sums over sentences.

    Returns:
        Of links: `max_weight`, the share with the greatest weight of their context sentence;
        `nonzero`, the share with a significant weight; `average`, the mean weight; `naive`, the
        share of naive ones; `positive`, the share whose mention looks anywhere in their context
        sentence; `needed_nonzero`, of the links whose context is needed, the share with a
        significant weight. `precision`: of mentions that have an antecedent in the context and any
        significant weight there, the share that looks at a right one. `dispersion` and
        `dispersion_function`: attended words a word, content and function words. Where genders are
        known, of the pronouns that look at a word of another gender than their antecedents and at
        none of those (`judged` many): `follows_wrong`, whose translation has its gender, and
        `follows_right`, whose has theirs.
    """
    links_R = sums_R["links"]
    names = ("max_weight", "nonzero", "average", "naive", "positive")
    sums = zip(names, LINK_SUMS[1 : LINK_SUMS.index("needed")], strict=True)
    results = {name: ratio(sums_R[of_links], links_R) for name, of_links in sums}
    results["needed_nonzero"] = ratio(sums_R["needed_nonzero"], sums_R["needed"])
    results["links"] = links_R
    if "looking" in sums_R:
        results["precision"] = ratio(sums_R["looking_right"], sums_R["looking"])
        results["dispersion"] = ratio(sums_R["content"], sums_R["attending"])
        results["dispersion_function"] = ratio(sums_R["function"], sums_R["attending"])
    if "judged" in sums_R:
        results["judged"] = sums_R["judged"]
        for name in AGREEMENT_SUMS[1:]:
            results[name] = ratio(sums_R[name], sums_R["judged"])
    return results


def _link(
    sentence: int,
    distance: int,
    weights_IN: np.ndarray,
    current: Sequence[PlacedMention],
    pair: tuple[PlacedMention, PlacedMention],
    function_words: frozenset[str],
) -> Link:
    """Return a mention and its antecedent, with their weights and shared words.

    A naive link is one that was found (section 4, human evaluation): in Table 5 the same 32 of the
    concatenation model are 14.3 % of all its 224 cases and 27.1 % of the 118 attended ones.
    """
    mention, antecedent = pair
    rows_MN = weights_IN[list(mention.words)]
    block = rows_MN[:, list(antecedent.words)]  # the mention's rows, the antecedent's columns
    words, earlier = ([text.lower() for text in m.texts] for m in pair)
    attended = {earlier[n] for n in np.flatnonzero((block > 0).any(axis=0))}
    needed = mention.needed
    if needed is None:  # a heuristic: the sentence does not name the chain before this mention does
        needed = not any(m.chain == mention.chain and m.words < mention.words for m in current)
    return Link(
        sentence,
        distance,
        weight=float(block.max()),  # one weight for a link of many words: the greatest
        attends=bool((rows_MN > 0).any()),
        naive=bool(attended) and attended <= set(words),
        needed=needed,
        hard=any(w not in earlier and not is_function(w, function_words) for w in words),
    )
