"""Word alignment by eflomal (Östling and Tiedemann 2016), an optional extra."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path

from xnmt_bench.corpora.formats.alignment import AlignmentFile
from xnmt_bench.corpora.sentence import Links, Sentence
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.errors import NotApplicable

MISSING = "eflomal is not installed; pip install -e '.[align]'"


def aligner() -> str:
    """Return eflomal and its version, which decide links.

    Raises:
        NotApplicable: it is not installed.
    """
    try:
        return f"eflomal {version('eflomal')}"
    except PackageNotFoundError:
        raise NotApplicable(MISSING) from None


def align(
    sentences: Sequence[Sentence], further: Iterable[Sentence], folder: Path
) -> tuple[list[Links], list[Links]]:
    """Return the forward and the backward links of sentences, both as (source, target).

    Eflomal samples from a seed of its own choosing, so another run gives slightly other links.

    Args:
        sentences: the sentences whose links are wanted.
        further: further sentences that eflomal learns from.
        folder: where its files lie while it runs.

    Raises:
        NotApplicable: eflomal is not installed.
    """
    try:
        from eflomal import Aligner
    except ImportError:
        raise NotApplicable(MISSING) from None
    texts = [folder / "source.txt", folder / "target.txt"]
    with texts[0].open("w", encoding="utf-8") as x, texts[1].open("w", encoding="utf-8") as y:
        # The sentences come first, so that their links are the first lines of the result.
        for sentence in chain(sentences, further):
            print(_line(sentence.source), file=x)
            print(_line(sentence.target), file=y)
    links = [folder / "forward.all", folder / "backward.all"]
    with texts[0].open(encoding="utf-8") as x, texts[1].open(encoding="utf-8") as y:
        Aligner().align(
            x, y, links_filename_fwd=str(links[0]), links_filename_rev=str(links[1]), quiet=True
        )
    forward, backward = (
        [pair.sure for pair in AlignmentFile(path).read()[: len(sentences)]] for path in links
    )
    # The folder becomes an artefact, which keeps links and no copy of the corpus.
    for path in (*texts, *links):
        path.unlink()
    return forward, backward


def _line(text: str) -> str:
    """Return the words of a text as a line that eflomal cuts at the same places."""
    # It cuts at every blank of Unicode, and a line end would move all that follow.
    return " ".join("".join(word.split()) or "_" for word in split_words(text))
