"""What else tells a broken translation, by hand and beside expected figures."""

import csv
import re
from collections import defaultdict
from functools import partial

import numpy as np
import pytest

from support.attention_dumps import FORMATS, published_sentences, read_dump, read_published
from support.example_rows import measured
from support.paths import DATA
from xnmt_bench.corpora.formats.annotated import read_annotated
from xnmt_bench.errors import DataError, XnmtError
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.measuring.units import Units
from xnmt_bench.metrics.confidence import Confidence, detectors
from xnmt_bench.metrics.confidence.detects import Detects
from xnmt_bench.metrics.confidence.language import code, language
from xnmt_bench.metrics.confidence.lists import Thresholds, listed
from xnmt_bench.metrics.confidence.predicts import Predicts
from xnmt_bench.metrics.confidence.sentences import Reading, numbers_of, sentence_quality
from xnmt_bench.metrics.confidence.sentences import rows as measure_rows
from xnmt_bench.report.panels import panels
from xnmt_bench.report.report import collect
from xnmt_bench.words import Tokens, Weighed
from xnmt_bench.words.pieces import as_shares
from xnmt_bench.words.weighed import joined

DUMPS, ANNOTATED = DATA / "attention_dumps", DATA / "hallucinations" / "deen_annotated.csv"
REFERENCES = {
    "nematus/newstest2017_1-15.txt": "nematus/newstest2017_1-15.ref",
    "fairseq/generate.txt": "fairseq/ref.en",
    "opennmt_py/attn_debug.log": "opennmt_py/ref.en",
}


def weighed(weights, prefix=None, log_p=None, eos=True):
    weights = np.asarray(weights, dtype=float)
    source = Tokens.of([f"s{n}" for n in range(weights.shape[1] - eos)], eos)
    target = Tokens.of([f"t{n}" for n in range(len(weights))], False)
    return Weighed(0, source, target, weights, prefix, log_p)


def shares_of(sentence):
    return as_shares(sentence.weights_TS.sum(0), empty=np.nan)


def test_expected_rows_of_the_excerpt():
    for row, sentence in published_sentences():
        score_of = {
            "attn_to_eos": detectors.attention_to_eos(sentence),
            "attn_ign_src": detectors.ignored_source(sentence),
            "wass_to_unif": detectors.wass_to_uniform(shares_of(sentence)),
            "seq_logprob": detectors.log_probability(sentence),
        }
        for key, value in score_of.items():
            expected = float(row["detectors"][key] or "nan")
            assert value == pytest.approx(expected, abs=6e-6, nan_ok=True), (row["file"], key)


