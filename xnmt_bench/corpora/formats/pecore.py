"""PECoRe's score files: tab-separated, a row a token (Sarti et al. 2024).

`...-cti.tsv` scores the tokens of translations: how much does the context change each of them?
`...-cci.tsv` scores the tokens of a context: how much does each matter for one token of the
translation? Both say which tokens people marked. Sentences are English, translations French.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from xnmt_bench.corpora.marked import MarkedWords
from xnmt_bench.corpora.text import csv_rows
from xnmt_bench.errors import DataError
from xnmt_bench.parsing import parse_count, parse_number

LANG_PAIR = "en-fr"  # of SCAT and DiscEvalMT, whose files do not say it
SENSITIVE, CUE = "is_context_sensitive", "is_supporting_context"  # what people marked
TOKEN = "token_idx"
SIDES = {"S": "source", "T": "target"}
# Columns of a file of contexts besides scores. The attention of single heads is left out too: to
# choose the best of 48 heads by the marks would be to fit them.
NO_SCORE = re.compile(
    r"example_idx|token_idx|side|cti_idx|token|pos|morph_feats|is_.*|.*_\d+l_\d+h"
)
# How context-sensitive a token is, by the names of rows: the column, and what is done with it.
MEASURES: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "KL": ("kl_divergence", np.asarray),
    "abs(P-CXMI)": ("pcxmi", np.abs),
}


def read_sensitivity(path: Path) -> MarkedWords:
    """Read a file of how context-sensitive the tokens of translations are.

    Raises:
        DataError: a column is missing, a number is none, or rows are out of step.
    """
    columns = [column for column, _ in MEASURES.values()]
    words = _read(path, ["example_idx"], SENSITIVE, columns)
    scores = {name: size(words.scores[column]) for name, (column, size) in MEASURES.items()}
    return replace(words, scores=scores)


def read_cues(path: Path) -> MarkedWords:
    """Read a file of how much the tokens of contexts matter for tokens of translations.

    Raises:
        DataError: a column is missing, a number is none, or rows are out of step.
    """
    words = _read(path, ["example_idx", "cti_idx", "side"], CUE)
    if not words.scores:
        raise DataError(path, 1, "no column of scores")
    return words


def _read(
    path: Path, keys: Sequence[str], mark: str, columns: Sequence[str] | None = None
) -> MarkedWords:
    """Return the tokens of a file, each example a unit, with some columns as scores.

    Args:
        path: the file.
        keys: columns that tell lists of tokens apart; the first is `example_idx`.
        mark: the column of what people marked.
        columns: of scores; all that may be scores, if not given.
    """
    lists = dict[tuple[str, ...], list[float]]()  # the tokens of each, in order
    tokens, scores = list[tuple[int, int, str, bool]](), list[list[float]]()
    for line, row in csv_rows(path, [*keys, TOKEN, mark, *(columns or ())], "\t"):
        if columns is None:
            columns = [name for name in row if name and not NO_SCORE.fullmatch(name)]
        key, latest = tuple(row[name] for name in keys), next(reversed(lists), None)
        example, token = (_number(path, line, row, name, parse_count) for name in (keys[0], TOKEN))
        # A row that is lost or doubled moves every score by one token.
        if token != len(lists.get(key, ())) or (key in lists and key != latest):
            where = ", ".join(f"{name} {row[name]}" for name in keys)
            problem = f"rows are out of step: {TOKEN} {token} of {where} is not the next"
            raise DataError(path, line, problem)
        lists.setdefault(key, []).append(token)
        for name, allowed in ((mark, ("0", "1")), ("side", SIDES)):
            if row.get(name, "S") not in allowed:
                expected = " or ".join(allowed)
                raise DataError(path, line, f"{name} {row[name]!r}; expected {expected}")
        side = SIDES.get(row.get("side", ""), "")
        tokens.append((int(example), len(lists) - 1, side, row[mark] == "1"))
        scores.append([_number(path, line, row, name, parse_number) for name in columns])
    if not tokens:
        raise DataError(path, None, "the file has no token")
    example_N, list_N, side_N, marked_N = (np.array(x) for x in zip(*tokens, strict=True))
    scores_CN = np.array(scores).reshape(len(tokens), -1).T
    by_name = dict(zip(columns or (), scores_CN, strict=True))
    return MarkedWords(example_N, list_N, marked_N, by_name, side_N)


def _number(
    path: Path, line: int, row: dict[str, str], name: str, parse: Callable[[str], float]
) -> float:
    try:
        value = parse(row[name])
    except ValueError as error:
        raise DataError(path, line, f"{name}: {error}") from None
    if not np.isfinite(value):
        raise DataError(path, line, f"{name}: {row[name]} is not finite")
    return value
