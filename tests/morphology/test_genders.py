"""Spanish and Russian genders by sentences that were read."""

import pytest

from xnmt_bench.registry import create


@pytest.mark.parametrize(
    ("sentence", "chosen", "gender"),
    [("El desarrollador habló con ella.", (0, 1), "m"), ("La desarrolladora habló.", (0, 1), "f"),
     ("Pagó al obrero.", (1, 2), "m"), ("Habló con él.", (2,), "m"), ("Habló con ella.", (2,), "f"),
     ("Terminó su trabajo.", (1,), None), ("Llamó a la dentista.", (3,), "f"),
     ("un periodista habló", (1,), "m"), ("periodista", (0,), None), ("secretaria", (0,), "f"),
     ("cajero", (0,), "m")],
)  # fmt: skip
def test_spanish(sentence, chosen, gender):
    assert create("morphologies", "spanish").gender(sentence.split(), chosen) == gender


@pytest.mark.parametrize(
    ("sentence", "chosen", "gender"),
    [("Медсестра позвонила механику.", (0,), "f"), ("Медсестра позвонила механику.", (2,), "m"),
     ("потому что она опоздала", (2,), "f"), ("потому что его видели", (2,), "m"),
     ("фермеры пришли", (0,), None), ("поставил под сомнение фермера", (2, 3), "m")],
)  # fmt: skip
def test_russian(sentence, chosen, gender):
    assert create("morphologies", "pymorphy").gender(sentence.split(), chosen) == gender


def test_what_is_not_linked_has_no_gender():
    for name in ("spanish", "pymorphy", "german_nouns", "mt_gender_ru"):
        assert create("morphologies", name).gender(["der", "Bauer"], ()) is None
    assert create("morphologies", "mt_gender_de").gender(["der", "Bauer"], ()) == "m"
    assert create("morphologies", "mt_gender_de").entity_gender("nurse", ["er"], (0,)) == "f"
