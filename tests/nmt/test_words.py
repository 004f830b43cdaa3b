"""Which word of a text each piece belongs to, for tokenizers of every kind and odd characters."""

import io
import re
import unicodedata
from itertools import product

import pytest
import sentencepiece as spm
from subword_nmt.learn_bpe import learn_bpe
from transformers import ByT5Tokenizer

from support.huggingface_models import make_tokenizer
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.corpora.vocabulary.subwords import (
    EOS,
    NO_WORD,
    UNTIED,
    SentencePiece,
    train_subwords,
)
from xnmt_bench.nmt.fairseq.subwords import DictionarySubwords
from xnmt_bench.nmt.foreign import Renumbering
from xnmt_bench.nmt.huggingface_text import HubSubwords

ASCII_BLANKS = " \t\n\r\v\f"
# Each stands alone, in, before and behind a word, and never behind a letter that it could change.
TEMPLATE = "{0} theq{0}dog {0}sees {0} {0} himq{0} and {0}"
SENTENCES = [s.source for s in ToyCorpus(train=1500).sentences("train")] + [
    "and theq dog sees himq"
]


def odd_characters():
    """Every blank, control and format character and enclosing mark; some of the other marks."""
    each = {"Zs": 1, "Zl": 1, "Zp": 1, "Cc": 1, "Cf": 4, "Me": 1, "Mn": 40, "Mc": 20}
    count = dict.fromkeys(each, 0)
    for letter in map(chr, range(0x110000)):
        kind = unicodedata.category(letter)
        if kind in each and letter not in ASCII_BLANKS:
            count[kind] += 1
            if count[kind] % each[kind] == 0:
                yield letter
    # Joiners, a byte order mark, a soft hyphen, marks of direction; what NFKC expands.
    yield from "\u200c\u200d\ufeff\u00ad\u200e\u200f\u202b\u2060"
    yield from "\u00b4\u00a8\u2026\u2047\ufffd\u2581"


ODD = list(dict.fromkeys(odd_characters()))


def sentencepiece(kind, normalization):
    def build(folder):
        train_subwords(iter(SENTENCES), folder / "model", kind, 200, normalization)
        return SentencePiece(folder / "model")

    return build


def sentencepiece_of_another(**options):
    def build(folder):
        spm.SentencePieceTrainer.train(
            sentence_iterator=iter(SENTENCES), model_prefix=str(folder / "m"), vocab_size=200,
            hard_vocab_limit=False, character_coverage=1.0, minloglevel=2, num_threads=1,
            pad_id=0, unk_id=1, bos_id=2, eos_id=3, **options,
        )  # fmt: skip
        return SentencePiece(folder / "m.model")

    return build


def hub(tokenizer):
    special = (tokenizer.pad_token_id, tokenizer.unk_token_id, tokenizer.pad_token_id)
    ids = Renumbering(len(tokenizer) + 200, *special, tokenizer.eos_token_id)
    return HubSubwords(tokenizer, "text", ids, "a test's")


def family(name):
    return lambda folder: hub(make_tokenizer(name, folder, (SENTENCES, SENTENCES)))


def subword_nmt(folder):
    codes = folder / "codes"
    with codes.open("w") as file:
        learn_bpe(io.StringIO("\n".join(SENTENCES)), file, 60)
    (folder / "dict.txt").write_text("the 1\ndog 1\nse@@ 1\nes 1\n")
    return DictionarySubwords(folder / "dict.txt", str(codes))


KINDS = {
    **{f"{kind} {rule}": sentencepiece(kind, rule)
       for kind, rule in product(("bpe", "unigram"), ("nmt_nfkc", "identity"))},
    "without dummy prefix": sentencepiece_of_another(add_dummy_prefix=False),
    "all blanks kept": sentencepiece_of_another(remove_extra_whitespaces=False),
    "blanks behind words": sentencepiece_of_another(treat_whitespace_as_suffix=True),
    **{name: family(name) for name in ("marian", "m2m100", "nllb", "mbart", "t5")},
    "byt5": lambda _: hub(ByT5Tokenizer()),
}  # fmt: skip


@pytest.fixture(scope="module", params=KINDS)
def subwords(request, tmp_path_factory):
    return KINDS[request.param](tmp_path_factory.mktemp("subwords"))


def letters(text):
    return "".join(re.findall("[a-z]", text))


def letters_of_words(subwords, text):
    """The ASCII letters of each word's pieces, which no odd character is or becomes."""
    ids, words = subwords.tie(text)
    assert ids == subwords.encode(text)
    pieces = zip(subwords.pieces(ids), words, strict=True)
    held = [""] * len(split_words(text))
    for piece, word in pieces:
        assert word != UNTIED, (text, piece)
        held[word] += letters(piece.replace("<unk>", ""))
    return held


