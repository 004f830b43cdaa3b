"""Rikters's scores: exact cases, the paper's figures, and what the released tool printed."""

import csv
import math
from collections import defaultdict

import numpy as np
import pytest

from support.attention_dumps import FORMATS, published_sentences, read_dump
from support.paths import DATA
from xnmt_bench.metrics.confidence.scores import (
    as_percentage,
    common,
    confidence,
    overlap,
    overlap_penalty,
    word_scores,
)

EXPECTED = DATA / "attention_dumps" / "expected.tsv"


def scores(weights, S=0.0, tokens=4, definition="paper"):
    return confidence(np.asarray(weights, dtype=float), S, tokens, definition)


def test_one_to_one_attention_is_perfect():
    result = scores(np.eye(4))
    assert (result.cdp, result.ap_out, result.ap_in, result.confidence) == (0, 0, 0, 0)
    assert as_percentage("confidence", result.confidence) == 100


def test_even_attention():
    result = scores(np.full((4, 4), 0.25))
    assert result.cdp == 0
    assert result.ap_out == pytest.approx(-1.386294, abs=1e-6)
    assert result.ap_in == pytest.approx(-1.386294, abs=1e-6)
    assert as_percentage("confidence", result.confidence) == pytest.approx(68.09, abs=0.005)


def test_all_attention_on_one_token():
    weights = np.zeros((4, 4))
    weights[:, 0] = 1
    result = scores(weights)
    assert result.cdp == pytest.approx(-1.095507, abs=1e-6)
    assert (result.ap_out, result.ap_in) == (0, pytest.approx(-0.346574, abs=1e-6))


def test_a_source_token_without_attention():
    result = scores(np.pad(np.eye(3), ((0, 0), (0, 1))))
    assert result.cdp == pytest.approx(-math.log(2) / 4)
    assert result.ap_in == 0


@pytest.mark.parametrize("definition", ["paper", "softalignments"])
def test_a_matrix_of_zeros(definition):
    result = scores(np.zeros((3, 5)), definition=definition)
    assert (result.ap_out, result.ap_in) == (0, 0)
    assert result.cdp == pytest.approx(-math.log(2))
    empty = scores(np.zeros((0, 5)), definition=definition)
    assert empty.cdp == pytest.approx(-math.log(2))


def test_a_token_without_weights_makes_the_released_tool_forget():
    weights = np.array([[0.5, 0.5], [0, 0], [0.5, 0.5]])
    # In its words `in` is of the translation's tokens: the last one's entropy, over three.
    assert scores(weights, definition="softalignments").ap_in == pytest.approx(-math.log(2) / 3)
    assert scores(weights).ap_out == pytest.approx(-2 * math.log(2) / 2)


def test_figure_2():
    """The longest match of the paper's example, which has 21 of 104 characters."""
    source = (
        "see 0,2 mg/ml kuni 0,8 mg/ml ( 0,9 mg/ml Küprosel ) ning mõnedes riikides ei tohi "
        "sõiduki juhtimise ajal veres üldse alkoholi olla."
    )
    target = (
        "на 0,2 mg/ml до 0,8 mg/ml ( 0,9 mg/ml на Кипре ) , и в некоторых странах в крови не "
        "может быть алкоголя."
    )
    assert common(source, target) == "0,8 mg/ml ( 0,9 mg/ml"
    assert (len(common(source, target)), len(target)) == (21, 104)
    assert 100 * overlap(common(source, target), target) == pytest.approx(20.19, abs=0.005)


def test_figure_1():
    """Its percentages give 95.46 % (printed 95.44). Its 25.02 % is not Equation 4, but fits an
    earlier form of the penalty for a translation of 22 tokens."""
    absent = [-math.sqrt(-math.log(share) / 0.05) for share in (0.9884, 0.9885)]
    assert as_percentage("confidence", sum(absent)) == pytest.approx(95.46, abs=0.01)
    for words, percentage in ((9, 3.97), (22, 1.6)):  # the printed translation has nine
        by_equation_4 = sum(absent) - overlap_penalty(1, words)
        assert as_percentage("confidence", by_equation_4) == pytest.approx(percentage, abs=0.05)
    earlier = (0.7 + 0.01 * 22) * (3 - 5 * (1 - 1)) * math.tan(1)
    assert as_percentage("confidence", sum(absent) - earlier) == pytest.approx(25.02, abs=0.1)


