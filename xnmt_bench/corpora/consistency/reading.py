"""Reads suites as they are published; places in files are checked against the words there."""

from __future__ import annotations

import csv
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from xnmt_bench.corpora.consistency.suite import Item, Suite
from xnmt_bench.corpora.text import decode_line, lines
from xnmt_bench.errors import DataError, XnmtError
from xnmt_bench.morphology import Gender
from xnmt_bench.registry import unknown

log = logging.getLogger(__name__)
GENDERS: Mapping[str, Gender] = {"male": "m", "female": "f", "neutral": "n"}
PRONOUNS: Mapping[str, Gender] = {
    "he": "m", "him": "m", "his": "m", "himself": "m",
    "she": "f", "her": "f", "hers": "f", "herself": "f",
    "they": "n", "them": "n", "their": "n", "theirs": "n", "themselves": "n",
}  # fmt: skip
SUBSETS = ("pro", "anti")  # stereotypical and anti-stereotypical
ARTICLES = ("the", "a", "an")


def bare(word: str) -> str:
    """A word without the punctuation that is attached to it, in lower case."""
    return re.sub(r"^\W+|\W+$", "", word).lower()


def read_suite(name: str, data: Path, language: str) -> Suite:
    """Reads a suite from the folder that holds them.

    Args:
        name: one of `SUITES`.
        data: the folder that holds `winomt/`, `handcrafted/` and so on.
        language: of the translations.

    Raises:
        DataError: a line is not in its format, with file and line.
        XnmtError: there is no such suite.
    """
    if name not in SUITES:
        raise XnmtError(f"metric.consistency.suite: {unknown('suite', name, SUITES)}")
    items = list(SUITES[name](data, language))
    if not items:
        raise DataError(data / name, None, "no sentences")
    return Suite(name, items)


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    return ((n, decode_line(line, path, n)) for n, line in enumerate(lines(path), start=1))


def _winomt(data: Path, language: str) -> Iterator[Item]:
    """WinoMT (Stanovsky et al. 2019): gender, place, sentence and entity, between tabs.

    `annotations.tsv` beside it names both entities and the pronoun. Without it the other entity is
    not known, the pronoun is the first of the gender, and subsets are the lines of `en_pro.txt` and
    `en_anti.txt`.
    """
    path = data / "winomt" / "en.txt"
    beside = path.with_name("annotations.tsv")
    annotated = _annotations(beside) if beside.exists() else {}
    files = {name: path.with_name(f"en_{name}.txt") for name in SUBSETS}
    subsets = {name: {text for _, text in _texts(f)} for name, f in files.items() if f.exists()}
    for number, text in _texts(path):
        fields = text.split("\t")
        if len(fields) != 4:
            raise DataError(path, number, f"{len(fields)} fields; needed are 4, between tabs")
        gender, place, sentence, _ = fields
        words = sentence.split()
        if gender not in GENDERS:
            raise DataError(path, number, f"gender {gender!r}; needed: {', '.join(GENDERS)}")
        if not place.isdigit() or int(place) >= len(words):
            raise DataError(path, number, f"no word {place!r} among {len(words)}")
        if annotated:
            if number - 1 not in annotated:
                raise DataError(beside, None, f"line {number - 1} is missing")
            item = annotated[number - 1](sentence)
            if int(place) not in item.entity or item.gender != GENDERS[gender]:
                told = f"another entity or gender than line {number} of {path.name}: {text!r}"
                raise DataError(beside, None, told)
            yield item
            continue
        pronouns = [
            n for n, word in enumerate(words) if PRONOUNS.get(bare(word)) == GENDERS[gender]
        ]
        if not pronouns:
            raise DataError(path, number, f"no {gender} pronoun")
        own = tuple(name for name, texts in subsets.items() if text in texts)
        yield Item(sentence, (int(place),), pronouns[0], (), GENDERS[gender], own)


def _annotations(path: Path) -> dict[int, Callable[[str], Item]]:
    """By line, what makes its item of the sentence."""
    rows = csv.DictReader((text + "\n" for _, text in _texts(path)), delimiter="\t")
    needed = ("line", "gender", "set", "entity_first", "entity_last", "other_first", "other_last",
              "pronoun")  # fmt: skip
    if missing := [name for name in needed if name not in (rows.fieldnames or ())]:
        raise DataError(path, 1, f"no column {missing[0]!r}")
    found: dict[int, Callable[[str], Item]] = {}
    for row in rows:
        try:
            found[int(row["line"])] = _annotated(path, rows.line_num, row)
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(path, rows.line_num, f"not readable: {error}") from None
    return found


def _annotated(path: Path, line: int, row: Mapping[str, str]) -> Callable[[str], Item]:
    entity, other = (
        tuple(range(int(row[f"{who}_first"]), int(row[f"{who}_last"]) + 1))
        for who in ("entity", "other")
    )
    pronoun, gender = int(row["pronoun"]), GENDERS[row["gender"]]
    if not (entity and other) or min(*entity, *other, pronoun) < 0:
        raise ValueError("a place is negative, or a last word before its first")
    sets = (
        SUBSETS if row["set"] == "both" else tuple(name for name in SUBSETS if name == row["set"])
    )

    def item(sentence: str) -> Item:
        words = sentence.split()
        if max(*entity, *other, pronoun) >= len(words):
            raise DataError(path, line, f"a place is beyond the {len(words)} words of the sentence")
        if bare(words[pronoun]) not in PRONOUNS:
            raise DataError(path, line, f"{words[pronoun]!r} is no pronoun")
        return Item(sentence, entity, pronoun, other, gender, sets)

    return item


def _handcrafted(data: Path, language: str) -> Iterator[Item]:
    """Saunders and Byrne (2020): `the X finished his work .|translation`."""
    path = data / "handcrafted" / f"handcrafted.en-{language}.txt"
    for number, text in _texts(path):
        source, bar, _ = text.partition("|")
        words = source.split()
        pronouns = [n for n, word in enumerate(words) if word in PRONOUNS]
        if not bar or len(pronouns) != 1 or words[0] not in ARTICLES or "finished" not in words[2:]:
            raise DataError(path, number, "not of the form 'the X finished his work .|translation'")
        entity = tuple(range(1, words.index("finished")))
        yield Item(source.strip(), entity, pronouns[0], (), PRONOUNS[words[pronouns[0]]])


SUITES: Mapping[str, Callable[[Path, str], Iterator[Item]]] = {
    "winomt": _winomt,
    "handcrafted": _handcrafted,
}
