"""Gold-aligned test sets, and corpora read the other way round."""

import pytest

from support.configurations import configure
from support.listed_pairs import ListedPairs
from support.paths import DATA
from xnmt_bench.corpora.gold import GoldCorpus, read_pairs
from xnmt_bench.corpora.sentence import Links
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.corpora.view import ReversedCorpus
from xnmt_bench.errors import ConfigError, DataError
from xnmt_bench.pipeline.job import Job
from xnmt_bench.schema import check


def files(tmp_path, source="a b\nc\n", target="x\ny z\n", links="1-1 2p1\n1-2\n"):
    paths = [tmp_path / name for name in ("test.en", "test.de", "gold.talp")]
    for path, text in zip(paths, (source, target, links), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def corpus(paths, **options):
    return GoldCorpus(ToyCorpus(train=5, valid=2), paths[:2], paths[2], base=1, **options)


def test_the_test_split_is_the_gold_and_the_rest_is_the_other_corpus(tmp_path):
    gold = corpus(files(tmp_path))
    first, second = gold.sentences("test")
    assert (first.source, first.target) == ("a b", "x")
    assert first.gold.sure == {(0, 0)}
    assert first.gold.possible == {(0, 0), (1, 0)}
    assert second.gold.sure == {(0, 1)}
    assert first.document != second.document
    assert [s.source for s in gold.sentences("train")] == [
        s.source for s in ToyCorpus(train=5, valid=2).sentences("train")
    ]


def test_one_file_may_hold_both_sides(tmp_path):
    path = tmp_path / "both.txt"
    path.write_text("a b ||| x\nc ||| y z\n")
    assert read_pairs([path]) == [("a b", "x"), ("c", "y z")]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"source": "a b\n"},
            r"test\.en:1: the file ends here, but the other language has 2 lines",
        ),
        ({"target": "x\n\n"}, r"test\.de:2: an empty line"),
        ({"links": "1-1\n"}, r"gold\.talp:1: the file ends here"),
        ({"links": "1-1\n1-3\n"}, r"gold\.talp:2: '1-3' is outside the sentence pair"),
    ],
)
def test_files_that_do_not_belong_together(tmp_path, changes, problem):
    with pytest.raises(DataError, match=problem):
        list(corpus(files(tmp_path, **changes)).sentences("test"))


def test_training_pairs_that_repeat_a_side_of_a_gold_pair_are_left_out(tmp_path):
    paths = files(tmp_path)  # of the pairs (a b, x) and (c, y z)
    kept = [("a", "b"), ("A b", "X"), ("x", "c")]
    training = ListedPairs(train=[("a b", "x"), *kept, ("c", "other"), ("other", "y z")])
    gold = GoldCorpus(training, paths[:2], paths[2], base=1)
    assert [(s.source, s.target) for s in gold.sentences("train")] == kept
    assert list(gold.counts()) == [
        "3 training pairs repeat a gold pair's source or target and are left out"
    ]
    turned = list(ReversedCorpus(gold).sentences("train"))
    assert [(s.target, s.source) for s in turned] == kept
    assert gold.recipe()["repeated"] == "left out"


@pytest.mark.slow  # tokenises the whole training text
@pytest.mark.shared("alignments/rwth_deen", "deen")
def test_what_the_real_training_text_repeats():
    gold = Job(configure("corpus=rwth_deen", f"corpus.data={DATA}")).corpus
    assert list(gold.counts()) == [
        "11 training pairs repeat a gold pair's source or target and are left out"
    ]


@pytest.mark.parametrize("line", ["a b x", "a b |||  ", " ||| x", "||| x", "a ||| b ||| 0-0"])
def test_a_line_without_both_sides(tmp_path, line):
    path = tmp_path / "both.txt"
    path.write_text(f"a ||| b\n{line}\n")
    with pytest.raises(DataError, match=r"both\.txt:2"):
        read_pairs([path])


def test_every_byte_and_switch_is_in_the_recipe(tmp_path):
    paths = files(tmp_path)
    before = corpus(paths).recipe()
    assert corpus(paths).recipe() == before
    assert corpus(paths, reverse=True).recipe() != before
    paths[2].write_text("1-1\n1-2\n")
    assert corpus(paths).recipe() != before


def reversed_links(links: Links) -> set:
    return {(j, i) for i, j in links}


def test_the_other_way_round():
    toy = ToyCorpus(test=20)
    other = ReversedCorpus(toy)
    assert (other.source_language, other.target_language) == ("de", "en")
    for sentence, two in zip(toy.sentences("test"), other.sentences("test"), strict=True):
        assert (two.source, two.target) == (sentence.target, sentence.source)
        assert (two.document, two.position) == (sentence.document, sentence.position)
        assert two.gold.sure == reversed_links(sentence.gold.sure)
        assert two.gold.possible == reversed_links(sentence.gold.possible)
        assert two.gold.source_mentions == sentence.gold.target_mentions
        assert not two.gold.deciding_source
    assert other.recipe() != toy.recipe()
    assert (
        ReversedCorpus(other).sentences("test").__next__().source
        == next(toy.sentences("test")).source
    )


def test_a_gold_file_without_pairs_leaves_no_training_pair_out(tmp_path):
    path = tmp_path / "empty.txt"
    path.write_text("")
    gold = GoldCorpus(ToyCorpus(train=5, valid=2), [path], files(tmp_path)[2])
    assert len(list(gold.sentences("train"))) == 5


@pytest.mark.parametrize("text", ["[]", "[a,b,c]"])
def test_the_gold_text_is_one_file_or_two(text):
    with pytest.raises(ConfigError, match=r"corpus\.text"):
        check(configure("corpus=rwth_deen", "corpus.data=DIR", f"corpus.text={text}"))
