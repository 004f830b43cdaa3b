"""The own proxy: it learns from the rules of the explainer that it judges, as in the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ClassVar

from proxies.data import batch_decisions
from proxies.lessons import Lessons, ProxyTrainingOptions
from xnmt_bench.judges.trained_proxy import FAMILY, RuleProxy, held_out
from xnmt_bench.measuring.measurement import ScoredRow
from xnmt_bench.measuring.metric import PivotValue

BEHIND_FAMILY, COMB = 30, 40
TRAINING = [field.name for field in fields(ProxyTrainingOptions)]


class Own(RuleProxy):
    """The configured proxy on the explainer's own rules (Li et al. 2020, section 3.2)."""

    name = "own"
    papers = ("li2020",)
    heading = "own proxy"
    twins_followed: ClassVar[Mapping[str, str]] = {
        "generated twins": "0 of 10",
        "natural twins": "0 of 5",
        "natural twins of two architectures": "0 of 5",
    }
    tried_as = "sa"
    cannot_see = (
        "the system: it learns labels from text, and of words that always stand together there it "
        "may use either; and it reads a code off the choice of words"
    )
    place = 20
    csv_only = ("comb_valid",)

    @property
    def row_name(self) -> str:
        """The proxy's name, such as `sa`."""
        return self.family

    @property
    def row_heading(self) -> str:
        """Such as `own SA`."""
        return f"own {self.family_heading}"

    @property
    def row_order(self) -> list[Any]:
        """The paper's family in its order, then other proxies by name."""
        if self.family in FAMILY:
            return [self.place + FAMILY.index(self.family), self.family, 0]
        # Behind the family and before Comb, which is of this family only.
        return [BEHIND_FAMILY, self.family, 0]

    @property
    def description(self) -> str:
        """Such as `sa on attention, k=1`."""
        return f"{self.row_name} on {self.rules.explained.bare_name}, k={self.rules.k}"

    def lessons(self, folder: Path, training: ProxyTrainingOptions) -> Lessons:
        """Return the rules, in another order each epoch; the last sentences are held out."""
        decisions, starts = self.write_decisions(folder)
        cut, size, seed = held_out(starts, training), training.batch_size, self.rules.seed
        return Lessons(
            lambda epoch: batch_decisions(decisions[:cut], size, seed, epoch),
            lambda: batch_decisions(decisions[cut:], size),
        )

    @classmethod
    def combine(cls, scored: Sequence[ScoredRow]) -> list[ScoredRow]:
        """Return Comb: the best of the family on the whole test set (Algorithm 1, line 13).

        The choice is made once, so that intervals, ranks under resampling and differences are those
        of the chosen row. The further column `comb_valid` is the row of the least validation loss,
        which does not look at the test set.
        """
        families: dict[tuple[Any, ...], dict[str, list[ScoredRow]]] = {}
        for row in scored:
            keys = row.measurement.identity.copy()
            proxy = keys.pop("instantiation")
            # A row with positions in the sentence has another name, and does not compete for Comb.
            if proxy in FAMILY and row.measurement.ok:
                settings = row.measurement.settings
                test = [settings.get(name) for name in ("test set", "test sentences")]
                # Of proxies that learn longer than others the best is none of the three's.
                trained = [settings.get(f"{proxy} {option}") for option in TRAINING]
                family_keys = (*keys.values(), row.measurement.model, *test, *trained)
                family = families.setdefault(family_keys, {})
                family.setdefault(proxy, []).append(row)
        combined = []
        for family in families.values():
            # The best of two is not Comb: the paper takes the best of three.
            if len(family) == len(FAMILY):
                rows = [row for of_proxy in family.values() for row in of_proxy]
                by_test = min(rows, key=lambda row: row.values["ppl"])
                # Losses compare, since all three learn from the same rules.
                by_validation = min(
                    rows, key=lambda row: row.measurement.facts.of_metric["valid_loss"]
                )
                combined += [_as_comb(by_test, "comb"), _as_comb(by_validation, "comb_valid")]
        return combined


def _as_comb(chosen: ScoredRow, name: str) -> ScoredRow:
    """Return a row of the family under the name of the choice."""
    measurement = chosen.measurement
    proxy = measurement.identity["instantiation"]
    # The signature keeps the chosen proxy's name, or the row could not be made again.
    signature = chosen.signature.replace(f"instantiation:{proxy}", f"instantiation:{name}={proxy}")
    heading = "Comb" if name == "comb" else name
    pivot = PivotValue(heading, [COMB, name, 0], 0, "The best of FN, RN and SA")
    renamed = replace(
        measurement,
        identity=measurement.identity | {"instantiation": name},
        facts=replace(measurement.facts, pivot=vars(pivot)),
    )
    return ScoredRow(renamed, chosen.values, signature, derived=True)