@pytest.mark.shared("attention_dumps")
def test_every_expected_row():
    expected = defaultdict(dict)
    with (DUMPS / "expected_detectors.tsv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            expected[row["file"]][int(row["sentence"])] = row
    assert set(expected) == set(FORMATS)
    for name, rows in expected.items():
        references = (
            (DUMPS / REFERENCES[name]).read_text(encoding="utf-8").split("\n")
            if name in REFERENCES
            else None
        )
        for dumped in read_dump(name):
            row, source, target = rows[dumped.number + 1], dumped.source.text, dumped.target.text
            score_of = {
                "attn_to_eos": detectors.attention_to_eos(dumped),
                "attn_ign_src": detectors.ignored_source(dumped),
                "wass_to_unif": detectors.wass_to_uniform(shares_of(dumped)),
                "seq_logprob": detectors.log_probability(dumped),
                "top_4gram": detectors.top_four_gram(source, target),
                "length_ratio": detectors.length_ratio(source, target),
                "digits_mismatch": detectors.digits_differ(source, target),
            }
            if references is not None:
                reference = joined(references[dumped.number].split())
                quality = sentence_quality("none", target, reference)
                score_of |= {name: quality[name] for name in ("bleu", "chrf")}
            for key, value in score_of.items():
                if row[key] == "":
                    assert np.isnan(value), (name, row["sentence"], key)
                else:
                    assert value == pytest.approx(float(row[key]), abs=6e-6), (name, row, key)


def test_source_contributions_equal_those_of_stopes():
    for row in read_published("alti"):
        contributions, words = np.array(row["contributions"]), row["source_tokens"]
        contribution = detectors.source_contribution(
            weighed(contributions[:, :words], contributions[:, words:])
        )
        assert contribution[0] == pytest.approx(row["avg_sc"], abs=1e-6)
        assert contribution[1] == pytest.approx(row["top_sc_mean"], abs=1e-6)


def test_source_contribution_by_hand():
    sentence = weighed(
        [[1, -5, 1], [2, 0, 0], [0, 0, 0]], np.array([[0, 0, 0], [2, 0, 0], [0, 0, 0]])
    )
    assert detectors.source_contribution(sentence) == (0.75, 0.5)
    assert np.isnan(detectors.source_contribution(weighed([[1, 0]]))).all()


def test_attention_to_eos_and_ignored_words_by_hand():
    sentence = weighed([[0.5, 0.1, 0.4], [0.5, 0.05, 0.45]])
    assert detectors.attention_to_eos(sentence) == pytest.approx(0.425)
    assert detectors.ignored_source(sentence) == 0.5
    assert np.isnan(detectors.attention_to_eos(weighed([[1, 0]], eos=False)))
    nothing = weighed(np.zeros((2, 3)))
    assert np.isnan(detectors.attention_to_eos(nothing))
    assert np.isnan(detectors.wass_to_uniform(shares_of(nothing)))


def test_distance_to_other_sentences():
    """The earth mover's distance, moved word by word."""
    generator = np.random.default_rng(0)
    shares = [generator.dirichlet(np.ones(n)) for n in (3, 4, 4, 5, 6, 3, 5)]
    lengths = [10, 10, 10, 10, 11, 10, 20]

    def moved(p, q):
        size = max(len(p), len(q))
        p, q = (np.pad(x, (0, size - len(x))) for x in (p, q))
        carried, work = 0.0, 0.0
        for mass in p - q:
            carried += mass
            work += abs(carried)
        return work

    distance = detectors.WassToData(shares, lengths)
    for index in range(6):
        distances = sorted(moved(shares[index], shares[n]) for n in range(6) if n != index)
        assert distance.of(index) == pytest.approx(np.mean(distances[:4]))
    assert np.isnan(distance.of(6))  # no sentence is of its length
    assert np.isnan(detectors.WassToData([np.full(2, np.nan)] * 5, [1] * 5).of(0))


def test_a_large_corpus_is_compared_with_a_thousand():
    shares = [np.array([n / 3000, 1 - n / 3000]) for n in range(3000)]
    first, again = (detectors.WassToData(shares, [5] * 3000).of(7) for _ in range(2))
    assert first == again
    assert first < 0.01


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("a b c d e", "x y z u x y z u x y z u", 2),
        ("a b c d a b c d", "x y z u", -1),
        ("a", "x", 0),
    ],
)
def test_repeated_four_grams(source, target, expected):
    assert detectors.top_four_gram(source, target) == expected


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("das Haus", "the house", 0),
        ("das Haus", "the h\ufffduse", 1),
        ("über", "Ã¼ber", 1),  # UTF-8 read as Latin-1
        ("das Haus", "the дом", 3),  # letters of another script
        ("αβγ Strahlen", "αβγ rays and more words", 0),  # which the source has
        ("a", "a\u200bb", 0),
        ("a", "a\x07b", 1),
        ("a", "»Das macht Spaß« « un café\u00a0»", 0),
        ("a", "東京タワーへ行きます", 0),
        ("a", "n.º 5 µm xⁿ Ｅ", 0),
        ("a", "it\u00e2\u20ac\u2122s", 1),  # Windows-1252
    ],
)
def test_foreign_and_corrupt_symbols(source, target, expected):
    assert detectors.strange_symbols(source, target) == expected


def test_digits_and_length():
    assert not detectors.digits_differ("3 mal 12", "12 times 3")
    assert detectors.digits_differ("3 mal 12", "12 times 2")
    assert not detectors.digits_differ("3 times 12", "３乘以１２")
    assert not detectors.digits_differ("3 times 12", "๓ คูณ ๑๒")
    assert detectors.digits_differ("3 times 12", "٣ في ١٣")
    assert detectors.length_ratio("a b c d", "x") == 0.25
    assert np.isnan(detectors.length_ratio("", "x"))


def chinese_rows(translations, references=None):
    """What is measured of translations of a sentence of six words."""
    source = Tokens.of(["▁He", "▁bought", "▁two", "▁books", "▁about", "▁history"], False)
    sentences = [
        Weighed(n, source, Tokens.of(["▁" + text], False), np.full((1, 6), 1 / 6), None, None)
        for n, text in enumerate(translations)
    ]
    reading = Reading("paper", "keep", "pieces", True, ("en", "zho_Hans"))
    return measure_rows(sentences, reading, references, partial(sentence_quality, "zh"))


