"""The foil that is said without the context, against sentences that are read alone."""

import pytest
import torch

from support.context_ids import join_context
from xnmt_bench.corpora.vocabulary.subwords import EOS
from xnmt_bench.explainers.base import decide
from xnmt_bench.explainers.objective import Objective
from xnmt_bench.explainers.prediction_difference import PredictionDifference
from xnmt_bench.nmt.batch import Batch


@pytest.fixture(scope="module")
def model_and_ids(transformer):
    split = transformer.texts.split("test")
    ids = [[side[n][side[n] != EOS].tolist() for side in (split.source, split.target)]
           for n in range(6)]  # fmt: skip
    return transformer.system.model, ids


def test_it_is_what_the_model_says_alone(model_and_ids):
    model, ids = model_and_ids
    groups = [[0, 1], [2, 3, 4], [5]]
    pairs = [tuple(join_context([ids[n][side] for n in g]) for side in (0, 1)) for g in groups]
    batch, _ = decide(model, Batch.collate(pairs))
    words_BTC = Objective("logit", "without_context").words(model, batch)
    assert torch.equal(words_BTC[..., 0], batch.labels_BT)
    for row, group in enumerate(groups):
        source, target = ids[group[-1]]
        alone, _ = decide(model, Batch.collate([([*source, EOS], [*target, EOS])]))
        now = batch.current_BT[row]
        assert words_BTC[row, now, 1].tolist() == alone.labels_BT[0].tolist()
        before = ~now & batch.target_mask_BT[row]
        assert torch.equal(words_BTC[row, before, 1], batch.labels_BT[row, before])


def test_without_a_context_label_and_foil_are_one_word_and_nothing_matters(model_and_ids):
    model, ids = model_and_ids
    batch, _ = decide(model, Batch.collate([tuple([*side, EOS] for side in ids[0])]))
    relevance = PredictionDifference(foil="without_context").relevance(model, batch)
    assert (torch.nan_to_num(relevance.source_BTS) == 0).all()
    assert (torch.nan_to_num(relevance.prefix_BTT) == 0).all()
