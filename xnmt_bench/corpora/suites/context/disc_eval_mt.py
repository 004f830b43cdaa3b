"""DiscEvalMT's anaphora with the words that decide it (Bawden et al. 2018; Sarti et al. 2024).

PECoRe's authors tagged the pronouns and their antecedents on both sides. Their files of processed
examples have the tagged references, which do not depend on the system that a file is named for.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from xnmt_bench.corpora.formats.pecore import LANG_PAIR
from xnmt_bench.corpora.passage import Passage
from xnmt_bench.corpora.suites.context.example import SENSITIVE, Example, ExampleSet
from xnmt_bench.corpora.suites.context.tags import CUE, PRONOUN, parse_tags
from xnmt_bench.corpora.text import csv_rows
from xnmt_bench.errors import DataError

FOLDER, FILES = "pecore/processed_examples", "disc_eval_mt-anaphora-*.tsv*"
COLUMNS = (
    *("source_current_tagged", "gold_target_current_tagged"),
    *("source_context_tagged", "gold_target_context_tagged"),
)


def read_disc_eval_mt(
    data: Path, write_source: Callable[[str], str], write_target: Callable[[str], str]
) -> list[ExampleSet]:
    """Return the set of anaphora.

    Args:
        data: the folder that holds PECoRe's.
        write_source: returns a source text as the system reads it.
        write_target: returns a target text as the system reads it.

    Raises:
        DataError: the file is missing or has no row, or a row has unbalanced tags or lacks a
            pronoun or a cue.
    """
    paths = sorted((data / FOLDER).glob(FILES))
    if not paths:
        raise DataError(data / FOLDER, None, f"no file {FILES} is here")
    path, examples, unit_of = paths[0], list[Example](), dict[str, int]()
    for line, row in csv_rows(path, COLUMNS, "\t"):
        try:
            texts = [parse_tags(row[name], padded=False) for name in COLUMNS]
            source, _ = texts[0].words(PRONOUN, write_source)
            target, sensitive = texts[1].words(PRONOUN, write_target)
            before, source_cues = texts[2].words(CUE, write_source)
            target_before, target_cues = texts[3].words(CUE, write_target)
        except ValueError as error:
            raise DataError(path, line, str(error)) from None
        for tag, words in (("<p>", sensitive), ("<hon>", source_cues), ("<hon>", target_cues)):
            if not words:
                raise DataError(path, line, f"a text without a {tag} tag")
        # Four examples have one source, behind contexts that differ in a noun.
        unit = unit_of.setdefault(source, len(unit_of))
        places = {"source": source_cues, "target": target_cues}
        cues = {side: frozenset((0, word) for word in words) for side, words in places.items()}
        passage = Passage(source, target, (before,), (target_before,))
        examples.append(Example(unit, unit, passage, {SENSITIVE: sensitive}, cues))
    if not examples:
        raise DataError(path, None, "the file has no row")
    return [ExampleSet("disc_eval_mt anaphora", LANG_PAIR, examples)]
