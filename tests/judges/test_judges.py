"""Judges that an explainer cannot please by how it chooses its words."""

import json
import math
from collections import Counter
from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from proxies.base import LONGEST
from proxies.data import DrawnRules, VisibleWords, unpack
from support.systems import batch_of, small_job
from xnmt_bench.corpora.exchange.exchangeable import EXCHANGED, GRAMMAR, HEURISTIC
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.explainers.base import decide
from xnmt_bench.judges import RuleSet, trained_proxy
from xnmt_bench.judges.base_swapped import BaseSwapped
from xnmt_bench.judges.base_tuned import WEIGHTS, BaseTuned
from xnmt_bench.judges.base_untuned import Base
from xnmt_bench.judges.configured import configured_judges
from xnmt_bench.judges.evalx import EvalX
from xnmt_bench.judges.evalx_states import EvalXStates
from xnmt_bench.judges.from_evalx import FromEvalX
from xnmt_bench.judges.masked import masked_states
from xnmt_bench.judges.matched import OnMatchedRules
from xnmt_bench.judges.matches import Matches
from xnmt_bench.judges.own import Own
from xnmt_bench.judges.tuning import batch_places
from xnmt_bench.measuring.bootstrap import Draws, interval, resample
from xnmt_bench.measuring.units import Units, by_unit
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.metrics.fidelity.decision_facts import TestDecisions
from xnmt_bench.metrics.fidelity.evidence import evidence_of
from xnmt_bench.rules.table import all_rules

# Long enough that every training stops before its last epoch.
TRAINING = ["proxy=fn", "proxy.training.max_epochs=60", "proxy.training.patience=1",
            "proxy.training.learning_rate=0.005", "rules.train_sentences=1200",
            "rules.shard_sentences=300"]  # fmt: skip
FEW = ("proxy.training.max_epochs=2", "train_sentences=100")


def job_for(workplace, explainer, *changes):
    return small_job(workplace, "transformer", *TRAINING, f"explainer={explainer}", *changes)


def perplexity(judge):
    return math.exp(-judge.scores().log_likelihood_N.mean())


def small_contexts(seed=0, sentences=30, words=5):
    """Short sentences of few words, every step of each a decision; positions leave gaps."""
    rng = np.random.default_rng(seed)
    label, sentence, step, source, prefix = [], [], [], [], []
    for n in range(sentences):
        s, t = rng.integers(1, 5, 2)
        source.append((rng.integers(4, 4 + words, s), 2 * np.arange(s) + 1))
        prefix.append((rng.integers(4, 4 + words, t), np.arange(t)))
        for i in range(t + 1):
            label.append(int(rng.integers(0, 9)))
            sentence.append(n)
            step.append(i)
    columns = (np.array(label), np.array(sentence), np.array(step))
    return VisibleWords(*columns, source, prefix)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_words_are_drawn_from_what_is_visible_and_all_as_often(k):
    contexts = small_contexts()
    rows = np.repeat(np.arange(len(contexts)), 400)
    drawn = contexts.drawn(rows, k, np.random.default_rng(1))
    _, words, positions = (x.numpy() for x in unpack(drawn))
    for row in range(0, len(contexts), 7):
        n, step = contexts.sentence_N[row], contexts.step_N[row]
        ids = contexts.source.of(n), contexts.prefix.of(n)[:step]
        places = 2 * np.arange(len(ids[0])) + 1, np.arange(step)
        of_row = rows == row
        for side, (side_ids, own_places) in enumerate(zip(ids, places, strict=True)):
            half = slice(side * k, (side + 1) * k)
            found_words, found_places = words[of_row, half], positions[of_row, half]
            count = min(k, len(side_ids))
            assert ((found_places >= 0).sum(1) == count).all()
            assert (found_places[:, count:] == -1).all() and (found_words[:, count:] == -1).all()
            at = dict(zip(own_places.tolist(), side_ids.tolist(), strict=True))
            there = found_places[:, :count]
            assert (found_words[:, :count] == np.vectorize(at.get, otypes=[int])(there)).all()
            # Every order of every choice comes about as often: 400 draws of at most 24.
            every = Counter(map(tuple, there.tolist()))
            possible = list(permutations(own_places.tolist(), count))
            assert set(every) <= set(possible)
            expected = 400 / len(possible)
            for choice in possible:
                assert abs(every[choice] - expected) < 6 * np.sqrt(expected)


