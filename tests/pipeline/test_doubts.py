"""Doubts about numbers that mean little: each where it has cause, and not elsewhere."""

from dataclasses import replace

import numpy as np
import pytest

from support.configurations import configure
from xnmt_bench.corpora.formats.alignment import Alignment, counts_from_one
from xnmt_bench.corpora.sentence import Corpus, Gold
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.corpora.view import flipped
from xnmt_bench.metrics.aer.counts import about_reading
from xnmt_bench.nmt.fairseq.subwords import DictionarySubwords
from xnmt_bench.pipeline.doubts import about_decisions, about_pairs, about_texts

THRESHOLDS = configure().doubts


class Changed(Corpus):
    """The toy corpus with other test sentences."""

    name, source_language, target_language = "changed", "en", "de"

    def __init__(self, change):
        self._toy, self._change = ToyCorpus(train=300, valid=20, test=40), change

    def sentences(self, split):
        sentences = self._toy.sentences(split)
        return self._change(self._toy, sentences) if split == "test" else sentences

    def recipe(self, split=None):
        return {"changed": self._change.__name__}


def as_it_is(toy, sentences):
    return sentences


def half_learnt(toy, sentences):
    training_sentences = list(toy.sentences("train"))[:20]
    return [*list(sentences)[:20], *training_sentences]


def swapped(toy, sentences):
    return (replace(s, source=s.target, target=s.source, gold=None) for s in sentences)


def greek(toy, sentences):
    def spelled(text):
        return "".join(chr(ord("α") + ord(c) % 24) if c.isalpha() else c for c in text)

    return (replace(s, source=spelled(s.source), gold=None) for s in sentences)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (as_it_is, []),
        (half_learnt, ["20 of 40 test pairs also stand in the training split"]),
        (swapped, ["the other direction"]),
        (greek, ["does not know"]),
    ],
)
def test_doubts_about_a_test_set(transformer, change, expected):
    texts = transformer.system.read(Changed(change), ("test",))
    doubts = list(about_texts(texts, texts, transformer.store, THRESHOLDS))
    assert len(doubts) == len(expected)
    assert all(part in text for part, text in zip(expected, doubts, strict=True))


def test_unknown_subwords_that_another_cut_avoids_are_a_doubt(transformer, tmp_path):
    """4 of the 8 source subwords of both pairs, half of them by the cut; see test_fairseq.py."""
    (tmp_path / "codes").write_text("#version: 0.2\ne r</w>\nl o\nlo w\nlow er</w>\n")
    (tmp_path / "dict.txt").write_text("low@@ 9\ner 9\nx 9\n")
    cut = DictionarySubwords(tmp_path / "dict.txt", str(tmp_path / "codes"))
    subwords = DictionarySubwords(tmp_path / "dict.txt", None)
    texts = transformer.system.read(Changed(as_it_is), ("test",))
    texts.subwords = (cut, subwords)
    pairs = [("lower x lower x", "x x"), ("x x q q", "x")]
    thresholds = configure("doubts.unknown=null", "doubts.swapped=null").doubts
    doubts = list(about_pairs(pairs, texts, texts, transformer.store, thresholds))
    assert [text.partition(" are ")[0] for text in doubts] == ["2 of 8 subwords of the source side"]


class LearntTestSet(Changed):
    """A corpus whose training split has the other corpus's test sentences."""

    def sentences(self, split):
        return self._toy.sentences("test" if split == "train" else split)

    def recipe(self, split=None):
        return super().recipe(split) | {"train": "test"}


def test_training_pairs_are_those_of_the_corpus_that_the_system_learnt_from(transformer):
    """With `nmt.corpus`, they are not those of the corpus that is measured."""
    measured = transformer.system.read(Changed(half_learnt), ("test",))
    learnt = transformer.system.read(LearntTestSet(as_it_is), ("train",))
    [doubt] = about_texts(measured, learnt, transformer.store, THRESHOLDS)
    assert doubt.startswith("20 of 40 test pairs")  # the other 20 are the measured corpus's own
    clean = transformer.system.read(Changed(as_it_is), ("test",))
    assert not list(about_texts(clean, clean, transformer.store, THRESHOLDS))
    [doubt] = about_texts(clean, learnt, transformer.store, THRESHOLDS)
    assert doubt.startswith("40 of 40 test pairs")


