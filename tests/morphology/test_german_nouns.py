"""Genders of German words, from a dictionary and from the forms of articles and pronouns."""

import importlib.metadata

import pytest

from xnmt_bench.corpora.toy_lexicon import lexicon
from xnmt_bench.errors import XnmtError
from xnmt_bench.morphology.german_nouns import GermanNouns
from xnmt_bench.registry import create


@pytest.fixture(scope="module")
def german():
    pytest.importorskip("german_nouns")
    return create("morphologies", "german_nouns")


def gender(german, text):
    """Of all words of a phrase."""
    words = text.split()
    told = german.gender(words, range(len(words)))
    return told and told.gender


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("das Medikament", "n"), ("der Parasit", "m"), ("Malaria", "f"),
        ("der See", "m"), ("die See", "f"), ("See", None),  # the article decides
        ("der Frau", "f"),  # a dative
        ("Anna", None), ("die Anna", "f"),  # a coin, m, and a name
        ("Hunde", None), ("die Hunde", None), ("den Hunden", None),  # plurals
        ("Dampfschiffgesellschaft", "f"), ("Lkw-Fahrer", "m"), ("die Glaserin", "f"),
        ("der Elektrokamin", "m"), ("Elektrokamin", None), ("das Flugbenzin", "n"),
        ("der Angestellte", "m"), ("die Angestellte", "f"),
        ("Er", "m"), ("sie", "f"), ("Es", "n"), ("ihn", "m"), ("ihm", None),
        ("ihre", "f"), ("seine", None), ("einen", "m"), ("der Qwrtz", "m"),
        ("schläft", None), (".", None), ("", None),
    ],
)  # fmt: skip
def test_genders(german, text, expected):
    assert gender(german, text) == expected


def test_only_the_chosen_words_are_asked_but_an_article_before_them_is_heard(german):
    words = ["Die", "Frau", "sieht", "den", "neuen", "See", "."]
    assert german.gender(words, [1]) == ("f", "die Frau")
    assert german.gender(words, [5]) == ("m", "den See")
    assert german.gender(words, [2]) is None
    assert german.gender(words, []) is None


def test_nouns_of_the_generated_corpus_have_their_gender_behind_their_article(german):
    article = {"m": "der", "f": "die", "n": "das"}
    nouns = [*lexicon().things]
    found = {n.german: gender(german, f"{article[n.gender]} {n.german}") for n in nouns}
    assert len(found) > 40
    assert {n.german for n in nouns if found[n.german] != n.gender} == set()


def test_what_is_not_installed_is_said_in_one_line(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("xnmt_bench.morphology.german_nouns.version", missing)
    with pytest.raises(XnmtError, match="german-nouns is not installed: pip install 'xnmt_bench"):
        GermanNouns()