def test_the_same_words_are_drawn_in_parts_of_any_size(monkeypatch):
    contexts = small_contexts()
    rows = np.arange(len(contexts))
    drawn_at_once = contexts.drawn(rows, 2, np.random.default_rng(3))
    monkeypatch.setattr("proxies.data.DRAWN", 7)
    np.testing.assert_array_equal(contexts.drawn(rows, 2, np.random.default_rng(3)), drawn_at_once)


def test_tuning_switches_on_the_drawn_words_of_a_long_sentence():
    """A proxy has embeddings of 512 places; the system reads all of them."""
    places = np.array([LONGEST - 1, LONGEST, LONGEST + 90])
    side = [(np.array([5, 6, 7]), places)]
    contexts = VisibleWords(np.array([4]), np.array([0]), np.array([LONGEST + 91]), side, side)
    drawn = DrawnRules(contexts, np.array([0]), 3, seed=0, epoch=0)
    [batch] = batch_places(drawn, np.array([0]), 1)
    assert sorted(batch[0, 1:].tolist()) == sorted([*places, *places])
    _, _, positions = unpack(drawn[np.array([0])])
    assert set(positions.flatten().tolist()) == {LONGEST - 1}


def test_trainings_of_unlike_length_are_unlike_rows(workplace):
    option = "proxy.training.max_epochs"
    jobs = [job_for(workplace, "random", f"{option}={n}") for n in (5, 50)]
    assert [BaseTuned(RuleSet(job)).settings()["max_epochs"] for job in jobs] == [5, 50]


def test_code_of_a_plug_ins_proxy_decides_its_training(transformer, workplace, unmade, monkeypatch):
    unmade("proxy")
    rules, fingerprints = RuleSet(job_for(workplace, "random")), set()
    for code in (None, "written", "edited"):
        monkeypatch.setattr(trained_proxy, "code_of_plug_in", lambda cls, code=code: code)
        fingerprints.add(Own(rules).trained.fingerprint)
    assert len(fingerprints) == 3


@pytest.mark.parametrize(
    ("judge", "stage"), [(Own, "proxy"), (EvalX, "proxy"), (BaseTuned, "tuned")]
)
def test_a_judge_of_a_plug_in_shares_no_training_with_what_it_is_made_from(
    judge, stage, transformer, workplace, unmade
):
    """It may learn from other lessons."""
    unmade(stage)
    rules = RuleSet(job_for(workplace, "random"))
    plugin_judge = type("Mine", (judge,), {"__module__": __name__})
    assert plugin_judge(rules).trained.fingerprint != judge(rules).trained.fingerprint


def test_a_leak_that_cannot_be_measured_leaves_the_row(transformer, workplace, monkeypatch, caplog):
    def nothing(*_):
        raise NotApplicable("no training decision can show the words of another decision's rule")

    monkeypatch.setattr(OnMatchedRules, "lessons", nothing)
    job = job_for(workplace, "random", *FEW, "proxy.training.max_epochs=1")
    judge = EvalX(RuleSet(job), leak=True)
    assert {*judge.columns()} == {"log_own"}
    assert "log_matched of EVAL-X is not measured: no training decision" in caplog.text
    sums_R = {name: np.array([-6.0]) for name in ("log_likelihood", "log_own")}
    sums_R |= {"rows": np.array([3.0]), "log_own": np.array([-3.0])}
    assert judge.results(sums_R) == {"leak": 1.0, "stripe_1": 3.0, "stripe_10": 12.0}
    matched_R = {"log_matched": sums_R.pop("log_own")}
    assert judge.results(sums_R | matched_R) == {"matched": 1.0}
    assert judge.results(sums_R) == {}


