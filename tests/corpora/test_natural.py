"""A test set of chosen decisions: its sentences, and files that are refused."""

import pytest

from support.configurations import configure
from xnmt_bench.corpora.planted.natural import COLUMNS, NaturalTwins
from xnmt_bench.corpora.sentence import Planted, languages
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.corpora.view import ReversedCorpus
from xnmt_bench.errors import DataError
from xnmt_bench.pipeline.job import Job

GOOD = "der Hund schläft,the dog,source,1,target,0,second,f1,s2"


@pytest.fixture
def toy():
    return ToyCorpus(0, 5, 2, 3)


def corpus(toy, folder, *lines):
    path = folder / "twins.csv"
    path.write_text("\n".join([",".join(COLUMNS), *lines]) + "\n", encoding="utf-8")
    return NaturalTwins(toy, str(path))


def test_each_decision_is_a_sentence_that_ends_with_it(toy, tmp_path):
    other = "ein Haus,a house,source,0,source,1,first,f1,s2"
    decisions = corpus(toy, tmp_path, GOOD, other)
    first, second = decisions.sentences("test")
    assert (first.source, first.target) == ("der Hund schläft", "the dog")
    # Of the second system's cause, b, which is in the prefix.
    assert first.gold.planted == (Planted("second", 1, 0, 1, link_in_prefix=True),)
    assert second.gold.planted == (Planted("first", 1, 0, 1),)
    assert first.document != second.document  # neither is the other's context
    assert decisions.twins == ("f1", "s2") and decisions.plants


def test_other_splits_are_the_corpus_own(toy, tmp_path):
    decisions = corpus(toy, tmp_path, GOOD)
    pairs = [(s.source, s.target) for s in decisions.sentences("train")]
    assert pairs == [(s.source, s.target) for s in toy.sentences("train")]
    # No word is at such a place, and proxies may learn.
    [planted] = next(decisions.sentences("train")).gold.planted
    assert max(planted.word, planted.link, planted.cue) < -1


def test_without_a_file_it_is_the_corpus_itself(toy, tmp_path):
    plain = NaturalTwins(toy)
    assert plain.recipe() == toy.recipe() != corpus(toy, tmp_path, GOOD).recipe()
    assert list(plain.sentences("test")) == list(toy.sentences("test"))
    assert plain.twins == () and plain.plants == toy.plants


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (GOOD.replace("source,1", "source,3"), "a is '3', but the source has 3 words, counted"),
        (GOOD.replace("target,0", "target,1"), "b is '1', but the target has 1 words before the"),
        (GOOD.replace("source,1", "source,-1"), "a is '-1'"),
        (GOOD.replace("target,0", "prefix,0"), "b_side is 'prefix'; expected source or target"),
        (GOOD.replace("second", "third"), "link_of is 'third'; expected first or second"),
        (GOOD.replace("target,0", "source,1"), "a and b are the same word"),
        (GOOD.replace("s2", "s3"), "another pair of systems than in the rows before"),
    ],
)
def test_a_bad_line_is_refused_by_file_and_line(toy, tmp_path, line, problem):
    with pytest.raises(DataError, match=problem) as refused:
        list(corpus(toy, tmp_path, GOOD, line).sentences("test"))
    assert "twins.csv:3" in str(refused.value)


def test_an_empty_file_and_a_missing_column_are_refused(toy, tmp_path):
    with pytest.raises(DataError, match="no decision is in the file"):
        _ = corpus(toy, tmp_path).twins
    (tmp_path / "few.csv").write_text("source,target\nx,y\n")
    with pytest.raises(DataError, match="no column 'a_side'"):
        _ = NaturalTwins(toy, str(tmp_path / "few.csv")).twins


def test_over_the_reversed_corpus_the_decisions_stay_as_they_are(toy, tmp_path):
    decisions = corpus(toy, tmp_path, GOOD)
    over = decisions.over(ReversedCorpus(toy))
    assert list(over.sentences("test")) == list(decisions.sentences("test"))
    assert (over.name, over.twins) == (decisions.name, decisions.twins)
    assert (over.target_language, over.source_language) == languages(toy)
    turned = [(s.target, s.source) for s in over.sentences("train")]
    assert turned == [(s.source, s.target) for s in toy.sentences("train")]
    assert all(s.gold.planted for s in over.sentences("train"))


def test_a_job_reverses_the_corpus_and_not_the_decisions(toy, tmp_path):
    write_split(toy, tmp_path)
    twins = corpus(toy, tmp_path, GOOD)
    options = f"corpus.data={tmp_path}", f"corpus.twins={tmp_path / 'twins.csv'}"
    straight, turned = (
        Job(configure("experiment=natural_twins", *options, f"corpus.reversed={reverse}")).corpus
        for reverse in ("false", "true")
    )
    assert list(turned.sentences("test")) == list(straight.sentences("test"))
    assert list(turned.sentences("test")) == list(twins.sentences("test"))
    assert turned.twins == ("f1", "s2") and turned.source_language == "en"
    pairs = [(s.target, s.source) for s in turned.sentences("train")]
    assert pairs == [(s.source, s.target) for s in straight.sentences("train")]


def write_split(toy, folder):
    """The training split as files."""
    for side in ("source", "target"):
        lines = [f"{getattr(s, side)}\n" for s in toy.sentences("train")]
        path = folder / f"train.{'de' if side == 'source' else 'en'}"
        path.write_text("".join(lines), encoding="utf-8")
