"""Every metric and judge on small language models that translate by a prompt."""

import json
from collections import Counter

import numpy as np
import pytest
import torch

from proxies.scoring import distributions
from support.configurations import configure
from support.example_rows import Tables
from support.language_models import TEMPLATE, build
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.judges import RuleSet
from xnmt_bench.judges.evalx import EvalX
from xnmt_bench.judges.trained_proxy import PIECES_FILE, decisions_of
from xnmt_bench.judges.unigram import Unigram
from xnmt_bench.measuring.bootstrap import Draws, score
from xnmt_bench.measuring.measurement import NOT_APPLICABLE, read
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.pipeline.job import Job
from xnmt_bench.plan import configured_metrics
from xnmt_bench.rules.table import read_columns, shards
from xnmt_bench.run import measure_all

FAMILIES = ("llama", "gemma3_text")
SMALL = [
    "corpus.train=30", "corpus.valid=5", "corpus.test=3", "nmt.beam=1", "rules.train_sentences=20",
    "rules.largest_k=1", "proxy.sizes.dimension=8", "proxy.training.max_epochs=1",
    "bootstrap.samples=20", "trainer.progress_bar=false", "device=cpu", "threads=1",
]  # fmt: skip
JUDGES = "base,base_tuned,base_swapped,own,evalx,evalx_states,kl"
LARGE = 2**18  # pieces, as some language models have


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request, tmp_path_factory):
    """A model that fits the toy corpora's words."""
    folder = tmp_path_factory.mktemp(request.param)
    build(request.param, folder / "model", texts_of(ToyCorpus(train=500)))
    return folder


def texts_of(corpus):
    pairs = [(s.source, s.target) for s in corpus.sentences("train")]
    return [source for source, _ in pairs], [target for _, target in pairs]


def configure_on(folder, *changes):
    options = {"nmt.path": folder / "model", "nmt.reader.template": json.dumps(TEMPLATE),
               "store": folder / "store", "results": folder / "results"}  # fmt: skip
    return configure("nmt=causal_lm", *(f"{k}={v}" for k, v in options.items()), *SMALL, *changes)


def measure(config):
    """The measurements of a configuration's job, by metric."""
    job, metrics = Job(config), [*configured_metrics(config).values()]
    assert not measure_all(metrics, job, Tables())
    folder = job.settings.results_folder
    return {metric.name: read(metric.name, folder, metric.identity) for metric in metrics}


@pytest.mark.long
def test_every_metric_of_sentences(folder):
    few = ["erasure.sentences=1", "erasure.curves=1", "erasure.limited=1", "soft.sentences=2",
           "soft.samples=1", "infidelity.sentences=2", "infidelity.samples=4",
           "causes.substitutes=1", "robustness.sentences=2"]  # fmt: skip
    names = "aer,confidence,quality,repetition,causes,erasure,infidelity,soft,robustness,student"
    config = configure_on(folder, "explainer=prediction_difference", f"metric=[{names}]",
                          *(f"metric.{option}" for option in few))  # fmt: skip
    measured = measure(config)
    # Too few sentences for effects, and no documents.
    not_applicable = {"causes", "repetition"}
    assert {name for name, rows in measured.items() if not all(row.ok for row in rows)} == (
        not_applicable
    )


@pytest.mark.long
def test_every_judge(folder):
    config = configure_on(folder, "explainer=gradient_norm", "metric=[fidelity]",
                          f"judge=[{JUDGES}]", "judge.evalx.leak=true")  # fmt: skip
    rows = measure(config)["fidelity"]
    assert all(row.ok for row in rows)
    judges = {"sa" if name == "own" else name for name in JUDGES.split(",")}
    judges = {f"{name}_sa" if name in ("evalx", "kl") else name for name in judges}
    assert {row.identity["instantiation"] for row in rows} == judges | {"unigram", "nmt"}


def test_a_model_that_reads_no_context_says_so(folder):
    metrics = "metric=[contrastive,coref_attention,antecedent]"
    discourse = ["corpus=toy_discourse", "corpus.families=2"]
    measured = measure(configure_on(folder, *discourse, "explainer=attention", metrics))
    assert all(row.ok for row in measured["contrastive"])
    for name in ("coref_attention", "antecedent"):
        assert {row.status for row in measured[name]} == {NOT_APPLICABLE}


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """The measured rows of judges that learn, on a model with a large vocabulary."""
    folder = tmp_path_factory.mktemp("large")
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1}
    texts = texts_of(ToyCorpus(train=500))
    build("llama", folder / "model", texts, vocab_size=LARGE, **sizes)
    config = configure_on(folder, "explainer=lexicon", "metric=[fidelity]",
                          "judge=[own,evalx,evalx_states,kl]", "judge.evalx.leak=true")  # fmt: skip
    return config, measure(config)["fidelity"]


def test_proxies_have_weights_of_the_pieces_that_they_learn_from(large):
    config, rows = large
    by_judge = {row.identity["instantiation"]: row for row in rows}
    assert all(row.ok for row in rows)
    assert {"sa", "evalx_sa", "evalx_states", "kl_sa", "unigram"} <= {*by_judge}
    rules = RuleSet(Job(config))
    labels_N, evalx = rules.test.label_N, EvalX(rules)
    learnt = np.load(evalx.trained.path / PIECES_FILE)["target"]
    pieces = by_judge["evalx_sa"].facts.of_metric["pieces"]
    unlearnt = int((~np.isin(labels_N, learnt)).sum())
    size = LARGE + 4  # ours stand before the model's own
    labels = {"labels": len(labels_N), "unlearnt labels": unlearnt}
    assert pieces == {"learnt": len(learnt), "of": size} | labels
    assert evalx.open().proxy.output.out_features == len(learnt) + 1 < 500
    assert "vocabulary" in "".join(by_judge["evalx_sa"].settings)
    # All rows say what they cannot tell apart, in one note.
    scored = [score(Fidelity(), row, Draws(20, 0)) for row in rows]
    [note] = [note for note in Fidelity().notes(scored) if "tell apart" in note]
    assert f"of {size:,}" in note


def test_labels_that_no_training_decision_has_share_a_probability(large):
    config, _ = large
    rules = RuleSet(Job(config))
    proxy, test = EvalX(rules).open(), decisions_of(rules.test)
    [log_q_NV] = [log_q for rows, log_q in distributions(proxy, test[:2])]
    torch.testing.assert_close(log_q_NV.exp().sum(1), torch.ones(2), rtol=0, atol=1e-4)
    # Of the labels alone: one count for each that was learnt, and one for all others.
    labels = rules.training_labels(rules.train_sentences).path
    train_N = np.concatenate([read_columns(x, ["label"])["label"] for x in shards(labels, "train")])
    counts = {label: count + 1 for label, count in Counter(train_N.tolist()).items()}
    total, size = sum(counts.values()) + 1, log_q_NV.shape[1]
    log_p_N, _ = Unigram(rules).log_likelihood(rules.test)
    expected_N = [
        counts.get(label, 1 / (size - len(counts))) / total for label in rules.test.label_N
    ]
    np.testing.assert_allclose(np.exp(log_p_N), expected_N)
