"""Fidelity beside AER: whether the two rank explainers alike (Li et al. 2020, Table 7)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xnmt_bench.errors import StoreError
from xnmt_bench.metrics.aer import LinkCounts
from xnmt_bench.metrics.bootstrap import weights
from xnmt_bench.metrics.perplexity import DecisionScores, resampled
from xnmt_bench.metrics.ranking import kendall_tau, ranks
from xnmt_bench.report.alignment import AlignmentFragment
from xnmt_bench.report.fidelity import USUAL, FidelityFragment
from xnmt_bench.report.fragments import Fragment
from xnmt_bench.report.summary import digits

log = logging.getLogger(__name__)
SYSTEM = ("corpus", "lang_pair", "nmt")
# Their places are known before anything is measured, and would flatter the agreement.
NOT_RANKED = ("random", "gold_alignment")
Resampled = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Place:
    """Where one explainer stands in both rankings; seeds are averaged."""

    ppl: float
    by_ppl: int
    by_aer: int

    def texts(self) -> tuple[str, str, str]:
        """The cells of a table."""
        return digits(self.ppl), str(self.by_ppl), str(self.by_aer)


@dataclass(frozen=True)
class Agreement:
    """How the two rankings of one system's explainers agree.

    Attributes:
        system: corpus, language pair, NMT system and fingerprint.
        condition: which perplexities these are.
        tau: Kendall's tau of the two rankings.
        low: lower end of its 95 % bootstrap interval over sentences.
        high: its upper end.
        same: share of bootstrap samples in which both metrics give one and the same order.
        samples: how many there are.
        places: of each explainer.
    """

    system: tuple[str, ...]
    condition: str
    tau: float
    low: float
    high: float
    same: float
    samples: int
    places: dict[str, Place]

    def __str__(self) -> str:
        return (
            f"{' '.join(self.system[:3])}: rankings by SA perplexity ({self.condition}) and by AER "
            f"agree with Kendall's tau {self.tau:.2f} [{self.low:.2f}, {self.high:.2f}] over "
            f"{len(self.places)} explainers; {100 * self.same:.0f} % of {self.samples:,} bootstrap "
            "samples give both the same order."
        )


def agreements(
    fidelity: Sequence[FidelityFragment],
    alignment: Sequence[AlignmentFragment],
    k: int,
    samples: int,
    seed: int,
) -> list[Agreement]:
    """Every system whose explainers have both an SA perplexity at k and a forward AER.

    Both metrics are resampled with the same draws of the sentences that both have judged. Where
    proxies of several training sizes are there, the largest counts.
    """
    by_ppl: dict[tuple[str, ...], dict[str, list[Fragment]]] = {}
    by_aer: dict[tuple[str, ...], dict[str, list[Fragment]]] = {}
    usual = {"scenario": USUAL, "learned_from": USUAL}
    wanted = [f for f in fidelity if _is(f, instantiation="sa", k=k, **usual)]
    largest = {
        system: max(f.identity["train_sentences"] for f in wanted if _system(f) == system)
        for system in map(_system, wanted)
    }
    for f in wanted:
        if f.identity["train_sentences"] == largest[_system(f)]:
            _file(by_ppl, f)
    for g in alignment:
        if _is(g, alignment="forward"):
            _file(by_aer, g)
    found = []
    for system in sorted(by_ppl.keys() & by_aer.keys()):
        names = sorted(by_ppl[system].keys() & by_aer[system].keys())
        if len(names) > 1:
            pairs = {name: (by_ppl[system][name], by_aer[system][name]) for name in names}
            condition = f"k = {k}, {largest[system]:,} training sentences"
            try:
                found.append(_agreement(system, condition, pairs, samples, seed))
            except StoreError as error:  # the row of it says so too
                log.warning("no agreement of rankings for %s: %s", " ".join(system[:3]), error)
    return found


def _is(fragment: Fragment, **wanted: Any) -> bool:
    ranked = fragment.scores is not None and fragment.identity["explainer"] not in NOT_RANKED
    return ranked and all(fragment.identity[key] == value for key, value in wanted.items())


def _system(fragment: Fragment) -> tuple[str, ...]:
    return (*(fragment.identity[c] for c in SYSTEM), fragment.model)


def _file(groups: dict[tuple[str, ...], dict[str, list[Fragment]]], fragment: Fragment) -> None:
    groups.setdefault(_system(fragment), {}).setdefault(fragment.identity["explainer"], []).append(
        fragment
    )


def _agreement(
    system: tuple[str, ...],
    condition: str,
    pairs: dict[str, tuple[list[Fragment], list[Fragment]]],
    samples: int,
    seed: int,
) -> Agreement:
    decisions = {n: [DecisionScores.load(_path(f)) for f in both[0]] for n, both in pairs.items()}
    counts = {n: [LinkCounts.load(_path(f)) for f in both[1]] for n, both in pairs.items()}
    judged = [np.unique(d.sentence_N) for parts in decisions.values() for d in parts]
    judged += [c.sentence_N for parts in counts.values() for c in parts]
    common = judged[0]
    for numbers in judged[1:]:
        common = np.intersect1d(common, numbers)
    ppl = [resampled(parts, common) for parts in decisions.values()]
    aer = [_mean([_aer(c, common) for c in parts]) for parts in counts.values()]
    whole = np.ones((1, len(common)))
    blocks = [whole, *weights(len(common), samples, seed)]
    ppl_RE = np.concatenate([np.stack([of(w) for of in ppl], axis=1) for w in blocks])
    aer_RE = np.concatenate([np.stack([of(w) for of in aer], axis=1) for w in blocks])
    tau_R = kendall_tau(ppl_RE, aer_RE)
    low, high = np.percentile(tau_R[1:], [2.5, 97.5])
    ranked = [ranks(ppl_RE), ranks(aer_RE)]
    same = (ranked[0] == ranked[1]).all(1)[1:].mean()
    places = {
        name: Place(float(ppl_RE[0, e]), int(ranked[0][0, e]), int(ranked[1][0, e]))
        for e, name in enumerate(pairs)
    }
    tau = float(tau_R[0])
    return Agreement(system, condition, tau, float(low), float(high), float(same), samples, places)


def _path(fragment: Fragment) -> Path:
    assert fragment.scores is not None
    return Path(fragment.scores)


def _mean(parts: Sequence[Resampled]) -> Resampled:
    return lambda weights_RN: np.mean([part(weights_RN) for part in parts], axis=0)


def _aer(counts: LinkCounts, sentences: np.ndarray) -> Resampled:
    return counts.take(np.isin(counts.sentence_N, sentences)).resampled
