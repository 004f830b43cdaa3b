"""Where contexts and labels come from: teacher forcing, real decoding, golden data."""

import csv

import numpy as np
import pytest
from conftest import command, configure, overrides

from proxies.training import log_likelihoods
from xnmt_bench.corpora.subwords import EOS
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.metrics.perplexity import DecisionScores
from xnmt_bench.rules.extract import GOLDEN, REAL
from xnmt_bench.rules.table import all_rules
from xnmt_bench.stages.fidelity import SCORES, WEIGHTS, Fidelity, _build_proxy, _decisions

FEW = ["explainer=gradient_norm", "proxy=fn", "rules.train_sentences=60", "rules.test_sentences=40",
       "nmt.beam=1"]  # fmt: skip


def stages(workplace, *more):
    changes = [*overrides("transformer"), f"store={workplace}/store", *FEW, *more]
    return Fidelity(configure(*changes, "corpus.seed=0"))


def by_sentence(rules, name):
    numbers = rules.sentence_N
    return {int(n): getattr(rules, name)[numbers == n].tolist() for n in np.unique(numbers)}


def test_golden_data_has_the_references_words_as_labels(transformer, workplace):
    made = stages(workplace, "scenario=golden")
    split, labels = made.split("test"), by_sentence(made.test_rules, "label_N")
    assert len(labels) == 40
    for index, number in enumerate(split.number[:40]):
        assert labels[int(number)] == split.target[index].tolist()


def test_real_decoding_has_the_systems_own_words_in_context_and_label(transformer, workplace):
    made = stages(workplace, "scenario=real")
    split, labels = made.contexts("test", REAL), by_sentence(made.test_rules, "label_N")
    target = made.subwords[1]
    for index, number in enumerate(split.number[:40]):
        own = [*target.encode(made.outputs[index]), EOS]
        assert split.target[index].tolist() == own
        assert labels[int(number)] == own
    positions, words = made.test_rules.prefix_position_NK[:, 0], made.test_rules.prefix_NK[:, 0]
    index_of = {int(n): i for i, n in enumerate(split.number)}
    for row in np.flatnonzero(positions >= 0):
        ids = split.target[index_of[int(made.test_rules.sentence_N[row])]]
        assert words[row] == ids[positions[row]]


def test_the_model_likes_its_own_translations_best(transformer, workplace):
    """With greedy search the label of every step is the model's first choice."""
    real, golden = (stages(workplace, f"scenario={s}") for s in ("real", "golden"))
    own = by_sentence(real.test_rules, "probability_N")
    assert np.exp(np.log(np.concatenate(list(own.values()))).mean()) > np.exp(
        np.log(golden.test_rules.probability_N).mean()
    )
    from xnmt_bench.explainers.base import decide
    from xnmt_bench.nmt.base import Batch

    split = real.contexts("test", REAL)
    for index in range(10):
        batch, _ = decide(real.model, Batch.collate([(split.source[index], split.target[index])]))
        steps = batch.labels_BT[0].tolist()
        assert np.mean([a == b for a, b in zip(steps, split.target[index], strict=True)]) > 0.9


def test_one_proxy_is_tested_in_every_scenario(transformer, workplace):
    usual = stages(workplace)
    assert usual.tested.id == usual.proxy.id
    for scenario in ("real", "golden"):
        made = stages(workplace, f"scenario={scenario}")
        assert made.proxy.id == usual.proxy.id
        assert made.tested.id != usual.proxy.id
        rules = all_rules(made.explained(made.scenario, ("test",)).path, "test", 1)
        from safetensors.torch import load_model

        proxy = _build_proxy("fn", made._sizes, dict(made.config.proxy.sizes))
        load_model(proxy, usual.proxy.path / WEIGHTS)
        expected, _ = log_likelihoods(proxy, _decisions(rules))
        found = DecisionScores.load(made.tested.path / SCORES)
        np.testing.assert_allclose(found.log_likelihood_N, expected, rtol=1e-6)


