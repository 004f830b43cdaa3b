"""Corpora that wrap another one keep what they do not change."""

import pytest

from xnmt_bench.corpora.formats.annotated import AnnotatedCorpus
from xnmt_bench.corpora.gold import GoldCorpus
from xnmt_bench.corpora.passage import Context, Passage
from xnmt_bench.corpora.passages import PassageCorpus
from xnmt_bench.corpora.suites.consistency.corpus import SuiteCorpus
from xnmt_bench.corpora.suites.consistency.suite import Suite
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.corpora.view import ReversedCorpus
from xnmt_bench.nmt.context.divided import DividedCorpus
from xnmt_bench.pipeline.job import TargetsCorpus


class Marked(ToyCorpus):
    """A corpus whose every answer can be recognised."""

    tokenizer = "moses"

    def raw(self, text, language):
        return f"raw {language} {text}"

    def words(self, text, language):
        return f"words {language} {text}"

    def counts(self):
        return iter(["counted"])


@pytest.fixture
def corpus():
    return Marked(train=20, valid=4, test=4)


@pytest.fixture
def views(corpus, tmp_path):
    path = tmp_path / "annotated.csv"
    path.write_text("src,mt,ref,critical\na,b,c,0\n")
    return {
        "reversed": ReversedCorpus(corpus),
        "divided": DividedCorpus(corpus, "middle"),
        "targets": TargetsCorpus(corpus, ["x"] * 4),
        "passages": PassageCorpus(corpus, [], Context()),
        "gold": GoldCorpus(corpus, [], tmp_path / "links"),
        "suite": SuiteCorpus(Suite.of("suite", ["a"], []), corpus),
        "annotated.csv": AnnotatedCorpus(path, corpus),
    }


# Their sentences are not the wrapped corpus's.
OTHERS = ("gold", "suite", "annotated.csv")


def test_tokenisation_is_the_corpuss_own(corpus, views):
    for name, view in views.items():
        assert view.tokenizer == "moses", name
        assert view.raw("x", "de") == "raw de x", name
        assert view.words("x", "de") == "words de x", name


def test_languages_and_names(corpus, views):
    for name, view in views.items():
        pair = (view.source_language, view.target_language)
        expected = (corpus.source_language, corpus.target_language)
        assert pair == (expected[::-1] if name == "reversed" else expected), name
        assert view.name == (name if name in OTHERS else corpus.name), name
        assert view.generated == (name not in OTHERS), name


def test_counts(views):
    for name, view in views.items():
        if name != "gold":  # which counts its own training pairs as well
            assert list(view.counts()) == ([] if name in OTHERS else ["counted"]), name


@pytest.mark.parametrize(
    ("target", "read"),
    [
        (True, [[("b", "y"), ("c", "z")], [("e", "w")]]),
        # Empty targets, since none is read, and a set need not have any.
        (False, [[("a", ""), ("b", ""), ("c", "z")], [("d", ""), ("e", "w")]]),
    ],
)
def test_passages_have_the_context_of_the_sides_that_are_read(corpus, target, read):
    passages = [Passage("c", "z", ["a", "b"], ["y"]), Passage("e", "w", ["d"])]
    view = PassageCorpus(corpus, passages, Context(2, target=target))
    documents: dict[str, list] = {}
    for sentence in view.sentences("test"):
        documents.setdefault(sentence.document, []).append((sentence.source, sentence.target))
    assert [*documents.values()] == read == view.documents
    assert view.translated == target
