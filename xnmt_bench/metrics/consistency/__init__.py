"""Does a pronoun's translation agree with its entity's (Yehudai et al. 2023)?"""

from xnmt_bench.metrics.consistency.metric import Consistency

__all__ = ["Consistency"]