def test_a_second_name_for_one_class_is_refused(workplace):
    job = job_for(
        workplace, "random", "+judge.mine={_target_: xnmt_bench.judges.base_untuned.Base}"
    )
    with pytest.raises(XnmtError, match="judge 'mine': its class has the name 'base'"):
        configured_judges(RuleSet(job))


def test_draws_are_new_each_epoch_and_the_same_for_one_seed():
    contexts = small_contexts()
    rows = np.arange(len(contexts))
    first, again, other, seeded = (
        DrawnRules(contexts, rows, 1, seed, epoch)[rows]
        for seed, epoch in [(0, 0), (0, 0), (0, 1), (1, 0)]
    )
    assert (first == again).all()
    for different in (other, seeded):
        assert (first[:, 0] == different[:, 0]).all()
        assert (first != different).any()


@pytest.mark.parametrize("k", [1, 2])
def test_matches_against_every_draw_that_there_is(k):
    """The chance of a decision is that of a random draw of just these words, by enumeration."""
    contexts = small_contexts(seed=2, sentences=12)
    chances: dict[tuple, dict[int, float]] = {}
    for row in range(len(contexts)):
        n, step = contexts.sentence_N[row], contexts.step_N[row]
        sides = contexts.source.of(n).tolist(), contexts.prefix.of(n)[:step].tolist()
        draws = [list(permutations(range(len(x)), min(k, len(x)))) for x in sides]
        for i in draws[0]:
            for j in draws[1]:
                key = (
                    tuple(sorted(sides[0][a] for a in i)), tuple(sorted(sides[1][a] for a in j))
                )  # fmt: skip
                chance_of = chances.setdefault(key, {})
                chance_of[row] = chance_of.get(row, 0) + 1 / (len(draws[0]) * len(draws[1]))
    matches = Matches(contexts, k)
    for (source, prefix), expected in chances.items():
        filled = [*source, *[-1] * (k - len(source)), *prefix, *[-1] * (k - len(prefix))]
        rows, weights = matches.decisions(np.array(filled))
        assert dict(zip(rows.tolist(), weights.tolist(), strict=True)) == pytest.approx(expected)


def test_a_match_is_another_decision_drawn_by_its_chance():
    contexts = small_contexts(seed=3, sentences=40, words=3)
    matches, generator = Matches(contexts, 1), np.random.default_rng(0)
    words = np.array([4, 4])
    rows, weights = matches.decisions(words)
    own_row = int(rows[0])
    labels = [matches.label(words, own_row, generator) for _ in range(4000)]
    expected = Counter()
    for row, weight in zip(rows[1:], weights[1:], strict=True):
        expected[int(contexts.label_N[row])] += weight / weights[1:].sum()
    for label, share in expected.items():
        assert labels.count(label) / 4000 == pytest.approx(share, abs=0.04)
    assert matches.label(np.array([99, 4]), own_row, generator) is None


def unknown_labels(job):
    """How much of a label its rule's source word leaves unknown, in nats, by counting rules."""
    [columns] = [all_rules(RuleSet(job).training_artefact.path, "train", 1)]
    words = columns.source_NK[:, 0].tolist()
    of_words, of_both = Counter(words), Counter(zip(words, columns.label_N.tolist(), strict=True))
    counts = np.array([(both, of_words[word]) for (word, _), both in of_both.items()])
    return (counts[:, 0] * np.log(counts[:, 1] / counts[:, 0])).sum() / len(words)


def test_a_code_tells_the_label_by_its_choice_but_not_to_the_shared_proxy(
    transformer, workplace, unmade
):
    code, floor = job_for(workplace, "code"), job_for(workplace, "random")
    assert unknown_labels(code) < unknown_labels(floor) - 0.5
    # One proxy judges both, which learns from words that neither has chosen.
    unmade("proxy")
    assert len({EvalX(RuleSet(job)).trained.fingerprint for job in (code, floor)}) == 1
    assert len({Own(RuleSet(job)).trained.fingerprint for job in (code, floor)}) == 2


