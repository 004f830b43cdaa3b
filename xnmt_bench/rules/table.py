"""Rules on disk: Parquet shards, one row a decision, read back by column.

Columns: `sentence` (its number in the corpus), `step`, `label` f(c_t), `probability` of the label,
`gold` (the target's own word); for each side `<side>_ids`, `<side>_positions` and `<side>_scores`,
lists of the largest k, best word first, so that a smaller k is a slice. A place that no word fills
is -1. `error` is there where the explainer knows how far a step may be off. Evaluation sets also
hold `<side>_relevance`, the score of every word (NaN where unseen).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from xnmt_bench.corpora.vocabulary.subwords import SPECIAL
from xnmt_bench.errors import NotApplicable, StoreError, XnmtError
from xnmt_bench.parquet import column_names, read_table, write_table

log = logging.getLogger(__name__)
# Places of words in a sentence and their relevance, of one side of a decision.
Scores = tuple[np.ndarray, np.ndarray]
RULE_SIDES = ("source", "prefix")
# As fields of `Rules`, in their order.
RULE_COLUMNS = (
    *("sentence", "step", "label", "probability"),
    *("source_ids", "prefix_ids", "source_positions", "prefix_positions"),
)
RELEVANCE_COLUMNS = ("sentence", "step", "source_relevance", "prefix_relevance")
PROBABILITY, ERROR = "probability", "error"
NUMERIC = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
GREATEST = 1e30  # relevance; sums of greater numbers overflow float32
TOP_K = ("_ids", "_positions", "_scores")  # endings of the columns that are lists of fixed size


def shard_path(folder: Path, split: str, number: int) -> Path:
    """Return the file of a shard."""
    return folder / split / f"{number:05d}.parquet"


def shard_paths(folder: Path, split: str, count: int) -> list[Path]:
    """Return the files of so many shards."""
    return [shard_path(folder, split, number) for number in range(count)]


@dataclass(frozen=True)
class Rules:
    """Decisions and their top-k words, as arrays of one row a decision.

    Attributes:
        sentence_N: number of the sentence in the corpus.
        step_N: step, counted from 0.
        label_N: label ids.
        probability_N: the model's probability of the label.
        source_NK: ids of the top-k source words, -1 where there are fewer.
        prefix_NK: ids of the top-k prefix words.
        source_position_NK: their places in the source, in subwords from 0.
        prefix_position_NK: their places in the target.
    """

    sentence_N: np.ndarray
    step_N: np.ndarray
    label_N: np.ndarray
    probability_N: np.ndarray
    source_NK: np.ndarray
    prefix_NK: np.ndarray
    source_position_NK: np.ndarray
    prefix_position_NK: np.ndarray

    def __len__(self) -> int:
        return len(self.label_N)

    def take(self, rows: np.ndarray | slice) -> Rules:
        """Return some of the rules."""
        return Rules(*(column[rows] for column in vars(self).values()))


def write_shard(columns: dict[str, np.ndarray | list[np.ndarray]], path: Path) -> None:
    """Write a shard so that it is there whole or not at all.

    Args:
        columns: 1-dimensional columns, 2-dimensional ones (lists of fixed size), or a list of
            arrays (lists of any size).
        path: where it goes.
    """
    arrays: dict[str, pa.Array] = {}
    for name, values in columns.items():
        if isinstance(values, list):
            arrays[name] = pa.array(values, type=pa.list_(pa.float32()))
        elif values.ndim == 1:
            arrays[name] = pa.array(values)
        else:
            flat = pa.array(values.ravel())
            # A fixed size is read back without offsets, as one matrix.
            arrays[name] = pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    write_table(pa.table(arrays), path)


def is_finished(path: Path) -> bool:
    """Return whether a whole shard is there; a damaged one is removed, so that it is made again.

    Shards are renamed when they are whole, but a rename may reach the disk before the bytes do.
    """
    if not path.exists():
        return False
    try:
        return bool(read_columns(path))
    except StoreError as error:
        log.warning("%s; it is made again", error)
        path.unlink()
        return False


def shards(folder: Path, split: str) -> list[Path]:
    """Return the shards of a split, in order.

    Raises:
        StoreError: there are none.
    """
    paths = sorted((folder / split).glob("*.parquet"))
    if not paths:
        raise StoreError(f"{folder / split}: no rules are here")
    return paths


def read_columns(path: Path, columns: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """Return some columns of one shard, or all of them.

    Raises:
        StoreError: the shard is truncated, altered or lacks a column.
    """
    table = read_table(path, columns)
    arrays = {}
    for name in table.column_names:
        array = table[name].combine_chunks()
        if isinstance(array, pa.ChunkedArray):  # of a table without rows
            array = pa.concat_arrays(array.chunks)
        fixed = isinstance(array, pa.FixedSizeListArray)
        # The pages' checksums do not cover the schema, so its types are checked here.
        if fixed != name.endswith(TOP_K):
            raise StoreError(f"{path}: column {name!r} is altered: it is of type {array.type}")
        kind = array.type.value_type if pa.types.is_list(array.type) or fixed else array.type
        if not any(is_kind(kind) for is_kind in NUMERIC) or array.null_count:
            raise StoreError(f"{path}: column {name!r} should hold numbers: {array.type}")
        # Lists of fixed size become one 2-dimensional array without a copy for each row.
        values = (array.flatten() if fixed else array).to_numpy(zero_copy_only=False)
        arrays[name] = values.reshape(len(array), array.type.list_size) if fixed else values
    return arrays


def read_errors(folder: Path, split: str) -> np.ndarray | None:
    """Return how far each decision's scores may be off, (N,); None where that is not known.

    Raises:
        StoreError: a shard is not readable.
    """
    paths = shards(folder, split)
    if ERROR not in column_names(paths[0]):
        return None
    return np.concatenate([read_columns(path, [ERROR])[ERROR] for path in paths])


def read_rules(path: Path, k: int) -> Rules:
    """Return one shard's rules, sliced to k.

    Raises:
        XnmtError: the rules were extracted with a smaller k.
        StoreError: the shard is not readable.
    """
    columns = read_columns(path, RULE_COLUMNS)
    largest = columns["source_ids"].shape[1]
    # Slicing past the stored words would give short rules without a word.
    if k > largest:
        raise XnmtError(f"k={k}, but the rules hold {largest} words a side; raise rules.largest_k")
    fields = ((name, columns[name]) for name in RULE_COLUMNS)
    return Rules(*(values[:, :k] if name.endswith(TOP_K) else values for name, values in fields))


def differs_from_gold(path: Path) -> np.ndarray:
    """Return whether each decision's label is another word than the target's own, (N,)."""
    columns = read_columns(path, ("label", "gold"))
    return columns["label"] != columns["gold"]


def write_rules(rules: Rules, path: Path) -> None:
    """Write rules to a file that `read_rules` reads."""
    write_shard(dict(zip(RULE_COLUMNS, vars(rules).values(), strict=True)), path)


def all_rules(folder: Path, split: str, k: int) -> Rules:
    """Return every rule of a split at once: for evaluation sets."""
    parts = [vars(read_rules(path, k)).values() for path in shards(folder, split)]
    # Only evaluation sets: a training split's rules stream, shard by shard.
    return Rules(*map(np.concatenate, zip(*parts, strict=True)))


def sentence_rows(sentence_N: np.ndarray) -> Iterator[slice]:
    """Yield the rows of each sentence in a column of their numbers; they stand together."""
    starts = sentence_starts(sentence_N).tolist()
    return (slice(*ends) for ends in pairwise([*starts, len(sentence_N)]))


def sentence_starts(sentence_N: np.ndarray) -> np.ndarray:
    """Return the row where each sentence begins in a column of their numbers."""
    # Numbers begin at 0, so that -1 before them makes the first row a beginning.
    return np.flatnonzero(np.diff(sentence_N, prepend=-1))


@dataclass(frozen=True)
class SentenceRelevance:
    """The whole relevance of one sentence's explained steps.

    Attributes:
        number: of the sentence in the corpus.
        first: its first explained step; the others follow.
        source_TS: relevance of source ids.
        prefix_TT: relevance of prefix ids, NaN where a step cannot see them.
        probability_T: of each step's label; NaN if unknown.
    """

    number: int
    first: int
    source_TS: np.ndarray
    prefix_TT: np.ndarray
    probability_T: np.ndarray

    def visible_words(
        self, source_S: np.ndarray, target_T: np.ndarray
    ) -> Iterator[tuple[Scores, Scores]]:
        """Yield places and relevance of the words that each decision sees, by side.

        BOS, EOS and padding are left out.

        Args:
            source_S: the sentence's source ids.
            target_T: its target ids.

        Raises:
            NotApplicable: a word that a decision sees has no relevance.
        """
        places = [np.flatnonzero(~np.isin(ids, SPECIAL)) for ids in (source_S, target_T)]
        for row, (source_S, prefix_T) in enumerate(
            zip(self.source_TS, self.prefix_TT, strict=True)
        ):
            earlier = places[1][places[1] < self.first + row]
            sides = (places[0], source_S[places[0]]), (earlier, prefix_T[earlier])
            if any(np.isnan(scores).any() for _, scores in sides):
                raise NotApplicable(
                    "the explainer gives no score to some words that a decision sees"
                )
            yield sides


def relevance(folder: Path, split: str) -> Iterator[SentenceRelevance]:
    """Yield the whole relevance of an evaluation set, sentence by sentence."""
    for path in shards(folder, split):
        yield from shard_relevance(path)


def shard_relevance(path: Path) -> Iterator[SentenceRelevance]:
    """Yield the whole relevance of one shard, sentence by sentence.

    Raises:
        StoreError: the shard is not readable, or a number is missing or too great.
    """
    # What others made need not say the probability.
    optional = (PROBABILITY,) if PROBABILITY in column_names(path) else ()
    columns = read_columns(path, (*RELEVANCE_COLUMNS, *optional))
    unknown_N = np.full(len(columns["step"]), np.nan)
    probability_N = columns.get(PROBABILITY, unknown_N).astype(np.float64)
    for rows in sentence_rows(columns["sentence"]):
        source, prefix = (
            _matrix(columns[f"{side}_relevance"][rows], f"{path}: {side}_relevance")
            for side in RULE_SIDES
        )
        # Every step sees the whole source, so that NaN there is damage.
        if np.isnan(source).any():
            raise StoreError(f"{path}: source_relevance is NaN")
        number, first = (int(columns[name][rows.start]) for name in ("sentence", "step"))
        yield SentenceRelevance(number, first, source, prefix, probability_N[rows])


def write_relevance(folder: Path, split: str, sentences: int, path: Path) -> None:
    """Write the whole relevance of an evaluation set's first sentences as one shard."""
    parts: list[dict[str, np.ndarray]] = []
    for shard in shards(folder, split):
        columns = read_columns(shard, [*RELEVANCE_COLUMNS, PROBABILITY])
        rows = list(sentence_rows(columns["sentence"]))[:sentences]
        parts.append({name: values[: rows[-1].stop] for name, values in columns.items()})
        sentences -= len(rows)
        if not sentences:
            break
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    write_shard({n: list(v) if n.endswith("_relevance") else v for n, v in joined.items()}, path)


def _matrix(rows_T: np.ndarray, where: str) -> np.ndarray:
    """Return rows of relevance as a matrix; NaN is for words that a step cannot see.

    Raises:
        StoreError: rows have unlike lengths, or a number is infinite or too great to be summed.
    """
    lengths = {len(row) for row in rows_T}
    if len(lengths) != 1:
        raise StoreError(f"{where}: rows of one sentence differ in length: {sorted(lengths)}")
    values = np.stack(list(rows_T)).astype(np.float64)
    if (np.abs(values) > GREATEST).any():
        raise StoreError(f"{where}: a number is above {GREATEST:g}")
    return values