def test_the_penalty_is_a_reward_below_two_fifths():
    assert overlap_penalty(0.35, 10) < 0 < overlap_penalty(0.45, 10)
    assert overlap_penalty(0.4, 10) == pytest.approx(0)
    assert scores(np.eye(4), S=0.29).overlap_penalty == 0
    assert scores(np.eye(4), S=0.35).confidence > 0
    # The released tool asks for more than four tokens, too.
    assert confidence(np.eye(4), 0.9, 4, "softalignments").overlap_penalty == 0
    assert confidence(np.eye(5), 0.9, 5, "softalignments").overlap_penalty > 0


def test_long_texts_are_compared_as_short_ones():
    """difflib leaves frequent characters of texts beyond 200 out, if it is let."""
    source = "ab" * 150 + " xyzzy"
    assert common(source, "b" + "ab" * 120) == "b" + "ab" * 120
    assert (common("", "a"), common("a", ""), overlap("", "")) == ("", "", 0)


def test_expected_rows_of_the_excerpt():
    """Weights and expected scores of 32 public translations; the overlap is given with them."""
    checked = 0
    for published, with_eos in published_sentences():
        for row in published["scores"]:
            sentence = with_eos.without_eos() if row["eos"] == "drop" else with_eos
            weights, tokens = sentence.weights_TS, sentence.target.size
            if row["definition"] == "softalignments":
                if published["file"] == "marian/rnn.soft.de":
                    weights = weights[:-1]
                tokens = len(weights)
            else:
                assert weights.shape == (int(row["Lt"]), int(row["Ls"]))
            result = confidence(weights, float(row["overlap"]), tokens, row["definition"])
            # The tool prints the overlap with four digits, and the expected penalty has more.
            exact = float(row["overlap"]) < 0.3
            for score in ("cdp", "ap_out", "ap_in", *(["confidence"] if exact else [])):
                assert getattr(result, score) == pytest.approx(float(row[score]), abs=6e-7), row
                checked += 1
    assert checked > 250


@pytest.mark.shared("attention_dumps")
def test_every_expected_row():
    """To the digits given; rows whose note names a fault of the tool are left out."""
    with EXPECTED.open(encoding="utf-8") as file:
        expected = defaultdict(list)
        for row in csv.DictReader(file, delimiter="\t"):
            expected[row["file"]].append(row)
    assert set(expected) == set(FORMATS)
    names = ("cdp", "ap_out", "ap_in", "overlap", "overlap_penalty", "confidence")
    checked = 0
    for name, rows in expected.items():
        sentences = {sentence.number + 1: sentence for sentence in read_dump(name)}
        for row in rows:
            if "fault" in row["note"]:
                continue
            sentence = sentences[int(row["sentence"])]
            sentence = sentence.without_eos() if row["eos"] == "drop" else sentence
            weights, tokens = sentence.weights_TS, sentence.target.size
            source, target = sentence.source.text, sentence.target.text
            S = overlap(common(source, target), target)
            if row["definition"] == "softalignments":
                weights = weights[:-1] if name == "marian/rnn.soft.de" else weights
                tokens = len(weights)
            else:
                assert weights.shape == (int(row["Lt"]), int(row["Ls"]))
            result = confidence(weights, S, tokens, row["definition"])
            for score in (s for s in names if row[s]):
                # The tool prints the overlap with four digits.
                rounded = score == "overlap" and row["definition"] == "softalignments"
                close = pytest.approx(float(row[score]), abs=5.1e-5 if rounded else 6e-7)
                assert getattr(result, score) == close, row
            digits = 0.005 if row["definition"] == "softalignments" else 6e-7
            for score in ("cdp", "ap_out", "ap_in", "confidence"):
                percentage = as_percentage(score, getattr(result, score))
                assert percentage == pytest.approx(float(row[f"{score}_pct"]), abs=1.01 * digits)
            checked += 1
    assert checked > 900


def test_scores_of_words_add_up_to_those_of_the_sentence():
    weights = np.random.default_rng(0).dirichlet(np.ones(5), size=7)
    words, result = word_scores(weights), scores(weights)
    assert words.cdp_S.sum() / 5 == pytest.approx(result.cdp)
    assert words.ap_in_S.sum() / 5 == pytest.approx(result.ap_in)
    assert words.ap_out_T.sum() / 5 == pytest.approx(result.ap_out)
    even = word_scores(np.vstack([np.full((1, 5), 0.2), np.eye(5)]))
    assert even.ap_out_T == pytest.approx([-math.log(5), 0, 0, 0, 0, 0], abs=1e-12)
