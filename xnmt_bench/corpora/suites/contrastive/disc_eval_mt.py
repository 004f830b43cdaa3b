"""DiscEvalMT: anaphora and lexical choice, English to French (Bawden et al. 2018).

`anaphora.json` and `lexical-choice.json`, plain or gzip: a JSON object of examples by number. A
translation is its context sentence and its current one. A *semi-correct* one translates the context
by a noun of another gender; the pronoun that agrees with that noun is the true variant.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xnmt_bench.corpora.formats.pecore import LANG_PAIR
from xnmt_bench.corpora.suites.contrastive.group import ContrastiveSet, Group, Variant, checked
from xnmt_bench.corpora.text import json_at, plain_or_packed, text_lines
from xnmt_bench.errors import DataError

NAME = "disc_eval_mt"
PARTS = ("anaphora", "lexical-choice")
TRUE = ("correct", "semi-correct")


def read_disc_eval_mt(folder: Path) -> list[ContrastiveSet]:
    """Return both sets.

    Args:
        folder: of the files.

    Raises:
        DataError: a file is missing, or not in its format.
    """
    return [_read(plain_or_packed(folder / f"{part}.json"), part) for part in PARTS]


def _read(path: Path, part: str) -> ContrastiveSet:
    records = json_at(path, 1, "\n".join(text for _, text in text_lines(path)))
    if not isinstance(records, dict):
        raise DataError(path, None, "expected an object of examples")
    groups = []
    for number, record in records.items():
        try:
            for source, translations in _pairs(record):
                groups.append(_group(f"{part} {number}", source, translations))
        except (KeyError, TypeError, ValueError) as error:
            problem = f"the field {error} is missing" if isinstance(error, KeyError) else error
            raise DataError(path, None, f"example {number}: {problem}") from None
    return ContrastiveSet(f"{NAME} {part}", LANG_PAIR, groups)


def _pairs(record: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Return sources with their translations: one source for several, or a source each."""
    if "examples" in record:
        return [(example["src"], example["trg"]) for example in record["examples"]]
    return [(record["src"], translations) for translations in record["trg"]]


def _group(unit: str, source: list[str], translations: dict[str, list[str]]) -> Group:
    true = [name for name in TRUE if name in translations]
    if len(true) != 1:
        raise ValueError(f"expected one of {' and '.join(TRUE)}")
    texts = [translations[true[0]], translations["incorrect"]]
    for sentences in (source, *texts):
        is_text = isinstance(sentences, list) and all(isinstance(x, str) and x for x in sentences)
        if not is_text or len(sentences) != 2:
            raise ValueError("expected a sentence of context and the current one")
    variants = tuple(Variant(text[1], (text[0],)) for text in texts)
    return checked(Group(source[1], variants, 0, (source[0],), distance=1, unit=unit))
