"""SCAT: French translations of `it` and `they`, and the words that people needed (Yin et al. 2021).

Four line-aligned files: `highlighted.test.{en,fr,context.en,context.fr}`, plain or gzip.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from xnmt_bench.corpora.formats.pecore import LANG_PAIR
from xnmt_bench.corpora.passage import Passage
from xnmt_bench.corpora.suites.context.example import SENSITIVE, Example, ExampleSet
from xnmt_bench.corpora.suites.context.tags import CUE, PRONOUN, parse_tags
from xnmt_bench.corpora.text import plain_or_packed, text_lines
from xnmt_bench.errors import DataError

FILES = ("en", "fr", "context.en", "context.fr")
TAGS = (PRONOUN, PRONOUN, CUE, CUE)  # of the words that are read of each file
BROKEN = "have broken tags"


def read_scat(
    folder: Path, write_source: Callable[[str], str], write_target: Callable[[str], str]
) -> list[ExampleSet]:
    """Return the test set. A line of context is one sentence of it, as the files have it.

    Context-sensitive are the pronouns of the translation. Highlights in the current sentence
    are left out. Rows with broken tags, and those without a pronoun in the translation, are left
    out.

    Args:
        folder: of the files.
        write_source: returns a source text as the system reads it.
        write_target: returns a target text as the system reads it.

    Raises:
        DataError: a file is missing, the files have unlike numbers of lines, or no row is left.
    """
    paths = [plain_or_packed(folder / f"highlighted.test.{name}") for name in FILES]
    lines = [[text for _, text in text_lines(path)] for path in paths]
    short = min(range(len(FILES)), key=lambda n: len(lines[n]))
    longest = max(map(len, lines))
    if len(lines[short]) != longest:
        problem = f"the file ends here, but another one of the set has {longest} lines"
        raise DataError(paths[short], len(lines[short]) or None, f"rows are out of step: {problem}")
    examples, left_out, first = list[Example](), Counter[str](), dict[str, str]()
    unit_of: dict[tuple[str, str], int] = {}
    writers = (write_source, write_target) * 2
    for number, row in enumerate(zip(*lines, strict=True), start=1):
        parsed = []
        for path, text, tag, write in zip(paths, row, TAGS, writers, strict=True):
            try:
                parsed.append(parse_tags(text, padded=True).words(tag, write))
            except ValueError as error:
                first.setdefault(BROKEN, f"{path.name}:{number}: {error}")
        if len(parsed) < len(FILES):
            left_out[BROKEN] += 1
            continue
        (source, _), (target, sensitive), (before, source_cues), (target_before, target_cues) = (
            parsed
        )
        if not (sensitive and before.strip() and target_before.strip()):
            why = "have no pronoun in the translation, or no context"
            left_out[why] += 1
            first.setdefault(why, f"line {number}")
            continue
        unit = unit_of.setdefault((before, source), len(unit_of))
        places = {"source": source_cues, "target": target_cues}
        cues = {side: frozenset((0, word) for word in words) for side, words in places.items()}
        passage = Passage(source, target, (before,), (target_before,))
        examples.append(Example(unit, unit, passage, {SENSITIVE: sensitive}, cues))
    if not examples:
        reasons = "; ".join(f"{why} ({first[why]})" for why in left_out)
        problem = f"no row can be used: they {reasons}" if reasons else "the files have no row"
        raise DataError(folder, None, problem)
    remarks = [f"scat: {count:,} rows {why} ({first[why]}), and are left out."
               for why, count in left_out.items()]  # fmt: skip
    if not any(example.cues["source"] or example.cues["target"] for example in examples):
        raise DataError(paths[3], None, "no <hon>..<hoff> tag in any context")
    return [ExampleSet("scat", LANG_PAIR, examples, remarks=remarks)]