def test_right_chinese_translations_are_no_suspects():
    """12 or 13 characters of Chinese stand for 6 words of English; 4 are too few, 30 too many."""
    pytest.importorskip("py3langid")
    right = ["他买了两本关于历史的书。", "他买下了两本关于历史的书。", "他买了两本关于历史的书！"]
    columns = chinese_rows([*right, "他买书。", "他买了很多书。" * 5], [right[0]] * 5)
    assert columns["source_words"] == [6] * 5
    assert columns["target_words"] == [12, 13, 12, 4, 35]
    assert columns["usual_length_ratio"] == [2.0] * 5
    assert columns["wrong_language"] == [0.0] * 5
    assert columns["top_four_gram"] == [0, 0, 0, -1, 4]
    assert (columns["bleu"][0], columns["ter"][0]) == (pytest.approx(100), 0)
    lists = listed(numbers_of(columns), Thresholds())
    assert (lists["length"][1], lists["repetition"][1]) == ([3, 4], [4])
    # Without references the translations themselves say what is usual.
    assert chinese_rows(right)["usual_length_ratio"] == [2.0] * 3
    assert np.isnan(detectors.length_ratio("", "x", ("en", "zh")))


def test_four_words_of_thai_are_sixteen_characters():
    once = "การทำงานและการเดินทาง"
    assert detectors.top_four_gram("working and travelling", once, ("en", "th")) == 1
    repeated = detectors.top_four_gram("working and travelling", once * 4, ("en", "th"))
    assert repeated == 4


@pytest.mark.parametrize("language", ["zh", "yue", ""])
def test_a_term_of_chinese_may_be_repeated(language):
    target = "人工智能正在改变医学，人工智能帮助学校，人工智能改造工作。"
    source = "AI is changing medicine , AI helps schools , and AI transforms work ."
    languages = ("en" if language else "", language)
    assert detectors.top_four_gram(source, target, languages) == 0
    assert detectors.top_four_gram(source, target * 3, languages) >= 2


def test_language():
    pytest.importorskip("py3langid")
    languages = ("de", "en")
    assert language("Das ist ein sehr kleines Haus .", languages) == "de"
    assert language("a man is sleeping on the bench .", languages) == "en"
    assert language("un homme dort sur le banc .", languages) == "fr"
    assert language("drei kurze Wörter", languages) == ""
    assert (code("zh-CN"), code("DE"), code("de_AT"), code("klingon")) == ("zh", "de", "de", "")
    assert (code("zho_Hans"), code("deu_Latn"), code("cmn")) == ("zh", "de", "zh")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("他买了两本关于历史的书。", "zh"),
        ("他买", ""),
        ("He bought two books about history.", "en"),
    ],
)
def test_the_language_of_a_text_without_blanks(text, expected):
    pytest.importorskip("py3langid")
    assert language(text, ("en", "zh")) == expected


@pytest.mark.shared("hallucinations")
def test_annotated_hallucinations():
    """The published figure of chrF++, and what repeated 4-grams flag."""
    from sacrebleu import CHRF

    from xnmt_bench.analyses.ranks import auroc

    rows = read_annotated(ANNOTATED)
    counts = {name: sum(row.labels[name] for row in rows) for name in rows[0].labels}
    assert counts == {"correctness": 2048, "repetitions": 86, "named-entities": 41,
                      "omission": 204, "strong-unsupport": 164, "full-unsupport": 129}  # fmt: skip
    flagged = [r for r in rows if detectors.top_four_gram(r.source, r.translation) >= 2]
    assert (len(flagged), sum(row.labels["repetitions"] for row in flagged)) == (23, 22)
    joined_labels = ("repetitions", "strong-unsupport", "full-unsupport")
    positive = np.array([any(row.labels[n] for n in joined_labels) for row in rows])
    assert positive.sum() == 323
    chrf = CHRF(word_order=2)
    score = np.array([-chrf.sentence_score(r.translation, [r.reference]).score for r in rows])
    [area] = auroc(score, positive, np.ones((1, len(rows))))
    assert area == pytest.approx(0.754332, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("src,mt,bad\na,b,0\n", "x.csv:1: no column 'ref'; the header has src, mt, bad"),
        ("src,mt,ref,bad\na,b,c\n", "x.csv:2: 3 fields, but the header has 4"),
        ("src,mt,ref,bad\na,b,c,1\n ,b,c,0\n", "x.csv:3: src is empty"),
        ("src,mt,ref,bad\na,b,c,1\na,b,,0\n", "x.csv:3: ref is empty"),
        (
            "src,mt,ref,bad\na,b,c,1\na,b,c,2\n",
            "x.csv:3: bad: '2' is neither 0 nor 1 (the first row",
        ),
        ('src,mt,ref,bad\na,b,"c,1\n' + "x" * 200_000, "not CSV: field larger"),
    ],
)
def test_annotation_that_cannot_be_read(tmp_path, text, problem):
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=re.escape(problem)):
        read_annotated(path)


