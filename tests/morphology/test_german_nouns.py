"""Genders of German words, from a dictionary and from the forms of articles and pronouns."""

import importlib.metadata

import pytest

from xnmt_bench.corpora.toy.lexicon import lexicon
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
    evidence = german.gender(words, range(len(words)))
    return evidence and evidence.gender


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("das Medikament", "n"), ("der Parasit", "m"), ("Malaria", "f"),
        ("der See", "m"), ("die See", "f"), ("See", None),  # the article decides
        ("der Frau", "f"),  # a dative
        ("Anna", None), ("die Anna", "f"),  # a coin, m, and a name
        ("Die Angestellten", None), ("der Angestellten", "f"), ("dem Angestellten", "m"),
        ("der Deutsche", "m"), ("die Deutsche", "f"), ("Studenten", None), ("der Student", "m"),
        ("alle Lehrer", None), ("zwei Lehrer", None), ("seine Lehrer", None), ("sein Lehrer", "m"),
        ("seine alte Lehrerin", "f"),
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


@pytest.mark.parametrize(
    ("text", "chosen", "of_a_person", "of_a_thing"),
    [("dem Koch", (1,), "m", None), ("dem Sheriff", (0, 1), "m", None),
     ("der Frau", (1,), "f", "f"), ("weil sie Lehrer ist", (2,), "m", "m"),
     ("kam vom Friseur", (2,), "m", "m"),
     ("Das Kind isst Schokolade", (3,), "f", "f"), ("Der Auditor kam", (1,), "m", "m"),
     ("der alte kranke Auditor", (3,), "m", "m")],
)  # fmt: skip
def test_a_person_who_is_masculine_or_neuter_is_a_man(
    german, text, chosen, of_a_person, of_a_thing
):
    words = text.split()
    for personal, expected in ((True, of_a_person), (False, of_a_thing)):
        evidence = german.entity_gender("", words, chosen, personal)
        assert (evidence and evidence.gender) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("er muss sein.", "m"), ("so muss es sein.", "n"), ("muss sein.", None), ("sein Hut", "m"),
     ("der ihr", "f"), ("der,", None), ("die", "f"), ("im", None), ("keine", None), ("unser", None),
     ("den er", "m")],
)  # fmt: skip
def test_a_pronoun_by_its_form(german, text, expected):
    words = text.split()
    evidence = german.pronoun_gender(words, range(len(words)))
    assert (evidence and evidence.gender) == expected


def test_only_the_chosen_words_are_asked_but_an_article_before_them_is_heard(german):
    words = ["Die", "Frau", "sieht", "den", "neuen", "See", "."]
    assert german.gender(words, [1]) == ("f", "die Frau")
    assert german.gender(words, [5]) == ("m", "den See")
    assert german.gender(words, [2]) is None
    assert german.gender(words, []) is None


def test_nouns_of_the_generated_corpus_have_their_gender_behind_their_article(german):
    article = {"m": "der", "f": "die", "n": "das"}
    nouns = [*lexicon().objects]
    gender_of = {n.german: gender(german, f"{article[n.gender]} {n.german}") for n in nouns}
    assert len(gender_of) > 40
    assert {n.german for n in nouns if gender_of[n.german] != n.gender} == set()


def test_what_is_not_installed_is_said_in_one_line(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("xnmt_bench.morphology.base.version", missing)
    with pytest.raises(XnmtError, match="german-nouns is not installed: pip install 'xnmt_bench"):
        GermanNouns()
