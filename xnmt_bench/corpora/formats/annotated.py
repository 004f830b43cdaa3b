"""Translations that people have annotated: a CSV of source, translation, reference and labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xnmt_bench.corpora.sentence import Corpus, Sentence, Split
from xnmt_bench.corpora.text import csv_rows, visible
from xnmt_bench.corpora.view import CorpusView
from xnmt_bench.errors import DataError
from xnmt_bench.store import file_hash

SOURCE, TRANSLATION, REFERENCE = NEEDED = ("src", "mt", "ref")
NOT_LABELS = (*NEEDED, "")
LABELS = {"0": False, "0.0": False, "1": True, "1.0": True}  # as tables of others write them


@dataclass(frozen=True)
class Annotated:
    """One of them.

    Attributes:
        source, translation, reference: as they were written.
        labels: whether each is given, by name.
    """

    source: str
    translation: str
    reference: str
    labels: dict[str, bool]


def read_annotated(path: Path) -> list[Annotated]:
    """Read a CSV with a header: `src`, `mt`, `ref`, and labels of 0 and 1.

    A label is a column whose first cell is 0 or 1; others, and one without a name, are left alone.

    Raises:
        DataError: a column is missing or a label neither 0 nor 1, with file and line.
    """
    annotated: list[Annotated] = []
    names: list[str] | None = None  # of labels
    for line, cells in csv_rows(path, NEEDED):
        # Other columns, such as a comment, give None here.
        values = {name: LABELS.get(cell) for name, cell in cells.items() if name not in NOT_LABELS}
        if names is None:
            # The first row decides which columns are labels; all others have to follow.
            names = [name for name, value in values.items() if value is not None]
        if wrong := [name for name in names if values[name] is None]:
            reason = "the first row makes the column a label; remove the column if it is not one"
            problem = f"{wrong[0]}: {cells[wrong[0]]!r} is neither 0 nor 1 ({reason})"
            raise DataError(path, line, problem)
        for name in (SOURCE, REFERENCE):
            if not visible(cells[name]):
                raise DataError(path, line, f"{name} is empty")
        labels = {name: bool(values[name]) for name in names}
        annotated.append(Annotated(cells[SOURCE], cells[TRANSLATION], cells[REFERENCE], labels))
    return annotated


class AnnotatedCorpus(CorpusView):
    """Sources and references of annotated translations, as a system's corpus writes its texts.

    Args:
        path: the CSV.
        like: the system's corpus, whose languages and tokenisation they get.
    """

    def __init__(self, path: Path, like: Corpus) -> None:
        # Never generated, not even with a toy corpus: such a file is of real translations.
        super().__init__(like)
        self.name, self.generated = path.name.removesuffix(".gz"), False
        self.rows, self._path = read_annotated(path), path

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Yield the test set; each sentence is a document of its own."""
        if split == "test":
            for number, row in enumerate(self.rows):
                source = self.corpus.words(row.source, self.source_language)
                target = self.corpus.words(row.reference, self.target_language)
                # Sentences of such files come from anywhere, so that none is another's context.
                yield Sentence(source, target, f"{self.name} {number}", 0)

    def translations(self) -> list[str]:
        """Return the annotated translations, one a sentence."""
        return [self.corpus.words(row.translation, self.target_language) for row in self.rows]

    def recipe(self, split: Split | None = None) -> dict[str, Any]:
        """Return the file, and how it is tokenised."""
        like = self.corpus.recipe()
        return {"kind": "annotated", "file": file_hash(self._path), "like": like}

    def counts(self) -> Iterator[str]:
        """Return no counts: those of the system's corpus are of other sentences."""
        # An empty iterator and not an error, since every job asks a corpus for its counts.
        return iter(())