def test_the_shared_proxy_knows_random_words_as_well_as_in_validation(transformer, workplace):
    """Words of the test set are drawn as those of training sentences are."""
    proxy = EvalX(RuleSet(job_for(workplace, "random", *FEW)))
    units = Units("", *by_unit(
        proxy.scores().sentence_N, log_likelihood=proxy.scores().log_likelihood_N,
        correct=proxy.scores().correct_N,
    ))  # fmt: skip
    low, high = interval(resample(Fidelity(), units, Draws(300, 0))["ppl"][1:])
    # Validation has an interval of its own, about as wide.
    valid, slack = np.exp(proxy.trained.facts["valid_loss"]), high - low
    assert low - slack < valid < high + slack


def test_leak_and_stripe_are_of_the_two_proxies(transformer, workplace):
    shared = EvalX(RuleSet(job_for(workplace, "code", *FEW)))
    base = shared.scores()
    columns = {"log_likelihood": base.log_likelihood_N, "correct": base.correct_N}
    for name, kind in (("log_own", FromEvalX), ("log_matched", OnMatchedRules)):
        columns[name] = kind(shared).scores().log_likelihood_N
    units = Units("", *by_unit(base.sentence_N, **columns))
    results = {name: x[0] for name, x in resample(Fidelity(), units, Draws(9, 0)).items()}
    log_own, matched, shared_N = columns["log_own"], columns["log_matched"], base.log_likelihood_N
    assert results["leak"] == pytest.approx((log_own - shared_N).mean())
    assert results["matched"] == pytest.approx((matched - shared_N).mean())
    assert results["choice"] == pytest.approx((log_own - matched).mean())
    penalty = max(0, (log_own - shared_N).mean())
    assert results["stripe_10"] == pytest.approx(-shared_N.mean() + 10 * penalty)


def test_a_proxy_that_goes_on_learns_with_its_dropout(transformer, workplace, monkeypatch):
    built = []

    def fit(build, *_, **__):
        built.append(build())
        raise InterruptedError

    few = "seed=5", "rules.train_sentences=60", "proxy.training.max_epochs=1"
    judge = FromEvalX(EvalX(RuleSet(job_for(workplace, "random", *few))))
    _ = judge.evalx.trained.artefact
    monkeypatch.setattr("xnmt_bench.fitting.fit", fit)
    with pytest.raises(InterruptedError):
        _ = judge.trained.artefact
    drops = [m for m in built[0].modules() if isinstance(m, torch.nn.Dropout)]
    assert drops and all(m.training and m.p > 0 for m in drops)


def test_a_tuned_base_is_at_least_as_good_as_base_in_validation(transformer, workplace):
    """Steps too small for float32 leave the system's own weights, which are kept unless others
    are better in validation.
    """
    rates = ("proxy.training.learning_rate=1e-12", "proxy.training.learning_rate=0.005")
    before, after = (BaseTuned(RuleSet(job_for(workplace, "random", *FEW, r)), 60) for r in rates)
    base = Base(before.rules)
    np.testing.assert_array_equal(before.scores().log_likelihood_N, base.scores().log_likelihood_N)
    assert after.trained.facts["valid_loss"] <= before.trained.facts["valid_loss"]
    assert not np.array_equal(after.scores().log_likelihood_N, base.scores().log_likelihood_N)
    # The system itself is what it was.
    assert not any(p.requires_grad for p in before.rules.job.system.model.parameters())


def test_what_a_judge_cost_is_a_fact_of_its_row(transformer, workplace):
    """Its epochs times its sentences, and the seconds that the store has measured."""
    rules = RuleSet(job_for(workplace, "random", "proxy.training.max_epochs=2"))
    tuned, base = BaseTuned(rules, 150), Base(rules)
    facts, base_facts = (
        evidence_of(judge, TestDecisions(rules), 5, False).facts for judge in (tuned, base)
    )
    assert facts["learning_passes"] == 150 * facts["epochs"] == 150 * 2
    for seconds, artefact in (
        ("learning_seconds", tuned.trained),
        ("judging_seconds", tuned.judged),
    ):
        took = json.loads((artefact.path / "meta.json").read_text())["took"]
        assert facts[seconds] == took["seconds"] > 0
    assert base_facts["judging_seconds"] > 0 and "learning_seconds" not in base_facts


