"""Whether a smaller test set ranks explainers as the whole one (Li et al. 2020, Table 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from xnmt_bench.metrics.bootstrap import weights
from xnmt_bench.metrics.perplexity import DecisionScores, resampled

PROXIES = ("fn", "rn", "sa")  # the paper's family
Scores = Mapping[str, Sequence[DecisionScores]]  # explainer to the scores of each seed


def rank_stability(
    family: Mapping[str, Scores], shares: Sequence[float], samples: int, seed: int
) -> dict[str, list[float]]:
    """The rate at which samples order the explainers as the whole test set does.

    Args:
        family: instantiation to explainer to scores; all of the same sentences. Where the whole
            family of proxies is there, `comb` is the least of their perplexities in each sample.
        shares: sample sizes, as shares of the test set's sentences.
        samples: how many samples of each size are drawn, with replacement.
        seed: of the draws.

    Returns:
        For each instantiation the rate at each size.
    """
    names = list(next(iter(family.values())))
    first = next(iter(family.values()))[names[0]][0]
    sentences = len(np.unique(first.sentence_N))
    of = {i: [resampled(scores[name]) for name in names] for i, scores in family.items()}

    def perplexities(weights_RN: np.ndarray) -> dict[str, np.ndarray]:
        found = {i: np.stack([ppl(weights_RN) for ppl in row], axis=1) for i, row in of.items()}
        if set(PROXIES) <= set(found):
            found["comb"] = np.min([found[name] for name in PROXIES], axis=0)
        return found

    whole = {i: _order(ppl_RE) for i, ppl_RE in perplexities(np.ones((1, sentences))).items()}
    rates: dict[str, list[float]] = {i: [] for i in whole}
    for share in shares:
        drawn = max(1, round(share * sentences))
        same: dict[str, list[np.ndarray]] = {i: [] for i in whole}
        for block in weights(sentences, samples, seed, drawn):
            for i, ppl_RE in perplexities(block).items():
                same[i].append((_order(ppl_RE) == whole[i]).all(1))
        for i, parts in same.items():
            rates[i].append(float(np.concatenate(parts).mean()))
    return rates


def ordered(scores: Scores) -> list[str]:
    """The explainers from the least perplexity on the whole test set to the greatest."""
    return sorted(scores, key=lambda name: (np.mean([s.perplexity for s in scores[name]]), name))


def _order(perplexity_RE: np.ndarray) -> np.ndarray:
    return np.argsort(perplexity_RE, axis=1, kind="stable")
