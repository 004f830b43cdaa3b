"""Does the weight of the antecedent tell whether the system decides right?"""

from xnmt_bench.metrics.antecedent.metric import AntecedentWeight

__all__ = ["AntecedentWeight"]
