"""Fragments: what each job says of itself, and the table that is collected from them.

A job writes a small file of its own for each number; nobody writes the table but the collector. So
parallel jobs cannot spoil it, and a job that runs again replaces what it said before.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xnmt_bench.errors import StoreError
from xnmt_bench.metrics.perplexity import DecisionScores, perplexity
from xnmt_bench.metrics.score import signature
from xnmt_bench.store import META, Artefact, fingerprint, write_atomically

FOLDER = "fragments"
IDENTITY = (
    "corpus",
    "lang_pair",
    "nmt",
    "explainer",
    "k",
    "scenario",
    "instantiation",
    "seed",
    "train_sentences",
)
COLUMNS = (
    *IDENTITY,
    "ppl",
    "ppl_low",
    "ppl_high",
    "agreement",
    "decisions",
    "hit_at_k",
    "status",
    "signature",
)
FAMILY = ("fn", "rn", "sa")
Row = dict[str, Any]


@dataclass(frozen=True)
class Fragment:
    """One number of one job, before it is scored.

    Attributes:
        identity: the columns of IDENTITY.
        model: fingerprint of the NMT system's weights.
        status: `ok`, `n/a` or what went wrong.
        scores: the Parquet file of per-decision log-likelihoods, absent unless ok.
        made_by: fingerprints of the artefacts behind the number, for its signature.
        valid_loss: a proxy's loss on its held-out part.
        hit_at_k: where the corpus knows the deciding words.
        quality: BLEU and chrF of the NMT system, with their signatures.
    """

    identity: dict[str, Any]
    model: str
    status: str = "ok"
    scores: str | None = None
    made_by: dict[str, str] | None = None
    valid_loss: float | None = None
    hit_at_k: float | None = None
    quality: dict[str, Any] | None = None

    def write(self, results: Path) -> None:
        """Writes the fragment under the fingerprint of its identity."""
        name = fingerprint({**self.identity, "model": self.model})
        text = json.dumps(self.__dict__, indent=1, ensure_ascii=False)
        write_atomically(results / FOLDER / f"{name}.json", text)

    def score(self, samples: int, seed: int) -> Row:
        """The row of the table.

        Args:
            samples: bootstrap samples.
            seed: of the bootstrap.
        """
        row: Row = dict.fromkeys(COLUMNS, "")
        row |= {**self.identity, "status": self.status, "model": self.model}
        row["signature"] = self._signature(samples, seed)
        if self.scores is None:
            return row
        try:
            if (Path(self.scores).parent / META).exists():
                Artefact.open(Path(self.scores).parent)  # verifies the file's bytes
            decisions = DecisionScores.load(Path(self.scores))
        except StoreError as error:
            return {**row, "status": f"failed: {error}"}
        score = perplexity(decisions, row["signature"], samples, seed)
        return {
            **row,
            "ppl": score.value,
            "ppl_low": score.low,
            "ppl_high": score.high,
            "agreement": decisions.agreement,
            "decisions": len(decisions),
            "hit_at_k": "" if self.hit_at_k is None else self.hit_at_k,
            "valid_loss": self.valid_loss,
            "quality": self.quality,
        }

    def _signature(self, samples: int, seed: int) -> str:
        parts = {**self.identity, "model": self.model, **(self.made_by or {})}
        return signature("PPL", **parts, bootstrap=f"{samples}@{seed}")


def read_fragments(results: Path) -> list[Fragment]:
    """Every fragment in a results folder.

    Raises:
        StoreError: there is none, or one is not readable.
    """
    paths = sorted((results / FOLDER).glob("*.json"))
    if not paths:
        raise StoreError(f"{results}: no results are here yet; run train.py first")
    fragments = []
    for path in paths:
        try:
            fragments.append(Fragment(**json.loads(path.read_text(encoding="utf-8"))))
        except (ValueError, TypeError) as error:
            raise StoreError(f"{path}: not a readable fragment: {error}") from None
    return fragments


def collect(results: Path, samples: int, seed: int) -> list[Row]:
    """Every row of the fidelity table, Comb included, in reading order."""
    rows = [fragment.score(samples, seed) for fragment in read_fragments(results)]
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
    start = tuple(str(row[c]) for c in ("corpus", "lang_pair", "nmt", "model", "explainer"))
    numbers = (row["k"], row["train_sentences"], row["seed"])  # empty where it has no meaning
    return (*start, *(-1 if n == "" else n for n in numbers), place)
