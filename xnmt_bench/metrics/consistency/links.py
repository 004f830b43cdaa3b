"""Which words of a translation are linked to a mention, by eflomal or by a file of links."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyarrow as pa

from xnmt_bench.corpora.alignment import AlignmentFile, to_pharaoh
from xnmt_bench.corpora.consistency import Item, bare, pairs
from xnmt_bench.corpora.sentence import Links, Sentence
from xnmt_bench.corpora.text import present
from xnmt_bench.errors import NotApplicable
from xnmt_bench.metrics.aer.eflomal import align
from xnmt_bench.parquet import read_table, write_table
from xnmt_bench.store import Artefact, Store, file_hash, fingerprint

EFLOMAL = "eflomal"
FILE = "links.parquet"


def links(
    store: Store, how: str, items: Sequence[Item], texts: Sequence[str], more: Path | None = None
) -> tuple[Artefact, list[Links]]:
    """The links of every sentence, between words that stand between blanks.

    Args:
        store: that keeps them: eflomal has no seed, so another run's are others.
        how: `eflomal`, whose two directions are united, or a file in Pharaoh's form.
        items: of the suite.
        texts: their translations.
        more: a file of further sources and translations that eflomal learns from.

    Raises:
        DataError: the file has other sentences, or a link is out of range.
        NotApplicable: eflomal is not installed.
    """
    lengths = [(len(i.words), len(t.split())) for i, t in zip(items, texts, strict=True)]

    def work(folder: Path) -> dict[str, Any]:
        if how != EFLOMAL:
            found = [alignment.sure for alignment in AlignmentFile(Path(how)).read(lengths)]
        else:
            own = zip((item.source for item in items), texts, strict=True)
            forward, backward = align(
                _sentences(own), _sentences(pairs(more) if more else ()), folder
            )
            found = [one | two for one, two in zip(forward, backward, strict=True)]
        write_table(pa.table({"links": list(map(to_pharaoh, found))}), folder / FILE)
        return {}

    of = {"sources": [item.source for item in items], "translations": list(texts)}
    made = store.make(
        "consistency_links", work, version=1, cheap=True, of=fingerprint(of),
        made_by=_aligner() if how == EFLOMAL else file_hash(present(Path(how))),
        more=more and file_hash(present(more)),
    )  # fmt: skip
    return made, read_links(read_table(made.path / FILE)["links"].to_pylist())


def _aligner() -> str:
    """Eflomal and its version.

    Raises:
        NotApplicable: it is not installed.
    """
    try:
        return f"{EFLOMAL} {version(EFLOMAL)}"
    except PackageNotFoundError:
        raise NotApplicable("eflomal is not installed; pip install -e '.[align]'") from None


def read_links(lines: Sequence[str]) -> list[Links]:
    """Links of each line, as they are kept."""
    return [frozenset(map(_pair, line.split())) for line in lines]


def _sentences(texts: Iterable[tuple[str, str]]) -> list[Sentence]:
    """Pairs as they are aligned."""
    return [Sentence(_bare(x), _bare(y), str(n), 0) for n, (x, y) in enumerate(texts)]


def _bare(text: str) -> str:
    """As many words, without the punctuation at their ends, in lower case."""
    return " ".join(bare(word) or word for word in text.split())


def _pair(link: str) -> tuple[int, int]:
    source, _, target = link.partition("-")
    return int(source), int(target)


def linked(pairs: Links, sources: Sequence[int]) -> list[int]:
    """The target words of source words, in the order of these."""
    return list(dict.fromkeys(t for s, t in sorted(pairs) if s in sources))