def test_exchanged_words_that_make_pairs_too_long_leave_fewer_to_learn_from(transformer, workplace):
    rules = RuleSet(job_for(workplace, "random"))
    for count, expected in ((40, 40), (70, 60)):
        swapped = BaseSwapped(rules, 60)
        texts = SimpleNamespace(split=lambda name, count=count: range(count))
        swapped.__dict__["learnt_decisions"] = SimpleNamespace(texts=texts)
        assert swapped.train_sentences == expected


@pytest.mark.long
def test_exchanged_words_teach_another_base(transformer, workplace):
    job = job_for(workplace, "random", "proxy.training.max_epochs=1")
    rules = RuleSet(job)
    swapped, tuned = BaseSwapped(rules, 60), BaseTuned(rules, 60)
    learnt, texts = swapped.learnt_decisions, job.texts
    before, after = texts.sentences("train", 60), learnt.texts.sentences("train", 60)
    assert sum(a.source != b.source for a, b in zip(before, after, strict=True)) > 40
    # Labels are the system's own, of the new sentences.
    contexts = learnt.visible_words(rules.learned_from, 60)
    split = learnt.split("train", rules.learned_from, 60)
    batch, _ = decide(job.system.model, batch_of(split, [0]))
    here = contexts.sentence_N == 0
    assert contexts.label_N[here].tolist() == batch.labels_BT[0].tolist()
    assert swapped.trained.fingerprint != tuned.trained.fingerprint
    assert not np.array_equal(swapped.scores().log_likelihood_N, tuned.scores().log_likelihood_N)


def test_a_network_reads_the_states_of_a_model_that_stays(transformer, workplace, unmade):
    job = job_for(workplace, "random", *FEW)
    before = {n: p.clone() for n, p in job.system.model.state_dict().items()}
    reader = EvalXStates(RuleSet(job), 60, hidden=8)
    log_p_N = reader.scores().log_likelihood_N
    assert all(torch.equal(p, before[n]) for n, p in job.system.model.state_dict().items())
    weights = load_file(reader.trained.path / WEIGHTS)
    # A norm and two layers, and nothing of the system.
    names = ["0.weight", "0.bias", "1.weight", "1.bias", "3.weight", "3.bias"]
    assert weights.keys() == set(names)
    scale, shift, inner, inner_bias, outer, outer_bias = (weights[name] for name in names)
    rules, split = reader.rules.test.take(slice(30)), job.texts.split("test")
    index_of = {number: index for index, number in enumerate(split.number.tolist())}
    states_BD = masked_states(
        job.system.model, split, np.array([index_of[n] for n in rules.sentence_N.tolist()]),
        rules.step_N, rules.source_position_NK, rules.prefix_position_NK,
    )  # fmt: skip
    normed_BD = F.layer_norm(states_BD, states_BD.shape[1:], scale, shift)
    logits_BV = (normed_BD @ inner.T + inner_bias).relu() @ outer.T + outer_bias
    log_q_B = logits_BV.log_softmax(-1)[torch.arange(30), torch.tensor(rules.label_N.tolist())]
    np.testing.assert_allclose(log_p_N[:30], log_q_B.detach().numpy(), rtol=1e-4, atol=1e-5)
    unmade("tuned")
    other = EvalXStates(RuleSet(job_for(workplace, "lexicon", *FEW)), 60, 8)
    assert other.trained.fingerprint == reader.trained.fingerprint


