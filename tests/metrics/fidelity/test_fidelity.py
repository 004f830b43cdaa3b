"""The whole chain on trained systems: does fidelity mean what it says?"""

import dataclasses

import numpy as np
import pytest
import torch

from proxies.base import Vocabulary
from proxies.data import batch_decisions
from proxies.fn import FN
from proxies.lessons import Lessons, ProxyTrainingOptions
from proxies.scoring import log_likelihoods
from proxies.training import ProxyTraining
from support.configurations import SYSTEMS, configure, overrides
from support.systems import batch_of, double, small_job
from xnmt_bench.corpora.vocabulary.subwords import EOS, SPECIAL, UNK
from xnmt_bench.errors import NotApplicable
from xnmt_bench.explainers.base import decide
from xnmt_bench.fitting import fit
from xnmt_bench.judges import RuleSet
from xnmt_bench.judges.base_untuned import Base
from xnmt_bench.judges.masked import base_log_likelihoods
from xnmt_bench.judges.nmt import NMT
from xnmt_bench.judges.own import Own
from xnmt_bench.judges.trained_proxy import decisions_of
from xnmt_bench.judges.unigram import Unigram
from xnmt_bench.measuring.bootstrap import Draws, interval, resample
from xnmt_bench.measuring.units import Units, by_unit
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.metrics.fidelity.decision_facts import TestDecisions
from xnmt_bench.metrics.fidelity.evidence import reference_evidence
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.rules.table import Rules
from xnmt_bench.trainer import TrainerOptions


def job_for(workplace, system, explainer, *options):
    return small_job(workplace, system, f"explainer={explainer}", "proxy=fn", *options)


def perplexity(judge):
    """A judge's perplexity with its interval: value, low, high."""
    scores = judge.scores()
    sums = {"log_likelihood": scores.log_likelihood_N, "correct": scores.correct_N}
    units = Units("", *by_unit(scores.sentence_N, **sums))
    ppl = resample(Fidelity(), units, Draws(200, 0))["ppl"]
    return (ppl[0], *interval(ppl[1:]))


def hit_rate(job):
    """Share of the decisions whose rule holds a word that decides, of both sides together."""
    hits, counted, more_hits, more_counted, _, _ = TestDecisions(RuleSet(job)).hits.sum(0)
    return (hits + more_hits) / (counted + more_counted)


@pytest.mark.parametrize("name", SYSTEMS)
def test_faithful_explainers_beat_random(workplace, name):
    """By Base, which learns nothing that differs with the machine."""
    few = "rules.test_sentences=40"
    floor = job_for(workplace, name, "random", few)
    _, floor_low, _ = perplexity(Base(RuleSet(floor)))
    for explainer in ("prediction_difference", "gradient_norm"):
        job = job_for(workplace, name, explainer, few)
        _, _, high = perplexity(Base(RuleSet(job)))
        assert high < floor_low, explainer
        assert hit_rate(job) > hit_rate(floor)


def test_base_with_every_word_is_the_nmt_model_itself(system):
    """Nothing is zeroed, so Base's perplexity is the model's own on its choices."""
    model, split = double(system.system.model), system.texts.split(EVALUATED)
    rows, model_log_p = [], []
    for index in range(10):
        batch, log_probability = decide(model, batch_of(split, [index]))
        s, t = batch.source_BS.shape[1], batch.target_BT.shape[1]
        model_log_p.append(log_probability[0].numpy())
        for step in range(t):
            everything = np.full(64, -1)
            source, prefix = everything.copy(), everything.copy()
            source[:s], prefix[:step] = np.arange(s), np.arange(step)
            rows.append((split.number[index], step, int(batch.labels_BT[0, step]), source, prefix))
    sentence, step, label, source, prefix = (np.stack(column) for column in zip(*rows, strict=True))
    rules = Rules(sentence, step, label, np.zeros(len(rows)), source, prefix, source, prefix)
    base_log_p, correct = base_log_likelihoods(model, split, rules, positions=300)
    np.testing.assert_allclose(base_log_p, np.concatenate(model_log_p), rtol=1e-9, atol=1e-12)
    assert correct.all()


def test_base_equals_one_decision_at_a_time(system):
    """Grouping decisions changes nothing."""
    job = Job(configure(*_changes(system), "explainer=gradient_norm"))
    model, split = double(system.system.model), system.texts.split(EVALUATED)
    rules = RuleSet(job).test.take(slice(0, 40))
    together, _ = base_log_likelihoods(model, split, rules)
    alone = [base_log_likelihoods(model, split, rules.take(slice(i, i + 1)))[0] for i in range(40)]
    np.testing.assert_allclose(together, np.concatenate(alone), rtol=1e-9)


