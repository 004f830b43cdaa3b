"""Where contexts and labels come from: teacher forcing, real decoding, golden data."""

import csv

import numpy as np
import pytest

from proxies.scoring import log_likelihoods
from support.configurations import configure, overrides
from support.forked_commands import command, must_run
from support.systems import small_job
from xnmt_bench.corpora.vocabulary.subwords import EOS
from xnmt_bench.device import Room
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.judges import RuleSet
from xnmt_bench.judges import nmt as nmt_judge
from xnmt_bench.judges.nmt import NMT
from xnmt_bench.judges.own import Own
from xnmt_bench.judges.trained_proxy import decisions_of
from xnmt_bench.pipeline.job import Job
from xnmt_bench.rules.extract import GOLDEN, REAL
from xnmt_bench.rules.table import all_rules

FEW = ["explainer=gradient_norm", "proxy=fn", "rules.train_sentences=60", "rules.test_sentences=40",
       "nmt.beam=1"]  # fmt: skip


def job_for(workplace, *options):
    return small_job(workplace, "transformer", *FEW, *options)


def by_sentence(rules, name):
    numbers = rules.sentence_N
    return {int(n): getattr(rules, name)[numbers == n].tolist() for n in np.unique(numbers)}


def test_golden_data_has_the_references_words_as_labels(transformer, workplace):
    job = job_for(workplace, "scenario=golden")
    split, labels = job.texts.split("test"), by_sentence(RuleSet(job).test, "label_N")
    assert len(labels) == 40
    for index, number in enumerate(split.number[:40]):
        assert labels[int(number)] == split.target[index].tolist()


def test_real_decoding_has_the_systems_own_words_in_context_and_label(transformer, workplace):
    job = job_for(workplace, "scenario=real")
    rules, outputs = RuleSet(job).test, job.outputs().texts
    split, labels = job.explained.decisions.split("test", REAL), by_sentence(rules, "label_N")
    target = job.system.subwords[1]
    for index, number in enumerate(split.number[:40]):
        output_ids = [*target.encode(outputs[index]), EOS]
        assert split.target[index].tolist() == output_ids
        assert labels[int(number)] == output_ids
    positions, words = rules.prefix_position_NK[:, 0], rules.prefix_NK[:, 0]
    index_of = {int(n): i for i, n in enumerate(split.number)}
    for row in np.flatnonzero(positions >= 0):
        ids = split.target[index_of[int(rules.sentence_N[row])]]
        assert words[row] == ids[positions[row]]


def test_the_model_likes_its_own_translations_best(transformer, workplace):
    """With greedy search the label of every step is the model's first choice."""
    real, golden = (job_for(workplace, f"scenario={s}") for s in ("real", "golden"))
    real_p = by_sentence(RuleSet(real).test, "probability_N")
    assert np.exp(np.log(np.concatenate(list(real_p.values()))).mean()) > np.exp(
        np.log(RuleSet(golden).test.probability_N).mean()
    )
    from xnmt_bench.explainers.base import decide
    from xnmt_bench.nmt.batch import Batch

    split, model = real.explained.decisions.split("test", REAL), real.system.model
    agree: list[bool] = []
    for index in range(40):
        batch, _ = decide(model, Batch.collate([(split.source[index], split.target[index])]))
        steps = batch.labels_BT[0].tolist()
        agree += [a == b for a, b in zip(steps, split.target[index], strict=True)]
    # Not all: what the search wrote is cut into pieces again, and these may be others.
    assert np.mean(agree) > 0.9


def test_one_proxy_is_tested_in_every_scenario(transformer, workplace):
    usual = Own(RuleSet(job_for(workplace)))
    for scenario in ("real", "golden"):
        job = job_for(workplace, f"scenario={scenario}")
        assert Own(RuleSet(job)).trained.fingerprint == usual.trained.fingerprint
        assert Own(RuleSet(job)).judged.fingerprint != usual.judged.fingerprint
        rules = all_rules(job.explained.rules(scenario, "test").path, "test", 1)
        expected, _ = log_likelihoods(usual.open(), decisions_of(rules))
        scored = Own(RuleSet(job)).scores()
        np.testing.assert_allclose(scored.log_likelihood_N, expected, rtol=1e-6)