def test_a_piece_is_of_the_word_that_holds_its_letters(subwords):
    for character in ODD:
        text = TEMPLATE.format(character)
        words = re.split(f"[{ASCII_BLANKS}]", text)
        assert letters_of_words(subwords, text) == list(map(letters, words)), repr(character)


@pytest.mark.parametrize("between", ["  ", "\t", " \r\n", "\v\f"])
def test_several_blanks_are_one(subwords, between):
    text = f"the{between}dog sees{between}him"
    assert letters_of_words(subwords, text) == ["the", "dog", "sees", "him"]


def test_codes_of_subword_nmt(tmp_path):
    """Whether a word is unknown or not, its pieces are those that its own letters are cut into."""
    subwords = subword_nmt(tmp_path)
    for character in ODD:
        text = TEMPLATE.format(character)
        _, words = subwords.tie(text)
        alone = [len(subwords.encode(word)) for word in re.split(f"[{ASCII_BLANKS}]", text)]
        assert words == [number for number, count in enumerate(alone) for _ in range(count)]


def test_a_text_of_subwords_numbers_a_word_by_its_first(tmp_path):
    (tmp_path / "dict.txt").write_text("the 1\nse@@ 1\nes 1\n")
    subwords = DictionarySubwords(tmp_path / "dict.txt", None)
    assert subwords.tie("the se@@ es the").words == [0, 1, 1, 3]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # U+00B4 becomes a blank and a mark, U+FFFD and U+200B a blank, which vanishes.
        ("\ufffd the\u00b4s dog", {1: "▁the▁́s", 2: "▁dog"}),
        ("the \u200b dog", {0: "▁the", 2: "▁dog"}),
        ("the\u200cdog sees", {0: "▁the▁dog", 1: "▁sees"}),
        ("the\u2026 \ufb01 dog", {0: "▁the...", 1: "▁fi", 2: "▁dog"}),
    ],
)
def test_what_compatibility_forms_become_is_of_their_word(tmp_path, text, expected):
    more_sentences = ["\u0301 ... fi"] * 20
    train_subwords(iter(SENTENCES + more_sentences), tmp_path / "model", "bpe", 200)
    subwords = SentencePiece(tmp_path / "model")
    ids, words = subwords.tie(text)
    held = {number: "" for number in words}
    for piece, word in zip(subwords.pieces(ids), words, strict=True):
        held[word] += piece
    assert held == expected


def test_identity_keeps_what_the_default_changes(tmp_path):
    more_sentences = ["x\u00b4y a\u200cb"] * 20
    for name, expected in (("nmt_nfkc", "x \u0301y a b"), ("identity", more_sentences[0])):
        train_subwords(iter(SENTENCES + more_sentences), tmp_path / name, "bpe", 200, name)
        subwords = SentencePiece(tmp_path / name)
        assert subwords.decode(subwords.encode(more_sentences[0])) == expected


def test_a_piece_of_two_words_is_of_none(tmp_path):
    build = sentencepiece_of_another(split_by_whitespace=False, model_type="bpe")
    subwords = build(tmp_path)
    crossing = 0
    for text in SENTENCES[:200]:
        ids, words = subwords.tie(text)
        for piece, word in zip(subwords.pieces(ids), words, strict=True):
            # Where a piece crosses a blank the words around it are not known.
            crosses = "▁" in piece[1:] and piece.strip("▁")
            assert (word == UNTIED) >= bool(crosses), (text, piece)
            crossing += bool(crosses)
        tied = {w for w in words if w != UNTIED}
        for number in tied:
            word = "".join(
                p for p, w in zip(subwords.pieces(ids), words, strict=True) if w == number
            )
            assert word.strip("▁") == split_words(text)[number]
    assert crossing


def test_markers_are_no_words(tmp_path):
    train_subwords(iter(SENTENCES), tmp_path / "model", "bpe", 200)
    plain, marked = SentencePiece(tmp_path / "model"), SentencePiece(tmp_path / "model", 2)
    ids, words = marked.tie("<ENT1> the dog </ENT1> \u200b sees <ENT2> him </ENT2>")
    assert [i for i in ids if i not in marked.markers] == plain.encode("the dog sees him")
    assert [w for i, w in zip(ids, words, strict=True) if i in marked.markers] == [NO_WORD] * 4
    assert letters_of_words(plain, "the dog \u200b sees him") == ["the", "dog", "", "sees", "him"]
    assert {w for w in words if w >= 0} == {0, 1, 3, 4}


def test_words_of_bytes_without_a_text_are_told_by_their_blanks():
    subwords = hub(ByT5Tokenizer())
    text = "Zwei M\u00e4nner gehen."
    words = [n for n, word in enumerate(text.split()) for _ in (" " * (n > 0) + word).encode()]
    ids = subwords.encode(text)
    assert subwords.words([*ids, EOS]) == [*words, NO_WORD]
    assert subwords.tie(text).words == words
