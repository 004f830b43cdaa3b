"""What a job gives: log-probabilities of given targets, and other test sets of a metric's own."""

from itertools import pairwise

import numpy as np
import pytest

from support.configurations import configure, overrides
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.corpora.vocabulary.subwords import EOS
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.pipeline.job import Job
from xnmt_bench.registry import entries
from xnmt_bench.run import configured_metrics
from xnmt_bench.store import Store


@pytest.fixture(scope="module")
def right_and_wrong_pairs():
    """Right and wrong translations of unlike lengths, and one of no words at all."""
    sentences = list(ToyCorpus(test=40).sentences("test"))
    right = [(s.source, s.target) for s in sentences]
    wrong = [(s.source, other.target) for s, other in pairwise(sentences)]
    return [*right, *wrong, (sentences[0].source, "")]


def own(model, source, target):
    """The model's log P of a target's pieces and of EOS behind them, from its logits."""
    x, y = model.source_subwords.encode(source), model.target_subwords.encode(target)
    log_p = model(Batch.collate([([*x, EOS], [*y, EOS])]))[0].double().log_softmax(-1)
    return float(sum(log_p[step, label] for step, label in enumerate([*y, EOS])))


def test_log_probability_is_the_models_own_sum(system, right_and_wrong_pairs):
    sums = system.log_probability(right_and_wrong_pairs)
    expected = [own(system.system.model, *pair) for pair in right_and_wrong_pairs]
    np.testing.assert_allclose(sums, expected, rtol=1e-5, atol=1e-5)
    # The empty target's is that of EOS alone.
    assert sums[-1] < 0
    assert sums[:40].mean() > sums[40:-1].mean() + 5


def test_log_probability_does_not_depend_on_the_batch(transformer, right_and_wrong_pairs, tmp_path):
    batched = transformer.log_probability(right_and_wrong_pairs)
    small = transformer.changed({"rules": {"batch_tokens": 20}})
    other = Job(small.settings, small.options, store=Store(tmp_path / "store"))
    other.system = transformer.system
    in_other_batches = other.log_probability(right_and_wrong_pairs[::-1])[::-1]
    np.testing.assert_allclose(in_other_batches, batched, rtol=1e-5, atol=1e-6)


def test_log_probability_is_made_once(transformer, right_and_wrong_pairs, monkeypatch):
    before = transformer.log_probability(right_and_wrong_pairs)

    def never(*_):
        raise AssertionError("asked a second time")

    monkeypatch.setattr(transformer.system.model, "encode", never)
    assert (transformer.log_probability(right_and_wrong_pairs) == before).all()
    with pytest.raises(AssertionError, match="a second time"):
        transformer.log_probability(right_and_wrong_pairs[:-1])


def test_scores_of_others_stand_for_the_models(tmp_path, right_and_wrong_pairs):
    path = tmp_path / "scores.txt"
    path.write_text("".join(f"{-n / 3!r}\n" for n in range(len(right_and_wrong_pairs))))
    job = Job(configure(f"scores.path={path}", "scores.name=theirs", f"store={tmp_path}/store"))
    assert job.log_probability(right_and_wrong_pairs).tolist() == [
        -n / 3 for n in range(len(right_and_wrong_pairs))
    ]
    assert job.system_identity()["nmt"] == "theirs"
    assert not (tmp_path / "store").exists()


def test_a_metric_brings_a_test_set_of_its_own(transformer):
    """Translated and explained as the configured one is, and never trained on."""
    corpus = ToyCorpus(seed=7, train=0, valid=0, test=5)
    outputs = transformer.outputs(corpus)
    assert [s.source for s in outputs.sentences] == [s.source for s in corpus.sentences("test")]
    assert len(outputs.texts) == 5
    assert outputs.test_set != transformer.outputs().test_set
    relevance = list(transformer.relevance(corpus=corpus))
    assert [r.number for r in relevance] == list(range(5))
    source, target = transformer.system.subwords
    for explained, sentence in zip(relevance, corpus.sentences("test"), strict=True):
        steps, words = len(target.encode(sentence.target)), len(source.encode(sentence.source))
        assert explained.source_TS.shape == (steps + 1, words + 1)


def test_other_targets_stand_in_the_references_place(transformer):
    corpus = ToyCorpus(seed=7, train=0, valid=0, test=5)
    reference_texts = [s.target for s in corpus.sentences("test")]
    other = ["der Hund schläft ."] * 5
    relevance_of = {
        name: transformer.relevance(corpus=corpus, targets=targets)
        for name, targets in (("given", reference_texts), ("other", other), ("again", list(other)))
    }
    assert (
        relevance_of["other"].fingerprint
        == relevance_of["again"].fingerprint
        != relevance_of["given"].fingerprint
    )
    [steps] = {len(r.source_TS) for r in relevance_of["other"]}
    assert steps == len(transformer.system.subwords[1].encode(other[0])) + 1
    plain = transformer.relevance(corpus=corpus)
    for forced, two in zip(relevance_of["given"], plain, strict=True):
        np.testing.assert_array_equal(forced.source_TS, two.source_TS)
    with pytest.raises(ValueError, match="shorter"):
        transformer.relevance(corpus=corpus, targets=other[:4])


def test_nothing_is_made_before_it_is_asked_for(tmp_path):
    job = Job(configure(*overrides("transformer"), f"store={tmp_path}/store"))
    assert job.corpus.name == "toy"
    assert job.system.name == "transformer"
    assert job.system.context.sentences == 0
    assert not (tmp_path / "store").exists()
    source, _ = job.system.subwords
    assert len(source) == 500
    assert [path.name for path in (tmp_path / "store").iterdir()] == ["subwords"]


@pytest.mark.parametrize("name", sorted({*entries("metrics")} - {"annotation"}))  # of files alone
def test_planning_rows_makes_nothing(name, tmp_path):
    """Rows can be listed before anything runs; no vocabulary is trained for their identity."""
    needed = {
        "consistency": ["metric.consistency.suite=chains"],
        "natural_twins": ["metric.natural_twins.other_seed=1"],
    }
    job = Job(
        configure(
            f"metric=[{name}]",
            *needed.get(name, []),
            "judge=[base,base_tuned,own,evalx,kl]",
            "corpus=toy_discourse",
            "nmt=concat",
            f"store={tmp_path}/store",
        )
    )
    [metric] = configured_metrics(job.settings).values()
    rows = list(metric.measure(job))
    assert all(row.keys["corpus"].startswith("toy_discourse") for row in rows) and rows
    assert not (tmp_path / "store").exists()