def test_a_job_looks_into_the_corpus_that_its_system_learnt_from(transformer, monkeypatch):
    def seeds(*arguments):
        *_, texts, learnt, _, _ = arguments
        return [texts.corpus.recipe()["seed"], learnt.corpus.recipe()["seed"]]

    for name in ("about_texts", "about_pairs"):
        monkeypatch.setattr(f"xnmt_bench.pipeline.job.{name}", seeds)
    elsewhere = transformer.changed({"nmt": {"corpus": {"seed": 5}}})
    assert elsewhere.doubts == elsewhere.doubts_of([("a", "b")]) == [0, 5]
    assert transformer.system.learnt_texts is transformer.texts


def test_doubts_can_be_switched_off(transformer):
    off = configure("doubts.shared_pairs=null", "doubts.swapped=null", "doubts.unknown=null").doubts
    for change in (half_learnt, swapped, greek):
        texts = transformer.system.read(Changed(change), ("test",))
        assert not list(about_texts(texts, texts, transformer.store, off))


def test_doubts_about_decisions():
    gold_N = np.arange(100) % 10
    assert not list(about_decisions(gold_N, gold_N, THRESHOLDS))
    alike = list(about_decisions(np.where(np.arange(100) < 60, 3, gold_N), gold_N, THRESHOLDS))
    assert len(alike) == 1 and "64.0 % of the system's decisions" in alike[0]
    wrong = list(about_decisions((gold_N + 1) % 10, gold_N, THRESHOLDS))
    assert len(wrong) == 1 and "in 0.0 % of the decisions" in wrong[0] and "10.0 %" in wrong[0]


def test_a_gold_that_is_read_from_the_wrong_number():
    links = [frozenset((i, i) for i in range(n)) for n in (3, 5, 8)]
    gold = [Alignment(x, x) for x in links]
    moved = [Alignment(*2 * [frozenset((i + 1, j + 1) for i, j in x)]) for x in links]
    assert about_reading(links, gold, 0.1) is None
    assert about_reading(links, moved, None) is None  # 13 of 16 links still meet
    none = [frozenset()] * 3
    assert about_reading(none, [Alignment(x, x) for x in none], 0.1) is None
    doubt = about_reading(links, moved, 0.1)
    assert "AER is 18.8 %, but 0.0 %" in doubt and "one less" in doubt


def test_a_hypothesis_whose_sides_are_exchanged():
    links = [frozenset((i, (i + 3) % n) for i in range(n)) for n in (5, 8, 12)]
    gold = [Alignment(x, x) for x in links]
    doubt = about_reading(list(map(flipped, links)), gold, 0.1)
    assert "but 0.0 %" in doubt
    assert doubt.endswith("see metric.aer.gold_reverse and metric.aer.hypothesis_reverse")
    assert about_reading(links, gold, 0.1) is None


def test_links_that_count_from_one():
    from_zero = [frozenset((i, i) for i in range(n)) for n in (9, 9, 9)]
    from_one = [frozenset((i + 1, j + 1) for i, j in links) for links in from_zero]
    assert not counts_from_one(from_zero)
    assert counts_from_one(from_one)
    assert not counts_from_one(from_one[:2])  # too few to tell
    assert not counts_from_one([*from_one, {(4, 0)}])
    assert not counts_from_one([])


def test_a_gold_file_that_counts_from_one_and_was_read_from_zero(transformer):
    """No link reaches a last word, so that none lies beyond its sentence."""

    def moved(toy, sentences):
        links = frozenset((i + 1, i + 1) for i in range(3))
        return (replace(s, gold=Gold(links, links)) for s in sentences)

    texts = transformer.system.read(Changed(moved), ("test",))
    [doubt] = about_texts(texts, texts, transformer.store, THRESHOLDS)
    assert doubt.startswith("no gold link has word 0")
    off = configure("doubts.gold_shift=null").doubts
    assert not list(about_texts(texts, texts, transformer.store, off))
