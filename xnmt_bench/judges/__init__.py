"""Judges: predictors of an NMT decision from its rule; each is a plug-in."""

from xnmt_bench.judges.judge import Judge
from xnmt_bench.judges.rule_set import RuleSet

__all__ = ["Judge", "RuleSet"]