def test_a_proxy_learns_from_the_scenario_it_is_told(transformer, workplace):
    job = job_for(workplace, "scenario=golden", "learned_from=golden")
    labels = by_sentence(all_rules(RuleSet(job).training_artefact.path, "train", 1), "label_N")
    split = job.texts.drawn("train")
    for index, number in enumerate(split.number[:60]):
        assert labels[int(number)] == split.target[index].tolist()
    real = job_for(workplace, "scenario=real", "learned_from=real")
    translated = real.translations().made("train", 60)
    texts = (translated.path / "train.txt").read_text().split("\n")[:-1]
    assert len(texts) == 60
    labels = by_sentence(all_rules(RuleSet(real).training_artefact.path, "train", 1), "label_N")
    target = real.system.subwords[1]
    drawn = real.texts.drawn("train").number[:60].tolist()
    assert [labels[n] for n in drawn] == [[*target.encode(text), EOS] for text in texts]


def test_gold_annotation_is_not_of_the_systems_translation(transformer, workplace):
    explained = job_for(workplace, "explainer=gold_alignment").explained
    with pytest.raises(NotApplicable, match="exists for references only, not for translations"):
        explained.rules(REAL, "test")
    assert explained.rules(GOLDEN, "test").facts["sentences"] == 40


def test_an_explainer_that_is_silent_on_the_prefix_has_no_rules_in_any_scenario(workplace):
    """RNNSearch's attention: alignment takes its source words, fidelity nothing."""
    golden_options = ["explainer=attention", "learned_from=golden", "scenario=golden"]
    changes = [*overrides("rnn_search", workplace), *FEW, *golden_options]
    job = Job(configure(*changes, "corpus.seed=0"))
    with pytest.raises(NotApplicable, match="no relevance of prefix words"):
        _ = RuleSet(job).test_artefact.artefact
    aligned = job.explained.rules(GOLDEN, "test", source_alone=True)
    rules = all_rules(aligned.path, "test", 1)
    assert (rules.prefix_NK == -1).all()
    assert (rules.source_NK >= 0).all()


def test_the_models_own_row_on_golden_data_is_not_always_its_first_choice(transformer, workplace):
    golden, usual = job_for(workplace, "scenario=golden"), job_for(workplace)
    for job, all_first in ((golden, False), (usual, True)):
        scores = NMT(RuleSet(job)).scores()
        assert scores.correct_N.all() == all_first
        first = RuleSet(job).test.probability_N[scores.correct_N]
        np.testing.assert_allclose(
            np.exp(scores.log_likelihood_N[scores.correct_N]), first, rtol=1e-6
        )


def test_first_choices_are_asked_for_part_by_part(transformer, workplace, monkeypatch):
    monkeypatch.setattr(nmt_judge, "states_room", lambda: Room(50, cpu=1024, each=1))
    job = job_for(workplace)
    choices = NMT(RuleSet(job)).first_choices()
    assert len(choices) > 100
    assert (choices == RuleSet(job).test.label_N).all()


def test_no_such_scenario(transformer, workplace, tmp_path):
    problem = "no scenario 'imagined'; there are golden, real, teacher_forcing"
    with pytest.raises(XnmtError, match=problem):
        _ = RuleSet(job_for(workplace, "scenario=imagined")).test
    for option in ("scenario", "learned_from"):
        done = command("train.py", *overrides("transformer"), *FEW, f"store={workplace}/store",
                       f"results={tmp_path}/results", f"{option}=imagined",
                       f"hydra.run.dir={tmp_path}/run")  # fmt: skip
        assert done.returncode == 2
        assert f"{option}='imagined': should be" in done.stderr
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "results").exists()


def test_from_the_command_line(transformer, workplace, tmp_path):
    options = [*overrides("transformer"), *FEW, "corpus.seed=0", f"store={workplace}/store",
             f"results={tmp_path}/results"]  # fmt: skip
    must_run("train.py", "-m", *options, "scenario=teacher_forcing,real,golden",
             f"hydra.sweep.dir={tmp_path}/sweep")  # fmt: skip
    of_report = [option for option in options if not option.startswith("explainer=")]
    must_run("evaluate.py", *of_report, f"hydra.run.dir={tmp_path}/run")
    with (tmp_path / "results" / "fidelity.csv").open() as file:
        rows = list(csv.DictReader(file))
    ppl = {(r["scenario"], r["instantiation"]): float(r["ppl"]) for r in rows}
    scenarios = {"teacher_forcing", "real", "golden"}
    assert ppl.keys() >= {(s, judge) for s in scenarios for judge in ("fn", "nmt")}
    # In one context no word is more probable than the model's first choice.
    assert ppl["golden", "nmt"] > ppl["teacher_forcing", "nmt"]
    text = (tmp_path / "results" / "fidelity.txt").read_text()
    assert all(scenario in text for scenario in ("teacher forcing", "real", "golden"))
