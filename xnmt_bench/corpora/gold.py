"""A corpus whose test split is a set of sentence pairs with gold word alignment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from xnmt_bench.corpora.alignment import AlignmentFile
from xnmt_bench.corpora.sentence import Corpus, Gold, Sentence, Split
from xnmt_bench.corpora.text import decode_line, lines
from xnmt_bench.errors import DataError
from xnmt_bench.store import file_hash

BETWEEN_SIDES = " ||| "  # of a file that holds both


def read_pairs(paths: Sequence[Path]) -> list[tuple[str, str]]:
    """Sentence pairs from two line-aligned files, or from one of `source ||| target` lines.

    Raises:
        DataError: unequal lengths, an empty side or a line without a separator, with file and line.
    """
    if len(paths) == 1:
        return [_pair(line, paths[0], n) for n, line in enumerate(lines(paths[0]), start=1)]
    source, target = (
        [decode_line(line, path, n).strip() for n, line in enumerate(lines(path), start=1)]
        for path in paths
    )
    if len(source) != len(target):
        short, longer = sorted((len(source), len(target)))
        path = paths[0] if len(source) == short else paths[1]
        raise DataError(path, short, f"the file ends here but the other side has {longer} lines")
    for path, side in zip(paths, (source, target), strict=True):
        for number, text in enumerate(side, start=1):
            if not text:
                raise DataError(path, number, "an empty line, so the pair has no words here")
    return list(zip(source, target, strict=True))


def _pair(line: bytes, path: Path, number: int) -> tuple[str, str]:
    source, separator, target = decode_line(line, path, number).partition(BETWEEN_SIDES)
    if not separator or not source.strip() or not target.strip():
        raise DataError(path, number, "not a line such as `source words ||| target words`")
    return source.strip(), target.strip()


class GoldCorpus(Corpus):
    """Trains and validates on another corpus, tests on gold-aligned pairs.

    The gold counts words between blanks, so the other corpus should be tokenised alike.

    Args:
        training: where the training and validation splits come from.
        text: two line-aligned files, source and target, or one of `source ||| target` lines.
        links: the alignment file.
        base: what its words are counted from.
        form: `pharaoh` (talp's `ipj` included) or `naacl`.
        reverse: the target side stands first in it.
        name: the corpus's name in results.

    Raises (when read):
        DataError: files that do not belong together, with file and line.
    """

    def __init__(
        self,
        training: Corpus,
        text: Sequence[str | Path],
        links: str | Path,
        base: int = 0,
        form: str = "pharaoh",
        reverse: bool = False,
        name: str = "gold",
    ) -> None:
        self.name = name
        self.source_language = training.source_language
        self.target_language = training.target_language
        self._training = training
        self._text = [Path(path) for path in text]
        self._links = AlignmentFile(Path(links), base, reverse, form=form)  # type: ignore[arg-type]

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Streams a split; each gold pair is a document of its own."""
        if split != "test":
            yield from self._training.sentences(split)
            return
        pairs = read_pairs(self._text)
        lengths = [(len(x.split()), len(y.split())) for x, y in pairs]
        alignments = self._links.read(lengths)
        for number, ((x, y), links) in enumerate(zip(pairs, alignments, strict=True)):
            yield Sentence(x, y, str(number), 0, Gold(links.sure, links.possible))

    def recipe(self) -> dict[str, Any]:
        """The training corpus's recipe, the bytes of the gold and how it is read."""
        return {
            "kind": "gold",
            "training": self._training.recipe(),
            "text": [file_hash(path) for path in self._text],
            "links": file_hash(self._links.path),
            "read": [self._links.base, self._links.form, self._links.reverse],
        }

    def raw(self, text: str, language: str) -> str:
        """As the training corpus has it, which is tokenised alike."""
        return self._training.raw(text, language)
