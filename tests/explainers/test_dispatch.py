"""What Python dispatches under the sizes of a GPU: upper bounds, and the numbers of a CPU."""

from copy import deepcopy

import numpy as np
import pytest
import torch

from support.dispatched import count, sizes_of_gpu
from xnmt_bench.corpora.vocabulary.encoded import EncodedSide, EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import EOS
from xnmt_bench.explainers.base import decide
from xnmt_bench.judges.masked import base_log_likelihoods
from xnmt_bench.metrics.erasure.curves import erase
from xnmt_bench.metrics.erasure.erasing import Eraser, unordered_decisions
from xnmt_bench.metrics.infidelity.samples import erased_words, probabilities
from xnmt_bench.metrics.soft.distances import Decision as SoftDecision
from xnmt_bench.metrics.soft.distances import distances
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.decoding import translate
from xnmt_bench.nmt.transformer import Transformer
from xnmt_bench.registry import load_explainer
from xnmt_bench.rules.extract import ExtractionOptions, extract
from xnmt_bench.rules.table import Rules

# Operations of the 40 sentences below, 10 % above what was counted.
EXPLAINERS = {
    "attention": 434,
    "prediction_difference": 1236,
    "gradient_norm": 2008,
    "shapley": 722,
    "lime": 771,
}
FEW = {"shapley": {"permutations": 3}, "lime": {"samples": 20}}  # draws
SENTENCES = 40


@pytest.fixture(scope="module")
def model():
    """A Transformer with random weights."""
    torch.manual_seed(0)
    model = Transformer(range(300), range(200), dimension=16, feed_forward=32)  # type: ignore[arg-type]
    return model.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def split():
    """Sentences of 4 to 24 ids a side."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(4, 25, (2, SENTENCES))
    sides = ([[*rng.integers(5, 200, n - 1), EOS] for n in side] for side in lengths)
    return EncodedSplit(*map(EncodedSide.of, sides), np.arange(SENTENCES))


def batch_of(model, split):
    pairs = [(split.source[i], split.target[i]) for i in range(SENTENCES)]
    return decide(model, Batch.collate(pairs))[0]


def test_the_counter_counts_operations_and_waits():
    x = torch.ones(3, 3)

    def work():
        (x @ x).tolist()
        y = x * 2
        y[y > 1].cpu().numpy()
        bool((y > 1).any())

    counted = count(work)
    assert counted.operations["mm"] == counted.operations["mul"] == 1
    # A copy right behind another one waits for nothing.
    assert counted.waits == {"tolist": 1, "boolean mask": 1, "cpu": 1, "__bool__": 1}


@pytest.mark.parametrize("name", EXPLAINERS)
def test_operations_of_an_explainer_are_bounded_and_it_waits_once(model, split, name, tmp_path):
    (tmp_path / "test").mkdir()
    explainer, options = load_explainer(name, **FEW.get(name, {})), ExtractionOptions()
    work = extract(model, split, SENTENCES, explainer, options, tmp_path, "test", True)
    counted = count(lambda: [*work])
    assert counted.operations.total() <= EXPLAINERS[name]
    assert counted.waits.total() <= 1  # of one batch


@pytest.mark.parametrize("name", EXPLAINERS)
def test_sizes_of_a_gpu_change_no_number(model, split, name):
    model = deepcopy(model).double()  # so that rounding hides no difference
    batch = batch_of(model, split)
    explainer = load_explainer(name, **FEW.get(name, {}))
    here = explainer.relevance(model, batch)
    with sizes_of_gpu():
        there = explainer.relevance(model, batch)
    for one, other in ((here.source_BTS, there.source_BTS), (here.prefix_BTT, there.prefix_BTT)):
        greatest_B = one.nan_to_num().abs().amax((1, 2))
        assert ((one - other).nan_to_num().abs().amax((1, 2)) <= 1e-9 * greatest_B).all()
        assert torch.equal(one.isnan(), other.isnan())


def test_base_waits_once_for_all_rules(model, split):
    decisions = [(i, step) for i in range(SENTENCES) for step in range(len(split.target[i]))]
    sentence_N, step_N = np.array(decisions).T
    source_N1, prefix_N1 = (step_N % 3)[:, None], step_N[:, None] - 1
    places = (source_N1, prefix_N1)
    rules = Rules(sentence_N, step_N, step_N + 5, np.zeros(len(step_N)), *places, *places)
    counted = count(lambda: base_log_likelihoods(model, split, rules))
    assert counted.operations.total() <= 373
    assert counted.waits.total() == 1


def test_infidelity_waits_once_for_its_sentences(model, split):
    batch = batch_of(model, split)
    erased = [erased_words(split.source[i], split.target[i], 10, 0) for i in range(SENTENCES)]
    counted = count(lambda: probabilities(model, batch, erased, "zero"))
    assert counted.operations.total() <= 382
    assert counted.waits.total() == 1
    alone = [
        probabilities(model, batch.take([b]), [erased[b]], "zero")[0] for b in range(SENTENCES)
    ]
    for together, single in zip(probabilities(model, batch, erased, "zero"), alone, strict=True):
        np.testing.assert_allclose(together, single, rtol=1e-4, atol=1e-7)


def test_soft_erasure_waits_once_for_its_sentences(model, split):
    rng, pairs = np.random.default_rng(0), [split.ids(i) for i in range(SENTENCES)]
    decisions = [
        SoftDecision(i, step, *(rng.random((4, len(ids))) for ids in pair))
        for i, pair in enumerate(pairs)
        for step in range(len(pair[1]))
    ]
    batch, results = Batch.collate(pairs), []
    counted = count(lambda: results.append(distances(model, batch, decisions, 2, 0)))
    assert counted.operations.total() <= 634
    assert counted.waits.total() == 1
    for there, here in zip(results[0], distances(model, batch, decisions, 2, 0), strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-3, atol=1e-5)


def test_erasure_waits_once_for_its_sentences(model, split):
    decisions = [d for of in unordered_decisions(split, labels_of(split)) for d in of]
    eraser, results = Eraser(model, split, "zero"), []
    counted = count(lambda: results.append(erase(eraser, decisions, (0.2,), whole_curves=True)))
    assert counted.operations.total() <= 358
    assert counted.waits.total() == 1
    here = erase(eraser, decisions, (0.2,), whole_curves=True)
    for name, there_N in results[0].items():
        np.testing.assert_allclose(there_N, here[name], rtol=1e-4, atol=1e-6)


def labels_of(split):
    """The target's own words as labels."""
    lengths = split.target.lengths().tolist()
    return {(i, t): int(split.target[i][t]) for i, n in enumerate(lengths) for t in range(n)}


def test_greedy_search_copies_no_keys_while_no_sentence_ends(model, split, monkeypatch):
    monkeypatch.setattr(model, "longest_target", 12)
    sources = [split.source[i] for i in range(SENTENCES)]
    counted = count(lambda: translate(model, sources))
    assert counted.operations.total() <= 2494
    assert counted.waits.total() <= 3  # for the limits, and each 8 steps
