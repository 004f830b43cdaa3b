"""MMAX2 documents and ParCorFull."""

import logging

import pytest

from support.mmax_documents import MENTIONS, SENTENCE_SPANS, WORDS, write_document
from support.paths import DATA
from xnmt_bench.corpora.formats.mmax import document_names, read_document
from xnmt_bench.corpora.formats.parcorfull import ParCorFull, carried
from xnmt_bench.corpora.formats.tsv import TsvCorpus
from xnmt_bench.corpora.sentence import Mention
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.errors import DataError

REAL = DATA / "parcorfull"


def test_spans_chains_and_sentences(tmp_path):
    write_document(tmp_path, "d", WORDS, SENTENCE_SPANS, MENTIONS)
    assert document_names(tmp_path) == ["d"]
    document = read_document(tmp_path, "d")
    assert document.sentences == [["The", "dog", "&", "cat", "ran", "."], ["It", "hid", "."]]
    # A discontinuous span, one cut at the end of a sentence, and none without a chain.
    assert document.mentions == [
        [Mention("set_1", (0, 1, 3)), Mention("set_2", (4, 5))],
        [Mention("set_1", (0,))],
    ]
    assert document.problem is None


def test_a_layer_that_is_no_xml_leaves_the_text(tmp_path):
    write_document(tmp_path, "d", WORDS, SENTENCE_SPANS, MENTIONS)
    path = tmp_path / "Markables" / "d_coref_level.xml"
    path.write_text(path.read_text().replace("<markable id", "<<<<<<< HEAD\n<markable id", 1))
    document = read_document(tmp_path, "d")
    assert len(document.sentences) == 2
    assert document.mentions == [[], []]
    assert str(document.problem).startswith(f"{path}:3: not well-formed XML")


@pytest.mark.parametrize(
    ("file", "old", "new", "problem"),
    [
        ("Basedata/d_words.xml", "</words>", "", r"d_words\.xml:\d+: not well-formed"),
        (
            "Markables/d_sentence_level.xml",
            "word_9",
            "word_99",
            r"the document has no words 'word_7..word_99'",
        ),
        ("Markables/d_sentence_level.xml", "/>", "", r"d_sentence_level\.xml:\d+: not well-formed"),
    ],
)
def test_unreadable_text_is_an_error(tmp_path, file, old, new, problem):
    write_document(tmp_path, "d", WORDS, SENTENCE_SPANS, MENTIONS)
    path = tmp_path / file
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(DataError, match=problem):
        read_document(tmp_path, "d")


def test_a_second_word_of_one_id_is_an_error(tmp_path):
    write_document(tmp_path, "d", WORDS, SENTENCE_SPANS, MENTIONS)
    path = tmp_path / "Basedata" / "d_words.xml"
    path.write_text(path.read_text().replace("word_2", "word_1"))
    with pytest.raises(DataError, match=r"d_words\.xml: two words have one id"):
        read_document(tmp_path, "d")


def test_a_mention_of_a_sentence_with_a_gap_counts_the_sentences_words(tmp_path):
    write_document(
        tmp_path, "d", ["a", "b", "c"], ["word_1,word_3", "word_2"], [("word_3", "set_1")]
    )
    document = read_document(tmp_path, "d")
    assert document.sentences == [["a", "c"], ["b"]]
    assert document.mentions == [[Mention("set_1", (1,))], []]


def test_parts_in_another_order_are_another_corpus(tmp_path):
    for part in ("news", "talks"):
        for language in ("EN", "DE"):
            write_document(tmp_path / part / language, "d", [part, "."], ["word_1..word_2"], [])
    orders = ["news", "talks"], ["talks", "news"]
    corpora = [ParCorFull(ToyCorpus(train=5), tmp_path, parts) for parts in orders]
    texts = [[s.source for s in c.sentences("test")] for c in corpora]
    assert texts[0] == texts[1][::-1]
    assert corpora[0].recipe() != corpora[1].recipe()


def test_missing_files_are_named(tmp_path):
    with pytest.raises(DataError, match="no Basedata"):
        document_names(tmp_path)
    write_document(tmp_path, "d", WORDS, SENTENCE_SPANS, MENTIONS)
    (tmp_path / "Markables" / "d_sentence_level.xml").unlink()
    with pytest.raises(DataError, match=r"d_sentence_level\.xml: no such file"):
        read_document(tmp_path, "d")


def corpus(root, **options):
    return ParCorFull(ToyCorpus(train=5), root, ["news"], **options)


def test_a_parallel_document_becomes_sentences_with_mentions_on_the_systems_words(tmp_path):
    english = ["The", "dog", "'", "s", "bone", ".", "It", "hid", "."]
    mentions = [("word_1..word_2", "set_1"), ("word_7", "set_1")]
    write_document(tmp_path / "news" / "EN", "d", english, SENTENCE_SPANS, mentions)
    german = ["Der", "Hund", "lief", ".", "Er", "schlief", "."]
    write_document(tmp_path / "news" / "DE", "d", german, ["word_1..word_4", "word_5..word_7"],
          [("word_5", "set_9")])  # fmt: skip
    first, second = corpus(tmp_path).sentences("test")
    assert first.source.split()[:2] == ["The", "dog"]
    assert [(m.words, m.chain) for m in first.gold.source_mentions] == [((0, 1), "news/d/set_1")]
    assert [m.words for m in second.gold.source_mentions] == [(0,)]
    assert second.gold.target_mentions[0].chain == "news/d/set_9"
    assert (first.document, second.position) == ("news/d", 1)
    assert [s.source for s in corpus(tmp_path).sentences("train")] == [
        s.source for s in ToyCorpus(train=5).sentences("train")
    ]
    counts = corpus(tmp_path).statistics["en"]
    assert (counts["sentences"], counts["tokens"], counts["mentions"], counts["chains"]) == (
        2,
        9,
        2,
        1,
    )
    assert (counts["mention_tokens"], counts["matched"]) == (3, 3)


