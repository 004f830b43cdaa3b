"""BLEU, chrF and TER from sums over sentences, against sacrebleu's own scores of the corpus."""

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER

from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.measuring.bootstrap import Draws, score, weights
from xnmt_bench.measuring.measurement import read, write
from xnmt_bench.measuring.sacre import statistics
from xnmt_bench.measuring.units import Units
from xnmt_bench.metrics.quality import Quality
from xnmt_bench.report.panels import distinguish, panels

THEIRS = {"bleu": lambda: BLEU(force=True), "chrf": CHRF, "ter": TER}


def texts(sentences=40):
    """Translations that are right, worse, far too short, far too long and empty."""
    references = [s.target for s in ToyCorpus(test=sentences).sentences("test")]
    spoilt = []
    for number, text in enumerate(references):
        words = text.split()
        changes = (words, words[::-1], words[1:], [*words, *words], words[:1], [])
        spoilt.append(" ".join(changes[number % len(changes)]))
    return spoilt, references


def units_of(hypotheses, references):
    return Units("a test set", np.arange(len(hypotheses)), statistics(hypotheses, references))


def theirs(hypotheses, references):
    """sacrebleu's own scores of a corpus."""
    return {
        n: metric_class().corpus_score(hypotheses, [references]).score
        for n, metric_class in THEIRS.items()
    }


def assert_same(actual, number, expected):
    for name, value in expected.items():
        assert actual[name][number] == pytest.approx(value, rel=1e-12), name


def test_values_are_sacrebleus_own():
    sides = texts()
    expected = theirs(*sides)
    assert all(0 < value < 300 for value in expected.values())
    assert len({round(value) for value in expected.values()}) == 3
    assert_same(Quality().score(units_of(*sides), np.ones((1, 40))), 0, expected)


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_a_weighted_draw_is_the_corpus_of_the_repeated_sentences(kind):
    hypotheses, references = texts()
    drawn = np.concatenate(list(weights(40, 5, 0)))
    score_of = Quality().score(units_of(hypotheses, references), drawn.astype(kind))
    expected = []
    for counts in drawn:
        assert counts.max() > 1
        assert counts.min() == 0
        repeated = [np.repeat(side, counts).tolist() for side in (hypotheses, references)]
        expected.append(theirs(*repeated))
    for number, values in enumerate(expected):
        assert_same(score_of, number, values)
    assert len({values["bleu"] for values in expected}) == 5


@pytest.mark.parametrize("hypothesis", ["", "kein einziges davon"])
def test_translations_that_share_nothing_with_their_references(hypothesis):
    sides = [hypothesis] * 2, ["der Hund schläft .", "eine Katze singt ."]
    assert_same(Quality().score(units_of(*sides), np.ones((1, 2))), 0, theirs(*sides))


def test_comet_is_the_mean_over_sentences():
    columns = statistics(*texts(4)) | {
        "comet": np.array([0.5, 0.0, 1.0, 0.25]),
        "sentences": np.ones(4, dtype=np.int64),
    }
    units = Units("a test set", np.arange(4), columns)
    score_of = Quality().score(units, np.array([[1, 1, 1, 1], [0, 2, 1, 1]]))
    assert score_of["comet"] == pytest.approx([0.4375, 0.3125])
    assert "comet" not in Quality().score(units_of(*texts(4)), np.ones((1, 4)))


def test_quality_is_that_of_the_translations(system):
    [planned] = Quality().measure(system)
    assert (planned.keys["nmt"], planned.identify().model) == (
        system.settings.nmt.name,
        system.system.fingerprint,
    )
    evidence = planned.make()
    outputs = system.outputs()
    references = [s.target for s in system.corpus.sentences("test")]
    assert len(evidence.units) == len(outputs.texts) == len(references)
    score_of = Quality().score(evidence.units, np.ones((1, len(references))))
    assert_same(score_of, 0, theirs(outputs.texts, references))
    assert score_of["bleu"] > 5  # it has learnt something
    assert evidence.made_by["outputs"] == outputs.fingerprint
    for name, metric_class in THEIRS.items():
        metric = metric_class()
        metric.corpus_score(outputs.texts, [references])
        assert evidence.made_by[name] == metric.get_signature().format()


def test_translations_of_two_beams_are_two_rows(transformer, tmp_path):
    metric, models = Quality(), set()
    for beam in (4, 1, 4):
        [planned] = metric.measure(transformer.changed({"nmt": {"beam": beam}}))
        row, evidence = planned.identify(), planned.make()
        write(metric.name, row, evidence, tmp_path)
        models.add(row.model)
    rows = read(metric.name, tmp_path, metric.identity)
    assert sorted(row.settings["beam"] for row in rows) == [1, 4]
    assert len(models) == 1
    shown = panels(metric, [score(metric, row, Draws(9, 0)) for row in rows])
    assert distinguish(shown).varying == ["beam"]
    file = transformer.changed({"outputs": {"path": "x.txt"}})
    assert file.search_settings == {}