@pytest.mark.parametrize("removal", ["zero", "mean", "unk", "attention"])
def test_base_reads_the_rule_and_a_replacement_of_all_else(system, removal):
    """One decision after another, embeddings put together by hand."""
    job = Job(configure(*_changes(system), "explainer=gradient_norm"))
    model, split = double(system.system.model), system.texts.split(EVALUATED)
    rules = RuleSet(job).test.take(slice(0, 12))
    if removal == "attention" and not model.hides_words:
        with pytest.raises(NotApplicable, match="cannot leave words out of its attention"):
            base_log_likelihoods(model, split, rules, removal=removal)
        return
    log_p, _ = base_log_likelihoods(model, split, rules, removal=removal)
    order = {number: index for index, number in enumerate(split.number.tolist())}

    def replaced(embed, vocabulary, ids, kept):
        """Special symbols stay, and kept places; UNK itself is a word."""
        embedded = embed(ids)[0].clone()
        off = {
            "zero": torch.zeros_like(embedded[0]),
            "attention": torch.zeros_like(embedded[0]),
            "mean": embed(torch.arange(4, len(vocabulary))[None])[0].mean(0),
            "unk": embed(torch.tensor([[UNK]]))[0, 0],
        }[removal]
        hidden = torch.zeros_like(ids[0], dtype=torch.bool)
        for place, number in enumerate(ids[0].tolist()):
            if number not in SPECIAL and place not in kept:
                embedded[place] = off
                hidden[place] = removal == "attention"
        return embedded[None], hidden[None]

    for row in range(len(rules)):
        batch = batch_of(split, [order[int(rules.sentence_N[row])]])
        step = int(rules.step_N[row])
        source, hidden_BS = replaced(model.embed_source, model.source_subwords, batch.source_BS,
                          set(rules.source_position_NK[row].tolist()))  # fmt: skip
        # Word j is input j + 1.
        kept = {place + 1 for place in rules.prefix_position_NK[row].tolist() if place >= 0}
        inputs, hidden_BT = replaced(
            model.embed_target, model.target_subwords, batch.input_BT, kept
        )
        layout = dataclasses.replace(batch.layout, hidden_BS=hidden_BS, hidden_BT=hidden_BT)
        states = model.decode(model.encode(source, layout), inputs)
        expected = model.logits(states[0, step]).log_softmax(-1)[int(rules.label_N[row])]
        assert log_p[row] == pytest.approx(float(expected.detach()), rel=1e-8)


def test_bases_of_several_removals_are_rows_of_their_own(transformer):
    changes = [*_changes(transformer), "explainer=random"]
    names = {}
    for removal in ("zero", "mean", "unk"):
        job = Job(configure(*changes, f"judge.base.removal={removal}"))
        judge = Base(RuleSet(job), removal)
        names[judge.row_name] = judge.row_heading, str(judge.recipe())
    assert list(names) == ["base", "base[removal=mean]", "base[removal=unk]"]
    assert [heading for heading, _ in names.values()] == ["Base", "Base (mean)", "Base (unk)"]
    assert len({recipe for _, recipe in names.values()}) == 3


def _changes(system):
    return [*overrides(system.settings.nmt.name), f"store={system.settings.store}"]


def test_rules_shuffled_over_decisions_are_no_better_than_unigram(workplace, tmp_path):
    """Words of another decision carry no information: the proxy falls back on labels alone."""
    job = job_for(workplace, "transformer", "gradient_norm")
    train = np.concatenate([decisions_of(rules) for rules in Own(RuleSet(job)).rules.training()])
    test = decisions_of(RuleSet(job).test)
    rng = np.random.default_rng(0)
    for decisions in (train, test):
        decisions[:, 1:] = decisions[rng.permutation(len(decisions)), 1:]
    source, target = job.system.subwords
    options = ProxyTrainingOptions(max_epochs=6, patience=2)
    cut = int(0.9 * len(train))

    def build():
        proxy = FN(Vocabulary(len(source), len(target), 1), dimension=32, hidden=32)
        lessons = Lessons(
            lambda epoch: batch_decisions(train[:cut], 512, 0, epoch),
            lambda: batch_decisions(train[cut:], 512),
        )
        return ProxyTraining(proxy, lessons, options, len(target))

    quiet = TrainerOptions(progress_bar=False)
    module, _ = fit(build, tmp_path, 0, options.max_epochs, options.patience, quiet, "")
    shuffled = np.exp(-log_likelihoods(module.model, test)[0].mean())
    unigram, _, _ = perplexity(Unigram(RuleSet(job)))
    assert shuffled > 0.97 * unigram


