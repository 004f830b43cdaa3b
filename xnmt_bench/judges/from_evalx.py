"""Leak: what an explainer's choice of words adds for its own proxy, beyond the words themselves.

Words are chosen with the label in hand, and a proxy that learns from such rules learns the choosing
too. `leak` is what it gains by that in nats: the mean over decisions of log Q_own - log Q_evalx of
the label, where Q_own goes on from EVAL-X's weights with the explainer's own rules. STRIPE-X
(Puli, Nguyen and Ranganath 2024, arXiv 2411.02664) adds it to EVAL-X's loss as a penalty.
"""

from __future__ import annotations

from xnmt_bench.judges.own import Own
from xnmt_bench.judges.trained_proxy import TrainedProxy


class FromEvalX(Own):
    """Q_own: EVAL-X's proxy, trained further on an explainer's own rules.

    Args:
        evalx: the proxy whose weights training starts from.
    """

    # It has no row of its own in tables: EVAL-X's row holds its sums.
    learns_from = "a judge"

    def __init__(self, evalx: TrainedProxy) -> None:
        super().__init__(evalx.rules)
        self.evalx = evalx

    @property
    def initial(self) -> TrainedProxy:
        """EVAL-X's proxy."""
        return self.evalx

    @property
    def description(self) -> str:
        """Such as `evalx_sa, further on attention, k=1`."""
        return (
            f"{self.evalx.row_name}, further on {self.rules.explained.bare_name}, k={self.rules.k}"
        )
