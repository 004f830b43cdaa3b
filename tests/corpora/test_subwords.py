"""SentencePiece subwords."""

import pytest
import sentencepiece as spm

from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.corpora.vocabulary.subwords import BOS, EOS, PAD, UNK, SentencePiece, train_subwords
from xnmt_bench.errors import DataError

SIZE = 300
TEXTS = [s.target for s in ToyCorpus(train=1500).sentences("train")]


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def trained(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("subwords") / "target.model"
    train_subwords(iter(TEXTS), path, request.param, SIZE)
    return request.param, SentencePiece(path)


def test_texts_come_back(trained):
    _, subwords = trained
    assert len(subwords) <= SIZE
    for text in TEXTS[:300]:
        ids = subwords.encode(text)
        assert not {PAD, UNK, BOS, EOS} & set(ids)
        assert subwords.decode([BOS, *ids, EOS, PAD]) == text


def test_pieces_belong_to_the_words_between_blanks(trained):
    _, subwords = trained
    split_somewhere = False
    for text in TEXTS[:300]:
        ids = [*subwords.encode(text), EOS]
        words = subwords.words(ids)
        assert words[-1] == -1
        assert words[:-1] == sorted(words[:-1])
        grouped = [
            subwords.decode([i for i, w in zip(ids, words, strict=True) if w == number])
            for number in range(max(words) + 1)
        ]
        assert grouped == text.split()
        split_somewhere |= len(ids) - 1 > len(grouped)
    assert split_somewhere  # or nothing was shown


def test_words_are_counted_from_0_also_in_the_middle_of_a_word(trained):
    _, subwords = trained
    ids = next(ids for ids in map(subwords.encode, TEXTS) if subwords.words(ids)[1] == 0)
    assert subwords.words(ids[1:]) == subwords.words(ids)[1:]


def test_unknown_characters_are_words_too(trained):
    _, subwords = trained
    ids = subwords.encode("der ☃ ist 雪 .")
    assert UNK in ids
    assert max(subwords.words(ids)) == 4


def test_training_again_gives_the_same_bytes(trained, tmp_path):
    kind, subwords = trained
    train_subwords(iter(TEXTS), tmp_path / "again.model", kind, SIZE)
    assert (tmp_path / "again.model").read_bytes() == subwords.path.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["again.model"]


@pytest.mark.parametrize("content", [b"", b"this is no model\n", bytes(range(256))])
def test_a_file_that_is_no_model(tmp_path, content):
    path = tmp_path / "text.model"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"text\.model"):
        SentencePiece(path)


def test_a_missing_model(tmp_path):
    with pytest.raises(DataError, match=r"gone\.model: no such"):
        SentencePiece(tmp_path / "gone.model")


def test_a_model_with_other_special_ids(tmp_path):
    spm.SentencePieceTrainer.train(  # SentencePiece's own ids: unk, bos, eos and no pad
        sentence_iterator=iter(TEXTS),
        model_prefix=str(tmp_path / "other"),
        vocab_size=SIZE,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    with pytest.raises(DataError, match=r"other\.model.*\(-1, 0, 1, 2\)"):
        SentencePiece(tmp_path / "other.model")
