"""Relevance with noise, and given to other words."""

import numpy as np
import pytest
import torch

from support.systems import small_job
from xnmt_bench.corpora.vocabulary.subwords import SPECIAL
from xnmt_bench.errors import XnmtError
from xnmt_bench.registry import load_explainer
from xnmt_bench.rules.extract import TEACHER_FORCING


def both(model, batch, name, **options):
    """Scores of gradient norm and of its altered form, with True for words, by side."""
    plain = load_explainer("gradient_norm").relevance(model, batch)
    altered = load_explainer(name, of="gradient_norm", **options).relevance(model, batch)
    for first, second, ids in (
        (plain.source_BTS, altered.source_BTS, batch.source_BS),
        (plain.prefix_BTT, altered.prefix_BTT, batch.target_BT),
    ):
        assert torch.equal(first.isnan(), second.isnan())
        words = ~torch.isin(ids, torch.tensor(SPECIAL))[:, None].expand_as(first) & ~first.isnan()
        yield first, second, words


def test_noise_is_small_and_of_every_word(transformer, labelled_batch):
    for first, second, words in both(transformer.system.model, labelled_batch, "noisy", amount=0.1):
        for b, t in np.ndindex(*first.shape[:2]):
            scores, moved = (x[b, t][words[b, t]].double() for x in (first, second))
            if len(scores) > 1:
                change = (moved - scores).abs() / scores.std(correction=0)
                assert change.min() > 0
                assert change.max() < 0.1 + 1e-4


def test_exchanged_scores_are_the_same_numbers_at_other_words(transformer, labelled_batch):
    places, stayed = 0, 0
    for first, second, words in both(transformer.system.model, labelled_batch, "exchanged"):
        assert torch.equal(first.sort(-1)[0].nan_to_num(), second.sort(-1)[0].nan_to_num())
        special = ~words & ~first.isnan()
        assert torch.equal(first[special], second[special])
        many = words & (words.sum(-1, keepdim=True) > 5)
        places, stayed = places + int(many.sum()), stayed + int((first == second)[many].sum())
    assert places > 500
    assert stayed < 0.2 * places  # a random order leaves one of n at its place


@pytest.mark.parametrize("name", ["noisy", "exchanged"])
def test_draws_follow_from_the_seed_and_the_sentence(transformer, labelled_batch, name):
    model = transformer.system.model
    explain = load_explainer(name, of="gradient_norm", seed=1).relevance
    first, again = explain(model, labelled_batch), explain(model, labelled_batch)
    other = load_explainer(name, of="gradient_norm", seed=2).relevance(model, labelled_batch)
    assert torch.equal(first.source_BTS.nan_to_num(), again.source_BTS.nan_to_num())
    assert not torch.equal(first.source_BTS.nan_to_num(), other.source_BTS.nan_to_num())
    alone = explain(model, labelled_batch.take([3]))
    t, s = alone.source_BTS.shape[1:]
    torch.testing.assert_close(
        first.source_BTS[3, :t, :s], alone.source_BTS[0], rtol=1e-4, atol=1e-7, equal_nan=True
    )


@pytest.mark.parametrize("name", ["noisy", "exchanged"])
def test_random_of_the_same_seed_is_altered_by_other_draws(transformer, labelled_batch, name):
    """By its own draws its scores would be sorted, or keep their order under any noise."""
    model = transformer.system.model
    options = {"amount": 20.0} if name == "noisy" else {}
    plain = load_explainer("random", seed=0).relevance(model, labelled_batch).source_BTS
    altered = load_explainer(name, of="random", seed=0, **options).relevance(model, labelled_batch)
    words_S = ~torch.isin(labelled_batch.source_BS[0], torch.tensor(SPECIAL))
    first, second = (x[0, 0][words_S] for x in (plain, altered.source_BTS))
    assert not torch.equal(second, second.sort()[0])
    assert not torch.equal(first.argsort(), second.argsort())


def job_of(workplace, *changes):
    return small_job(workplace, "transformer", "rules.test_sentences=20", *changes)


@pytest.mark.long
def test_an_explainer_that_learns_is_altered_too(workplace, transformer):
    """A lexicon, which is blind and learns from the training text."""
    plain = job_of(workplace, "explainer=lexicon")
    altered = job_of(workplace, "explainer=exchanged", "explainer.phi.of=lexicon")
    assert altered.explained.explainer.blind
    assert altered.explained.name == "exchanged[of=lexicon]"
    assert altered.explained.alteration == ("lexicon", "exchanged", "")
    rounded = job_of(workplace, "explainer=noisy", "explainer.phi.of=lexicon",
                     "explainer.phi.amount=0.1", "rules.precision=bf16")  # fmt: skip
    assert rounded.explained.alteration == ("lexicon[precision=bf16]", "noisy", "amount=0.1")
    for first, second in zip(
        plain.relevance(TEACHER_FORCING), altered.relevance(TEACHER_FORCING), strict=True
    ):
        np.testing.assert_array_equal(np.sort(first.source_TS), np.sort(second.source_TS))


def test_rules_count_the_code_of_the_altered_explainer(workplace, monkeypatch):
    """As when its file is edited."""
    from xnmt_bench.explainers.gradient_norm import GradientNorm
    from xnmt_bench.pipeline import explained

    recipe = job_of(
        workplace, "explainer=noisy", "explainer.phi.of=gradient_norm"
    ).explained._recipe
    usual = explained.code_hash
    monkeypatch.setattr(
        explained, "code_hash", lambda cls: "edited" if cls is GradientNorm else usual(cls)
    )
    edited = job_of(
        workplace, "explainer=noisy", "explainer.phi.of=gradient_norm"
    ).explained._recipe
    assert recipe.pop("code_of_altered") != edited.pop("code_of_altered") == ["edited"]
    assert recipe == edited


def test_rules_count_the_code_behind_two_alterations(workplace, monkeypatch):
    from xnmt_bench.explainers.prediction_difference import PredictionDifference
    from xnmt_bench.pipeline import explained

    nested = ("explainer=exchanged", "explainer.phi.of=noisy")  # of prediction difference
    recipe = job_of(workplace, *nested).explained._recipe
    usual = explained.code_hash
    monkeypatch.setattr(
        explained, "code_hash", lambda cls: "edited" if cls is PredictionDifference else usual(cls)
    )
    assert job_of(workplace, *nested).explained._recipe != recipe


def test_an_unknown_explainer_is_one_line():
    with pytest.raises(XnmtError, match="no explainer 'gradient_nrom'; did you mean"):
        load_explainer("noisy", of="gradient_nrom")
