"""A metric may bring its own test set: sentences, targets, and results on them."""

import numpy as np
import pytest

from support.systems import small_job
from xnmt_bench.corpora.sentence import Corpus
from xnmt_bench.rules.extract import GOLDEN, REAL


class Excerpt(Corpus):
    """Some test sentences of another corpus, backwards, with no training data."""

    def __init__(self, corpus, count):
        self.name = "excerpt"
        self.source_language, self.target_language = corpus.source_language, corpus.target_language
        self.own = list(corpus.sentences("test"))[:count][::-1]

    def sentences(self, split):
        assert split == "test", "a test set has no other split"
        return iter(self.own)

    def recipe(self, split=None):
        return {"kind": "excerpt", "count": len(self.own)}


@pytest.fixture(scope="module")
def gradient_job(transformer, workplace):
    few = "nmt.beam=1", "rules.test_sentences=12"
    return small_job(workplace, "transformer", "explainer=gradient_norm", *few)


def test_its_outputs_are_the_systems_translations_of_it(gradient_job):
    excerpt = Excerpt(gradient_job.corpus, 8)
    outputs, usual = gradient_job.outputs(excerpt), gradient_job.outputs()
    assert outputs.texts == usual.texts[:8][::-1]
    assert [s.source for s in outputs.sentences] == [s.source for s in excerpt.own]
    assert outputs.test_set != usual.test_set
    assert outputs.number_N.tolist() == list(range(8))


def test_its_relevance_is_that_of_the_same_sentences(gradient_job):
    """Sentence by sentence, independent of the others in the set."""
    explained = list(gradient_job.relevance(GOLDEN, corpus=Excerpt(gradient_job.corpus, 12)))
    usual = list(gradient_job.relevance(GOLDEN))
    assert len(explained) == len(usual) == 12
    for sentence, other in zip(explained, usual[::-1], strict=True):
        np.testing.assert_allclose(sentence.source_TS, other.source_TS, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(sentence.prefix_TT, other.prefix_TT, rtol=1e-4, atol=1e-6)


def test_given_targets_are_explained_as_golden_data(gradient_job):
    """The system's own translations as given targets: the same numbers as real decoding's."""
    texts = gradient_job.outputs().texts
    forced = list(gradient_job.relevance(targets=texts))
    real = list(gradient_job.relevance(REAL))
    assert len(forced) == len(real) == 12
    for sentence, other in zip(forced, real, strict=True):
        np.testing.assert_allclose(sentence.source_TS, other.source_TS, rtol=1e-4, atol=1e-6)


def test_variants_of_a_target_are_other_artefacts(gradient_job):
    texts = gradient_job.outputs().texts
    reverse = [" ".join(text.split()[::-1]) for text in texts]
    original, other = gradient_job.relevance(targets=texts), gradient_job.relevance(targets=reverse)
    assert original.fingerprint != other.fingerprint
    assert original.fingerprint == gradient_job.relevance(targets=list(texts)).fingerprint
    with pytest.raises(ValueError, match="shorter"):
        list(gradient_job.relevance(targets=texts[:3]))


def test_log_probabilities_of_its_pairs(gradient_job):
    excerpt = Excerpt(gradient_job.corpus, 5)
    pairs = [(s.source, s.target) for s in excerpt.own]
    log_p = gradient_job.log_probability(pairs)
    worse = gradient_job.log_probability([(x, " ".join(y.split()[::-1])) for x, y in pairs])
    assert log_p.shape == (5,)
    assert (log_p < 0).all()
    assert (worse < log_p).mean() > 0.5
