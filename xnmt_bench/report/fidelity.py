"""The rows of the fidelity table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from xnmt_bench.metrics.bootstrap import interval
from xnmt_bench.metrics.perplexity import DecisionScores, perplexity
from xnmt_bench.parquet import read_table
from xnmt_bench.report.fragments import Fragment
from xnmt_bench.report.summary import Row
from xnmt_bench.store import verified

IDENTITY = (
    "corpus",
    "lang_pair",
    "nmt",
    "explainer",
    "k",
    "scenario",
    "learned_from",
    "instantiation",
    "seed",
    "train_sentences",
)
COLUMNS = (
    *IDENTITY,
    "ppl",
    "ppl_low",
    "ppl_high",
    "kl",
    "kl_low",
    "kl_high",
    "agreement",
    "decisions",
    "hit_at_k",
    "status",
    "signature",
)
FAMILY = ("fn", "rn", "sa")
USUAL = "teacher_forcing"  # the scenario that goes without saying


def scenario_text(row: Row) -> str:
    """The scenario of a row's test, and that of the training rules where it is not the usual."""
    learned = row.get("learned_from") or USUAL
    text = row["scenario"] + (f", learned from {learned}" if learned != USUAL else "")
    return text.replace("_", " ")


def unusual(row: Row) -> str:
    """The same, empty where it is the usual scenario, which goes without saying."""
    text = scenario_text(row)
    return "" if text == scenario_text({"scenario": USUAL}) else text


@dataclass(frozen=True)
class FidelityFragment(Fragment):
    """One perplexity; its scores are log-likelihoods of decisions.

    Attributes:
        valid_loss: a proxy's loss on its held-out part.
        hit_at_k: where the corpus knows the deciding words.
        quality: BLEU and more of the NMT system, with their signatures.
        facets: the Parquet file that says what kind of decision each is.
        kl: the Parquet file of each decision's KL divergence from the NMT model.
        sample: the JSON file of some of the sentences in pieces.
    """

    valid_loss: float | None = None
    hit_at_k: float | None = None
    quality: dict[str, Any] | None = None
    facets: str | None = None
    kl: str | None = None
    sample: str | None = None

    METRIC: ClassVar[str] = "fidelity"
    NAME: ClassVar[str] = "PPL"
    COLUMNS: ClassVar[tuple[str, ...]] = COLUMNS

    @classmethod
    def read(cls, results: Path) -> list[Self]:
        """As every fragment's, those of older versions among them.

        What was written before proxies could learn from another scenario says nothing of it; where
        the same number was measured again since, the older fragment gives way.
        """
        found: dict[tuple[Any, ...], Self] = {}
        for fragment in sorted(super().read(results), key=lambda f: "learned_from" in f.identity):
            told = {"learned_from": "" if fragment.identity["instantiation"] == "nmt" else USUAL}
            whole = replace(fragment, identity=told | fragment.identity)
            found[(*(whole.identity[c] for c in IDENTITY), whole.model)] = whole
        return list(found.values())

    def numbers(self, scores: Path, signature: str, samples: int, seed: int) -> Row:
        """Perplexity with its interval, and agreement."""
        decisions = DecisionScores.load(scores)
        score = perplexity(decisions, signature, samples, seed)
        row: Row = {}
        if self.kl is not None:
            row = divergence(Path(self.kl), samples, seed)
        return row | {
            "ppl": score.value,
            "ppl_low": score.low,
            "ppl_high": score.high,
            "agreement": decisions.agreement,
            "decisions": len(decisions),
            "hit_at_k": "" if self.hit_at_k is None else self.hit_at_k,
            "valid_loss": self.valid_loss,
            "quality": self.quality,
        }


def divergence(path: Path, samples: int, seed: int) -> Row:
    """Mean KL divergence in nats, with its interval over sentences."""
    table = read_table(verified(path), ("sentence", "kl"))
    kl_N = table["kl"].to_numpy()
    _, member = np.unique(table["sentence"].to_numpy(), return_inverse=True)
    sums, counts = np.bincount(member, kl_N), np.bincount(member)
    low, high = interval(lambda w: (w @ sums) / (w @ counts), len(counts), samples, seed)
    return {"kl": float(kl_N.mean()), "kl_low": low, "kl_high": high}


def collect(results: Path, samples: int, seed: int) -> list[Row]:
    """Every row of the fidelity table, Comb included, in reading order."""
    rows = [fragment.score(samples, seed) for fragment in FidelityFragment.read(results)]
    return sorted(rows + combined(rows), key=_reading_order)


def combined(rows: Iterable[Row]) -> list[Row]:
    """Comb: the minimum over the family on the test set (Algorithm 1, line 13).

    Beside it stands `comb_valid`, the one of the family that its validation loss would choose
    without a look at the test set.
    """
    groups: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in rows:
        if row["instantiation"] in FAMILY and row["status"] == "ok":
            key = tuple(row[c] for c in (*IDENTITY, "model") if c != "instantiation")
            groups.setdefault(key, {})[row["instantiation"]] = row
    made = []
    for family in groups.values():
        if len(family) == len(FAMILY):
            made.append(_chosen(family, "comb", "ppl"))
            made.append(_chosen(family, "comb_valid", "valid_loss"))
    return made


def _chosen(family: dict[str, Row], name: str, criterion: str) -> Row:
    best = min(family.values(), key=lambda row: row[criterion])
    signed = best["signature"].replace(
        f"instantiation:{best['instantiation']}", f"instantiation:{name}={best['instantiation']}"
    )
    return {**best, "instantiation": name, "signature": signed}


def _reading_order(row: Row) -> tuple[Any, ...]:
    instantiations = ("base", *FAMILY, "comb", "comb_valid", "unigram", "nmt")
    name = row["instantiation"]
    place = instantiations.index(name) if name in instantiations else len(instantiations)
    columns = ("corpus", "lang_pair", "nmt", "model", "scenario", "learned_from", "explainer")
    start = tuple(str(row[c]) for c in columns)
    numbers = (row["k"], row["train_sentences"], row["seed"])  # empty where it has no meaning
    return (*start, *(-1 if n == "" else n for n in numbers), place)