def test_extraction_does_not_depend_on_batches_or_shards(transformer, tmp_path):
    options = [
        "explainer=prediction_difference",
        "rules.train_sentences=60",
        "rules.test_sentences=60",
    ]
    test_rules, made_from = [], []
    for change in (
        ["rules.shard_sentences=60"],
        ["rules.shard_sentences=7", "rules.batch_tokens=50"],
        ["rules.shard_sentences=7", "rules.batch_tokens=300", "explainer.phi.positions=99"],
    ):
        job = Job(configure(*_changes(transformer), *options, *change))
        test_rules.append(RuleSet(job).test)
        made_from.append((RuleSet(job).test_artefact.fingerprint, job.explained.name))
    # How much is computed at once changes no artefact and no row.
    assert made_from[0] != made_from[1] == made_from[2]
    first, other, _ = test_rules
    for field in dataclasses.fields(Rules):
        a, b = getattr(first, field.name), getattr(other, field.name)
        if field.name == "probability_N":
            np.testing.assert_allclose(a, b, rtol=1e-5)
        else:
            assert (a == b).mean() > 0.999, field.name  # a tie may fall either way in float32


def test_rules_hold_what_the_model_decided(transformer):
    """Labels, probabilities and words, against the model itself."""
    job = Job(configure(*_changes(transformer), "explainer=random", "k=2"))
    split, rules = job.texts.split(EVALUATED), RuleSet(job).test
    batch, log_probability = decide(job.system.model, batch_of(split, [3]))
    rows = rules.take(rules.sentence_N == 3)
    assert (rows.label_N == batch.labels_BT[0].numpy()).all()
    np.testing.assert_allclose(rows.probability_N, log_probability[0].exp().numpy(), rtol=1e-4)
    source = split.source[3]
    assert (rows.source_NK == source[rows.source_position_NK]).all()
    for step in range(len(rows)):
        prefix_places = rows.prefix_position_NK[step][rows.prefix_position_NK[step] >= 0]
        assert len(prefix_places) == min(step, 2)
        assert (prefix_places < step).all()
    assert EOS not in rules.source_NK
    assert EOS not in rules.prefix_NK


def test_attention_says_nothing_of_prefix_words_in_rnn_search(workplace):
    from xnmt_bench.errors import NotApplicable

    job = job_for(workplace, "rnn_search", "attention")
    with pytest.raises(NotApplicable):
        _ = RuleSet(job).test_artefact.artefact
    nmt = NMT(RuleSet(job))
    assert reference_evidence(nmt, TestDecisions(nmt.rules), 50) is None


def test_a_smaller_training_set_is_a_slice_of_one_extraction(workplace, unmade):
    own_proxy = Own(RuleSet(job_for(workplace, "transformer", "gradient_norm")))
    part = Own(RuleSet(job_for(workplace, "transformer", "gradient_norm", "train_sentences=150")))
    assert part.rules.training_artefact.fingerprint == own_proxy.rules.training_artefact.fingerprint
    numbers, everything = (
        np.concatenate([rules.sentence_N for rules in proxy.rules.training()])
        for proxy in (part, own_proxy)
    )
    assert (numbers == everything[: len(numbers)]).all()
    assert (len(set(numbers)), len(set(everything))) == (150, 300)
    assert np.ptp(numbers) > 2000  # drawn from all 3,000 training sentences
    unmade("proxy")
    assert part.trained.fingerprint != own_proxy.trained.fingerprint


def test_a_row_of_all_sentences_says_how_many_they_are(workplace, monkeypatch):
    job = job_for(workplace, "transformer", "gradient_norm", "rules.train_sentences=null")
    monkeypatch.setattr(RuleSet, "train_sentences", 3000)
    sizes = {
        columns["instantiation"]: columns["train_sentences"]
        for row in Fidelity().measure(job)
        for columns in [row.identify().columns]
    }
    assert (sizes["fn"], sizes["base"]) == (3000, "")


@pytest.mark.parametrize("explainer", ["random", "exchanged"])
def test_a_reference_has_nothing_of_the_explainer_beside_it(explainer, transformer, workplace):
    """All explainers of a sweep write the same row, whichever comes last."""
    of = ["explainer.phi.of=attention"] if explainer == "exchanged" else []
    job = job_for(workplace, "transformer", explainer, *of)
    *_, nmt, unigram = Fidelity().measure(job)
    for reference in (nmt, unigram):
        assert reference.keys["explainer"] == ""
        assert not {"blind", "alters"} & reference.identify().facts.keys()


def test_a_seed_of_an_explainer_that_is_not_the_jobs_is_in_its_name(workplace):
    names = [
        job_for(workplace, "transformer", "random", *changes).explained.name
        for changes in ([], ["seed=3"], ["explainer.phi.seed=3"])
    ]
    assert names == ["random", "random", "random[seed=3]"]


def test_training_is_seeded(transformer, tmp_path):
    torch.manual_seed(99)
    again = Job(configure(*_changes(transformer)))
    assert again.system.fingerprint == transformer.system.fingerprint
    small = ["corpus.train=300", "corpus.valid=30", "corpus.test=30", "nmt.training.max_epochs=1"]
    models = set()
    for seed in (1, 2):  # of the process, which decides nothing
        torch.manual_seed(seed)
        store = f"store={tmp_path}/{seed}"
        models.add(Job(configure(*overrides("transformer"), *small, store)).system.fingerprint)
    assert len(models) == 1