def test_a_proxy_learns_from_the_scenario_it_is_told(transformer, workplace):
    made = stages(workplace, "scenario=golden", "learned_from=golden")
    labels = by_sentence(all_rules(made.rules.path, "train", 1), "label_N")
    split = made.split("train")
    for index, number in enumerate(split.number[:60]):
        assert labels[int(number)] == split.target[index].tolist()
    assert made.tested.id == made.proxy.id
    real = stages(workplace, "scenario=real", "learned_from=real")
    texts = (real.translated("train", 60).path / "train.txt").read_text().split("\n")[:-1]
    assert len(texts) == 60
    labels = by_sentence(all_rules(real.rules.path, "train", 1), "label_N")
    assert list(labels.values()) == [[*real.subwords[1].encode(t), EOS] for t in texts]


def test_gold_annotation_is_not_of_the_systems_translation(transformer, workplace):
    made = stages(workplace, "explainer=gold_alignment")
    with pytest.raises(NotApplicable, match="of the reference, not of the translation"):
        made.explained(REAL, ("test",))
    assert made.explained(GOLDEN, ("test",)).facts["sentences"] == {"test": 40}


def test_an_explainer_that_is_silent_on_the_prefix_has_no_rules_in_any_scenario(workplace):
    """RNNSearch's attention: alignment takes its source words, fidelity nothing."""
    more = ["explainer=attention", "learned_from=golden", "scenario=golden"]
    changes = [*overrides("rnn_search"), f"store={workplace}/store", *FEW, *more]
    made = Fidelity(configure(*changes, "corpus.seed=0"))
    with pytest.raises(NotApplicable, match="no relevance of prefix words"):
        _ = made.rules
    aligned = made.explained(GOLDEN, ("test",), source_alone=True)
    rules = all_rules(aligned.path, "test", 1)
    assert (rules.prefix_NK == -1).all()
    assert (rules.source_NK >= 0).all()


def test_the_models_own_row_on_golden_data_is_not_always_its_first_choice(transformer, workplace):
    golden, usual = stages(workplace, "scenario=golden"), stages(workplace)
    for made, all_first in ((golden, False), (usual, True)):
        scores = DecisionScores.load(made.reference("nmt").path / SCORES)
        assert scores.correct_N.all() == all_first
        first = made.test_rules.probability_N[scores.correct_N]
        np.testing.assert_allclose(
            np.exp(scores.log_likelihood_N[scores.correct_N]), first, rtol=1e-6
        )


def test_no_such_scenario(transformer, workplace, tmp_path):
    with pytest.raises(XnmtError, match="no scenario 'dreamt'; there are teacher_forcing, real"):
        _ = stages(workplace, "scenario=dreamt").test_rules
    made = command("train.py", *overrides("transformer"), *FEW, f"store={workplace}/store",
                   f"results={tmp_path}/results", "learned_from=dreamt",
                   f"hydra.run.dir={tmp_path}/run")  # fmt: skip
    assert made.returncode == 1
    assert "learned_from=dreamt is none of teacher_forcing, real, golden" in made.stderr
    assert not (tmp_path / "results").exists()


def test_from_the_command_line(transformer, workplace, tmp_path):
    given = [*overrides("transformer"), *FEW, "corpus.seed=0", f"store={workplace}/store",
             f"results={tmp_path}/results"]  # fmt: skip
    made = command("train.py", "-m", *given, "scenario=teacher_forcing,real,golden",
                   f"hydra.sweep.dir={tmp_path}/sweep")  # fmt: skip
    assert made.returncode == 0, made.stderr
    read = command("evaluate.py", *given, f"hydra.run.dir={tmp_path}/run")
    assert read.returncode == 0, read.stderr
    with (tmp_path / "results" / "fidelity.csv").open() as file:
        rows = list(csv.DictReader(file))
    fn = {r["scenario"]: float(r["ppl"]) for r in rows if r["instantiation"] == "fn"}
    assert set(fn) == {"teacher_forcing", "real", "golden"}
    assert fn["golden"] > fn["teacher_forcing"]  # as in the paper's Table 5
    text = (tmp_path / "results" / "fidelity.txt").read_text()
    assert all(scenario in text for scenario in ("teacher forcing", "real", "golden"))