def test_the_test_set_is_in_small_letters_where_training_is(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_text("a\td\t0\tThe Dog\tDer Hund\n")
    for side, words in (("EN", ["The", "Dog", "."]), ("DE", ["Der", "Hund", "."])):
        write_document(
            tmp_path / "news" / side, "d", words, ["word_1..word_3"], [("word_2", "set_1")]
        )
    cased, small = (
        ParCorFull(
            TsvCorpus(
                path, ["en", "de"], "en", "de", [], [], tokenizer="moses", lowercase=lowercase
            ),
            tmp_path,
            ["news"],
        )
        for lowercase in (False, True)
    )
    [cased_sentence], [small_sentence] = (list(c.sentences("test")) for c in (cased, small))
    assert (cased_sentence.source, small_sentence.source) == ("The Dog .", "the dog .")
    assert small_sentence.target == "der hund ."
    assert small_sentence.gold == cased_sentence.gold
    assert (small.recipe()["lowercase"], cased.recipe()["lowercase"]) == (True, False)


def test_documents_are_paired_by_their_names(tmp_path):
    for language, names in (("EN", "ab"), ("DE", "bc")):
        for name in names:
            write_document(tmp_path / "news" / language, name, WORDS, SENTENCE_SPANS, MENTIONS)
    with pytest.raises(DataError, match="DE: document a is missing; the other language has it"):
        list(corpus(tmp_path).sentences("test"))


def test_documents_that_differ_in_sentences_are_aligned_by_length(tmp_path):
    pytest.importorskip("nltk", reason="the extra `align` is not installed")
    words = [*["w" * 9] * 12, "x", "yy"]
    two = ["word_1..word_12", "word_13..word_14"]
    three = ["word_1..word_6", "word_7..word_12", "word_13..word_14"]
    write_document(tmp_path / "news" / "EN", "d", words, two, [("word_14", "set_1")])
    write_document(tmp_path / "news" / "DE", "d", words, three, [("word_7", "set_1")])
    first, second = corpus(tmp_path, tokenizer=None).sentences("test")
    assert first.target == " ".join(words[:12])
    assert first.gold.target_mentions[0].words == (6,)
    assert second.source == "x yy"


def test_an_annotation_of_the_needed_context(tmp_path):
    write_document(tmp_path, "d", WORDS, SENTENCE_SPANS, MENTIONS)
    path = tmp_path / "Markables" / "d_coref_level.xml"
    text = path.read_text()
    path.write_text(
        text.replace('id="m0"', 'id="m0" need="yes"').replace('id="m1"', 'id="m1" need="no"')
    )
    first, second = read_document(tmp_path, "d", "need").mentions
    assert [m.needed for m in (*first, *second)] == [False, None, True]
    assert read_document(tmp_path, "d").mentions[1][0].needed is None
    path.write_text(text.replace('id="m1"', 'id="m1" need="perhaps"'))
    assert "m1: need is 'perhaps'" in str(read_document(tmp_path, "d", "need").problem)


def test_a_mention_without_a_counterpart_is_left_out():
    mentions = [Mention("a", (0, 1)), Mention("b", (2,))]
    assert carried(mentions, {0: 1, 1: 0}) == (mentions[0],)


def test_every_byte_is_in_the_recipe(tmp_path):
    for language in ("EN", "DE"):
        write_document(tmp_path / "news" / language, "d", WORDS, SENTENCE_SPANS, MENTIONS)
    before = corpus(tmp_path).recipe()
    assert corpus(tmp_path).recipe() == before
    path = tmp_path / "news" / "DE" / "Markables" / "d_coref_level.xml"
    path.write_text(path.read_text().replace("set_2", "set_3"))
    assert corpus(tmp_path).recipe() != before
    with pytest.raises(DataError, match="no XML files"):
        corpus(tmp_path / "gone").recipe()


@pytest.mark.shared("parcorfull")
@pytest.mark.long
def test_the_real_corpus(caplog):
    real = ParCorFull(ToyCorpus(), REAL, ["DiscoMT", "news"])
    with caplog.at_level(logging.WARNING):
        sentences = list(real.sentences("test"))
    assert len(sentences) == 2298
    [warning] = [r.getMessage() for r in caplog.records if "not well-formed" in r.getMessage()]
    assert "news/DE/Markables/07_coref_level.xml:4:" in warning
    for sentence in sentences:
        for text, mentions in (
            (sentence.source, sentence.gold.source_mentions),
            (sentence.target, sentence.gold.target_mentions),
        ):
            assert all(0 <= w < len(text.split()) for m in mentions for w in m.words)
    counts = real.statistics["en"]
    # The paper's Table 1 has 4,206 mentions in 2,280 sentences.
    assert (counts["sentences"], counts["mentions"]) == (2298, 4141)
    assert counts["matched"] / counts["mention_tokens"] > 0.95


@pytest.mark.shared("parcorfull")
def test_the_real_ted_talks_are_aligned():
    pytest.importorskip("nltk", reason="the extra `align` is not installed")
    sentences = list(ParCorFull(ToyCorpus(), REAL, ["TED"]).sentences("test"))
    assert 1400 < len(sentences) <= 1800
    assert sum(len(s.gold.source_mentions) for s in sentences) > 2500