def test_annotation_beside_other_columns(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('id,src,mt,ref,bad,who\nq7,"a\nb",x,y,1.0,me\n\nq8,c,z,u,0,you\n')
    first, second = read_annotated(path)
    assert (first.source, first.labels, second.labels) == ("a\nb", {"bad": True}, {"bad": False})


SCORES = ("confidence", "confidence_pct", "chrf", "bleu", "source_words", "label_broken")


def write_scores(folder, *by_seed):
    """Rows of an explainer that draws, with scores and labels of four sentences."""
    for seed, scores in enumerate(by_seed):
        columns = {
            "confidence": np.array(scores),
            "confidence_pct": 100 * np.array(scores),
            "chrf": np.array([0.1, 0.2, 0.8, 0.9]),
            "bleu": np.array([0.1, 0.2, 0.8, 0.9]),
            "source_words": np.array([4.0, 7.0, 5.0, 6.0]),
            "label_broken": np.array([1.0, 1.0, 0.0, 0.0]),
        }
        units = Units("t", np.arange(4), columns)
        row = {"explainer": "random", "seed": seed, "definition": "code"}
        measured(Confidence, folder, dict.fromkeys(Confidence().identity, "") | row, units)
    return panels(Confidence(), collect(Confidence(), folder, Draws(9, 0)))


def test_seeds_are_averaged_behind_what_they_detect(tmp_path):
    shown = write_scores(tmp_path, [0.1, 0.2, 0.8, 0.9], [0.9, 0.8, 0.2, 0.1])
    rows = Detects(samples=20).analyse(shown).rows
    [row] = [r for r in rows if (r["explainer"], r["detector"]) == ("random", "confidence")]
    # One seed finds both broken sentences first, the other last.
    assert row["auroc"] == pytest.approx(0.5)
    # Quality is the same under each seed.
    [row] = [r for r in rows if r["detector"] == "chrf"]
    assert row["auroc"] == 1


def test_seeds_of_other_sentences_are_not_averaged(tmp_path):
    """A score that one seed lacks, and a row of fewer sentences."""
    shown = write_scores(tmp_path, [0.1, 0.2, 0.8, 0.9], [np.nan, 0.2, 0.8, 0.1])
    [row] = [r for r in Detects(samples=20).analyse(shown).rows if r["detector"] == "confidence"]
    assert (row["sentences"], row["auroc"]) == (3, pytest.approx((1 + 0.5) / 2))
    fewer = Units("t", np.arange(2), {name: np.array([0.5, 0.6]) for name in SCORES})
    identity = dict.fromkeys(Confidence().identity, "") | {"explainer": "random", "seed": 2}
    measured(Confidence, tmp_path, identity | {"definition": "code"}, fewer)
    again = panels(Confidence(), collect(Confidence(), tmp_path, Draws(9, 0)))
    [row] = [r for r in Detects(samples=20).analyse(again).rows if r["detector"] == "confidence"]
    assert row["sentences"] == 1  # those that all have, with a score of each seed


def test_a_score_that_no_metric_writes_is_named(tmp_path):
    shown = write_scores(tmp_path, [0.1, 0.2, 0.8, 0.9])
    with pytest.raises(XnmtError, match="no score 'confidense'; did you mean confidence"):
        Predicts(scores=["confidense"], samples=20).analyse(shown)
    # One that rows of another definition have is only left out.
    rows = Predicts(scores=["confidence", "cdp"], samples=20).analyse(shown).rows
    scores = {row["score"] for row in rows}
    assert "confidence" in scores and "cdp" not in scores