def test_a_reader_of_states_is_named_by_its_options(transformer, workplace):
    rules = RuleSet(job_for(workplace, "random"))
    assert EvalXStates(rules).row_heading == "EVAL-X, states"
    assert EvalXStates(rules, 200, 64).row_name == "evalx_states@200[hidden=64]"
    assert EvalXStates(rules, 200, 64).row_heading == "EVAL-X, states (200) (hidden 64)"


def test_a_swapped_base_is_named_by_its_options_and_finds_alike_words(transformer, workplace):
    rules = RuleSet(job_for(workplace, "random"))
    assert BaseSwapped(rules).row_name == "base_swapped"
    half = BaseSwapped(rules, 300, share=0.5)
    assert half.row_name == "base_swapped@300[share=0.5]"
    assert half.row_heading == "Base, swapped (300) (50 %)"
    assert half.settings()[EXCHANGED] == GRAMMAR
    corpus = half.learnt_decisions.texts.corpus
    by_grammar, recipe = list(corpus.sentences("train")), corpus.recipe()
    del rules.job.exchangeable
    rules.job.corpus.substitutes = lambda: None
    half = BaseSwapped(rules, 300, share=0.5)
    assert half.settings()[EXCHANGED] == HEURISTIC
    corpus = half.learnt_decisions.texts.corpus
    assert recipe != corpus.recipe() and by_grammar != list(corpus.sentences("train"))


def test_shared_proxies_need_no_rules_of_training_sentences(transformer, workplace):
    few = "rules.train_sentences=333", "rules.test_sentences=20"
    job = job_for(workplace, "weighted_gradient", *few)
    _ = EvalX(RuleSet(job)).judged.artefact
    rules_made = [a for a in job.store.all("rules") if a.recipe.get("train_sentences") == 333]
    assert not rules_made


def test_more_sentences_than_are_explained(transformer, workplace):
    proxy = EvalX(RuleSet(job_for(workplace, "random")), 2000)
    assert proxy.train_sentences == 2000
    contexts = proxy.rules.explained.decisions.visible_words("teacher_forcing", 2000)
    assert len(set(contexts.sentence_N.tolist())) == 2000
    problem = "judge.evalx.sentences=1000000: the training split has only 3000"
    with pytest.raises(NotApplicable, match=problem):
        EvalX(RuleSet(job_for(workplace, "random")), 10**6).train_sentences  # noqa: B018


def test_a_model_too_large_to_be_tuned_is_not_applicable(transformer, workplace, monkeypatch):
    rules = RuleSet(job_for(workplace, "random", *FEW))
    weights = sum(w.nbytes for w in rules.system.model.parameters())
    judge = BaseTuned(rules, 12)
    monkeypatch.setattr("xnmt_bench.judges.base_tuned.available_memory", lambda _: 4 * weights - 1)
    with pytest.raises(NotApplicable, match="tuning takes"):
        judge.trained.path  # noqa: B018
    monkeypatch.setattr("xnmt_bench.judges.base_tuned.available_memory", lambda _: 4 * weights)
    assert judge.trained.path.exists()


def test_contexts_are_those_of_the_rules(transformer, workplace):
    """Each decision's label and words, beside the rules that were extracted of the same."""
    job = job_for(workplace, "random")
    contexts = job.explained.decisions.visible_words("teacher_forcing", 300)
    rules = next(Own(RuleSet(job)).rules.training())
    count = len(contexts)
    assert (contexts.label_N == rules.label_N[:count]).all()
    assert (contexts.step_N == rules.step_N[:count]).all()
    for row in range(0, count, 37):
        n = contexts.sentence_N[row]
        assert rules.source_NK[row, 0] in contexts.source.of(n)
        visible = contexts.prefix.of(n)[: contexts.prefix_count_N[row]]
        assert contexts.prefix_count_N[row] == contexts.step_N[row]
        assert rules.prefix_NK[row, 0] in visible if len(visible) else True


def test_leak_is_of_the_same_sentences(transformer, workplace):
    with pytest.raises(XnmtError, match="same sentences"):
        EvalX(RuleSet(job_for(workplace, "random")), sentences=100, leak=True)
