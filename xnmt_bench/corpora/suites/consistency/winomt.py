"""WinoMT (Stanovsky et al. 2019): a pronoun's gender is that of one of two people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from xnmt_bench.corpora.suites.consistency.pronouns import PRONOUNS, bare
from xnmt_bench.corpora.suites.consistency.suite import Entity, Item, Suite
from xnmt_bench.corpora.text import csv_rows, text_lines
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.errors import DataError
from xnmt_bench.morphology import Gender
from xnmt_bench.parsing import COUNT, parse_count

GENDERS: Mapping[str, Gender] = {"male": "m", "female": "f", "neutral": "n"}
SUBSETS = ("pro", "anti")  # stereotypical and anti-stereotypical
LONGEST = 1000  # words of a sentence; a longer span is an error of the file
NEITHER = "-"  # the set of a line that is in none of them
PLACES = ("entity_first", "entity_last", "other_first", "other_last")
NEEDED = ("line", "gender", "set", *PLACES, "pronoun")


def winomt(data: Path, language: str) -> Suite:
    """Return lines of gender, place, sentence and entity, between tabs.

    `annotations.tsv` next to it names both entities and the pronoun. Without it the other entity is
    not known, the pronoun is the first of the gender, and subsets are the lines of `en_pro.txt` and
    `en_anti.txt`.
    """
    path = data / "winomt" / "en.txt"
    annotations_file = path.with_name("annotations.tsv")
    # The published file names only one entity.
    annotated = _annotations(annotations_file) if annotations_file.exists() else None
    files = {name: path.with_name(f"en_{name}.txt") for name in SUBSETS}
    subsets = {n: {text for _, text in text_lines(f)} for n, f in files.items() if f.exists()}
    sources: list[str] = []
    items: list[Item] = []
    for number, text in text_lines(path):
        fields = text.split("\t")
        if len(fields) != 4:
            raise DataError(
                path, number, f"{len(fields)} fields; expected 4, with tabs between them"
            )
        gender, place, sentence, _ = fields
        words = split_words(sentence)
        if gender not in GENDERS:
            raise DataError(path, number, f"gender {gender!r} is not one of {', '.join(GENDERS)}")
        if not COUNT.fullmatch(place) or int(place) >= len(words):
            raise DataError(
                path,
                number,
                f"no word {place!r}: the sentence has {len(words)} words, counted from 0",
            )
        if annotated is None:
            genders = [PRONOUNS.get(bare(word)) for word in words]
            if GENDERS[gender] not in genders:
                raise DataError(path, number, f"the sentence has no {gender} pronoun")
            # A line may be in both files, in one, or in none.
            subset_names = tuple(name for name, texts in subsets.items() if text in texts)
            entity = Entity((int(place),))
            pronoun = genders.index(GENDERS[gender])
            item = Item(len(items), pronoun, entity, None, GENDERS[gender], subset_names)
        else:
            if number - 1 not in annotated:
                raise DataError(annotations_file, None, f"line {number - 1} is missing")
            line, item = annotated[number - 1]
            _checked(annotations_file, line, item, words)
            # Both files are checked against each other: a shifted file would still be readable.
            if int(place) not in item.entity.words or item.gender != GENDERS[gender]:
                problem = (
                    f"the entity or gender differs from line {number} of {path.name}: {text!r}"
                )
                raise DataError(annotations_file, line, problem)
        sources.append(sentence)
        items.append(item)
    for line, item in (annotated or {}).values():
        if item.sentence >= len(sources):
            problem = f"no sentence {item.sentence}: the suite has {len(sources)}, counted from 0"
            raise DataError(annotations_file, line, problem)
    # Without annotations it is another suite: one entity a sentence, of only its first word.
    name = "winomt" if annotated is not None else "winomt, not annotated"
    return Suite.of(name, sources, items)


def _annotations(path: Path) -> dict[int, tuple[int, Item]]:
    """Return the file's line number and item for each line of the suite."""
    items: dict[int, tuple[int, Item]] = {}
    for line, row in csv_rows(path, NEEDED, delimiter="\t"):
        try:
            item = _annotated(row)
        except (ValueError, KeyError) as error:
            raise DataError(path, line, f"not readable: {error}") from None
        if item.sentence in items:
            first, _ = items[item.sentence]
            problem = f"sentence {item.sentence} is already annotated in line {first}"
            raise DataError(path, line, problem)
        items[item.sentence] = line, item
    return items


def _words(row: Mapping[str, str], role: str) -> tuple[int, ...]:
    first, last = (parse_count(row[f"{role}_{end}"]) for end in ("first", "last"))
    if last - first >= LONGEST:
        raise ValueError(f"{role}: words {first} to {last} are too many for a sentence")
    return tuple(range(first, last + 1))


def _annotated(row: Mapping[str, str]) -> Item:
    entity, other = (_words(row, role) for role in ("entity", "other"))
    pronoun = parse_count(row["pronoun"])
    if not (entity and other):
        raise ValueError("the last word comes before the first")
    if row["set"] not in ("both", NEITHER, *SUBSETS):
        raise ValueError(f"set {row['set']!r} is not one of {', '.join(SUBSETS)}, both, {NEITHER}")
    sets = SUBSETS if row["set"] == "both" else tuple(n for n in SUBSETS if n == row["set"])
    gender = GENDERS[row["gender"]]
    return Item(parse_count(row["line"]), pronoun, Entity(entity), Entity(other), gender, sets)


def _checked(path: Path, line: int, item: Item, words: Sequence[str]) -> None:
    """Raise a DataError unless an annotation is of this sentence."""
    other = item.other.words if item.other else ()
    if max(*item.entity.words, *other, item.pronoun) >= len(words):
        raise DataError(
            path, line, f"an annotated word is outside the {len(words)} words of the sentence"
        )
    if bare(words[item.pronoun]) not in PRONOUNS:
        raise DataError(path, line, f"{words[item.pronoun]!r} is not a pronoun")
