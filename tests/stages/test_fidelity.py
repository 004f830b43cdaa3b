"""The whole chain on trained systems: does fidelity mean what it says?"""

import dataclasses

import numpy as np
import pytest
import torch
from conftest import configure, overrides

from proxies import FN
from proxies.base import Vocabulary
from proxies.training import ProxyTraining, TrainingOptions, log_likelihoods
from xnmt_bench.fitting import TrainerOptions, fit
from xnmt_bench.metrics.base import base_log_likelihoods
from xnmt_bench.metrics.perplexity import DecisionScores, perplexity
from xnmt_bench.rules.table import Rules
from xnmt_bench.stages.explained import EVALUATED
from xnmt_bench.stages.fidelity import SCORES, Fidelity, _decisions


def stages_for(workplace, system, explainer, *more):
    changes = [*overrides(system), f"store={workplace}/store", f"explainer={explainer}", *more]
    return Fidelity(configure(*changes, "proxy=fn"))


def score(artefact):
    scores = DecisionScores.load(artefact.path / SCORES)
    return perplexity(scores, "", samples=200, seed=0)


@pytest.mark.parametrize("name", ["transformer", "rnn_search"])
def test_faithful_explainers_beat_random(workplace, name):
    floor = stages_for(workplace, name, "random")
    for explainer in ("prediction_difference", "gradient_norm"):
        stages = stages_for(workplace, name, explainer)
        assert score(stages.proxy).high < score(floor.proxy).low, explainer
        assert stages.base.facts["hit"]["both"] > floor.base.facts["hit"]["both"]


def test_base_with_every_word_is_the_nmt_model_itself(system):
    """Nothing is zeroed, so Base's perplexity is the model's own on its choices."""
    from conftest import batch_of, double

    from xnmt_bench.explainers.base import decide

    model, split = double(system.model), system.split(EVALUATED)
    rows, own = [], []
    for index in range(10):
        batch, log_probability = decide(model, batch_of(split, [index]))
        s, t = batch.source_BS.shape[1], batch.target_BT.shape[1]
        own.append(log_probability[0].numpy())
        for step in range(t):
            everything = np.full(64, -1)
            source, prefix = everything.copy(), everything.copy()
            source[:s], prefix[:step] = np.arange(s), np.arange(step)
            rows.append((split.number[index], step, int(batch.labels_BT[0, step]), source, prefix))
    sentence, step, label, source, prefix = (np.stack(column) for column in zip(*rows, strict=True))
    rules = Rules(sentence, step, label, np.zeros(len(rows)), source, prefix, source, prefix)
    found, correct = base_log_likelihoods(model, split, rules, positions=300)
    np.testing.assert_allclose(found, np.concatenate(own), rtol=1e-9, atol=1e-12)
    assert correct.all()


def test_base_equals_one_decision_at_a_time(system):
    """Grouping decisions changes nothing."""
    from conftest import double

    stages = Fidelity(configure(*_changes(system), "explainer=gradient_norm"))
    model, split = double(system.model), system.split(EVALUATED)
    rules = stages.test_rules.take(slice(0, 40))
    together, _ = base_log_likelihoods(model, split, rules)
    alone = [base_log_likelihoods(model, split, rules.take(slice(i, i + 1)))[0] for i in range(40)]
    np.testing.assert_allclose(together, np.concatenate(alone), rtol=1e-9)


def _changes(system):
    return [*overrides(system.config.nmt.name), f"store={system.config.store}"]


def test_rules_shuffled_over_decisions_are_no_better_than_unigram(workplace, tmp_path):
    """Words of another decision say nothing, so the proxy falls back on the labels alone."""
    stages = stages_for(workplace, "transformer", "gradient_norm")
    train = np.concatenate([_decisions(rules) for rules in stages._training_rules()])
    test = _decisions(stages.test_rules)
    rng = np.random.default_rng(0)
    for decisions in (train, test):
        decisions[:, 1:] = decisions[rng.permutation(len(decisions)), 1:]
    source, target = stages.subwords
    options = TrainingOptions(max_epochs=6, patience=2)
    cut = int(0.9 * len(train))

    def build():
        proxy = FN(Vocabulary(len(source), len(target), 1), dimension=32, hidden=32)
        return ProxyTraining(proxy, train[:cut], train[cut:], options)

    quiet = TrainerOptions(accelerator="cpu", progress_bar=False)
    module, _ = fit(build, tmp_path, 0, options.max_epochs, options.patience, quiet, "")
    shuffled = np.exp(-log_likelihoods(module.model, test)[0].mean())
    assert shuffled > 0.97 * score(stages.reference("unigram")).value


