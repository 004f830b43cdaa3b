"""What an own proxy learns from, as it lies in its file."""

from types import SimpleNamespace

import numpy as np
import pytest

from xnmt_bench.judges.own import Own
from xnmt_bench.rules.table import Rules

LAST = 2**15  # an id that 16 bits do not hold


@pytest.mark.parametrize("large", [0, 1], ids=["source", "target"])
def test_words_of_a_large_vocabulary_fit_whichever_side_it_is_of(tmp_path, large):
    words_NK, places_NK = [np.array([[5], [6]]), np.array([[7], [8]])], np.zeros((2, 1), int)
    words_NK[large][1] = LAST
    of_rule = np.arange(2)
    rules = Rules(of_rule, of_rule, of_rule, of_rule, *words_NK, places_NK, places_NK)
    subwords = [range(10), range(10)]
    subwords[large] = range(LAST + 1)
    explained = SimpleNamespace(texts=SimpleNamespace(subwords=subwords))
    rule_set = SimpleNamespace(k=1, explained=explained, training=lambda: iter([rules]))
    decisions, _ = Own(rule_set).write_decisions(tmp_path)
    assert decisions[:, 1:3].tolist() == np.concatenate(words_NK, axis=1).tolist()
