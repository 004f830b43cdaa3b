"""Sentences worth reading first."""

import numpy as np
import pytest

from support.configurations import configure
from xnmt_bench.corpora.sentence import Sentence
from xnmt_bench.metrics.confidence import Confidence
from xnmt_bench.metrics.confidence.lists import Thresholds, in_training, listed
from xnmt_bench.run import configured_metrics

FINE = {
    "overlap": 0.1, "target_words": 12, "source_words": 12, "source_language": 0.0,
    "confidence_pct": 70.0, "cdp_pct": 95.0, "ap_out_pct": 90.0, "ap_in_pct": 90.0,
    "top_four_gram": 0, "ignored_source": 0.1, "source_contribution": 0.6, "chrf": 60.0,
    "length_ratio": 1.0, "digits_differ": 0.0, "wrong_language": 0.0, "strange_symbols": 0,
    "in_training": 0.0,
}  # fmt: skip


def columns(*changes):
    """A fine sentence, and others that differ from it."""
    rows = [FINE, *({**FINE, **change} for change in changes)]
    return {name: np.array([float(row[name]) for row in rows]) for name in FINE}


@pytest.mark.parametrize(
    ("name", "on", "off"),
    [
        ("untranslated", {"overlap": 0.5}, {"overlap": 0.9, "target_words": 9}),
        ("untranslated", {"source_language": 1.0}, {"overlap": 0.49}),
        ("short and unsure", {"source_words": 9, "cdp_pct": 29.9}, {"cdp_pct": 10.0}),
        ("short and unsure", {"source_words": 3, "confidence_pct": 5.0}, {"source_words": 3}),
        ("repetition", {"top_four_gram": 2}, {"top_four_gram": 1}),
        ("hallucination", {"ignored_source": 0.5}, {"ignored_source": 0.49}),
        ("hallucination", {"source_contribution": 0.29}, {"source_contribution": np.nan}),
        ("other, not wrong", {"chrf": 29.0}, {"chrf": 29.0, "confidence_pct": 59.0}),
        ("length", {"length_ratio": 0.49}, {"length_ratio": 0.5}),
        ("length", {"length_ratio": 2.01}, {"length_ratio": 2.0}),
        ("digits", {"digits_differ": 1.0}, {"digits_differ": 0.0}),
        ("wrong language", {"wrong_language": 1.0}, {"wrong_language": np.nan}),
        ("strange symbols", {"strange_symbols": 1}, {"strange_symbols": 0}),
        ("empty", {"target_words": 0}, {"target_words": 1}),
        ("in training data", {"in_training": 1.0}, {"in_training": np.nan}),
    ],
)
def test_each_list(name, on, off):
    rule, places = listed(columns(on, off), Thresholds())[name]
    assert places == [1]
    assert rule


def test_thresholds_move_rule_and_members():
    rule, places = listed(columns({"top_four_gram": 3}), Thresholds(repeated=4))["repetition"]
    assert "4 times" in rule
    assert len(places) == 0
    strict = Thresholds(sure=80.0)
    assert len(listed(columns({"chrf": 1.0}), strict)["other, not wrong"][1]) == 0
    assert Confidence(lists=Thresholds(repeated=4)).thresholds == Thresholds(repeated=4)
    config = configure("metric=[confidence]", "metric.confidence.lists.repeated=4")
    assert configured_metrics(config)["confidence"].thresholds == Thresholds(repeated=4)


def test_unknown_values_put_no_sentence_on_a_list():
    scored = {"target_words": np.array([5.0, 0.0])}
    members = {name: places for name, (_, places) in listed(scored, Thresholds()).items()}
    assert members.pop("empty") == [1]
    assert not any(members.values())


def test_pairs_of_the_training_data():
    train = [Sentence("a b", "x y", "", 0), Sentence("c", "c", "", 1)]
    pairs = [("a b", "x y"), ("a b", "x"), ("c", "c"), ("c", "c")]
    assert in_training(pairs, train) == [1, 0, 1, 1]


def test_pairs_of_the_training_data_are_found_as_vocabularies_normalise_them():
    train = [Sentence("Warte …  ½", "Wait … ½", "", 0)]
    assert in_training([("Warte ... 1⁄2", "Wait ... 1⁄2")], train) == [1]