def test_extraction_does_not_depend_on_batches_or_shards(transformer, tmp_path):
    options = [
        "explainer=prediction_difference",
        "rules.train_sentences=60",
        "rules.test_sentences=60",
    ]
    found = []
    for change in (
        ["rules.shard_sentences=60"],
        ["rules.shard_sentences=7", "rules.batch_tokens=50"],
    ):
        stages = Fidelity(configure(*_changes(transformer), *options, *change))
        found.append(stages.test_rules)
    one, other = found
    for field in dataclasses.fields(Rules):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if field.name == "probability_N":
            np.testing.assert_allclose(a, b, rtol=1e-5)
        else:
            assert (a == b).mean() > 0.999, field.name  # a tie may fall either way in float32


def test_rules_hold_what_the_model_decided(transformer):
    """Labels, probabilities and words, against the model itself."""
    from conftest import batch_of

    from xnmt_bench.corpora.subwords import EOS
    from xnmt_bench.explainers.base import decide

    stages = Fidelity(configure(*_changes(transformer), "explainer=random", "k=2"))
    split, rules = stages.split(EVALUATED), stages.test_rules
    batch, log_probability = decide(stages.model, batch_of(split, [3]))
    rows = rules.take(rules.sentence_N == 3)
    assert (rows.label_N == batch.labels_BT[0].numpy()).all()
    np.testing.assert_allclose(rows.probability_N, log_probability[0].exp().numpy(), rtol=1e-4)
    source = split.source[3]
    assert (rows.source_NK == source[rows.source_position_NK]).all()
    for step in range(len(rows)):
        seen = rows.prefix_position_NK[step][rows.prefix_position_NK[step] >= 0]
        assert len(seen) == min(step, 2)
        assert (seen < step).all()
    assert EOS not in rules.source_NK
    assert EOS not in rules.prefix_NK


def test_attention_says_nothing_of_prefix_words_in_rnn_search(workplace):
    from xnmt_bench.errors import NotApplicable

    with pytest.raises(NotApplicable):
        stages_for(workplace, "rnn_search", "attention").rules  # noqa: B018


def test_a_smaller_training_set_is_a_slice_of_one_extraction(workplace):
    whole = stages_for(workplace, "transformer", "gradient_norm")
    part = stages_for(workplace, "transformer", "gradient_norm", "train_sentences=450")
    assert part.rules.id == whole.rules.id
    numbers = np.concatenate([rules.sentence_N for rules in part._training_rules()])
    assert sorted(set(numbers)) == list(range(450))
    assert part.proxy.facts["train_decisions"] == len(numbers)
    assert part.proxy.id != whole.proxy.id


def test_an_edited_explainer_has_other_rules(tmp_path, monkeypatch):
    from xnmt_bench.stages.explained import code_hash

    monkeypatch.syspath_prepend(tmp_path)
    texts = {
        "one": "class A:\n    '''Says this.'''\n    x = 1\n",
        "two": "class A:\n    '''Says that.'''\n\n    x = 1  # the same\n",
        "three": "class A:\n    '''Says this.'''\n    x = 2\n",
    }
    hashes = {}
    for name, text in texts.items():
        (tmp_path / f"phi_{name}.py").write_text(text)
        hashes[name] = code_hash(__import__(f"phi_{name}").A)
    assert hashes["one"] == hashes["two"] != hashes["three"]


def test_training_is_seeded(transformer):
    torch.manual_seed(99)
    again = configure(*_changes(transformer))
    assert Fidelity(again).model_id == transformer.model_id
