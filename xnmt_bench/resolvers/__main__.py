"""Resolves coreference in an English text file, one sentence a line, and counts its examples."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import IO

from xnmt_bench.corpora.sentence import Sentence
from xnmt_bench.corpora.text import packed_text, present, text_lines
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.errors import DataError, XnmtError
from xnmt_bench.registry import create, entries
from xnmt_bench.resolvers.examples import ExampleCounts, pair_with_clusters
from xnmt_bench.resolvers.markers import mark
from xnmt_bench.streams import standard_streams


def resolve_file(
    text: Path,
    resolver: str,
    path: Path | None = None,
    clusters_path: Path | None = None,
    marked_path: Path | None = None,
) -> ExampleCounts:
    """Resolve each line of a file, write the files that are named, and return the counts.

    Args:
        text: English, one sentence a line, plain or gzip.
        resolver: a plug-in's name.
        path: of its file, where it needs one.
        clusters_path: gets JSON lines of tokens and clusters, as the resolver `file` reads them;
            `.gz` is packed.
        marked_path: gets the sentences with markers, likewise.

    Raises:
        XnmtError: no such resolver, or one file is named for two things.
        DataError: a line holds a marker already, or a file is damaged or missing.
    """
    targets = [target.resolve() for target in (clusters_path, marked_path) if target]
    if len({*targets}) < len(targets):
        raise XnmtError(f"{clusters_path}: give different files for clusters and marked sentences")
    for source in (present(text), *([path] if path else [])):
        if source.resolve() in targets:
            raise XnmtError(f"{source}: this input file would be overwritten; give another file")
    options = {"path": str(path)} if path else {}
    plug_in = create("resolvers", resolver, **options)
    counts = ExampleCounts()
    with ExitStack() as files:
        # Opened before the first sentence, so that a path that cannot be written fails at once.
        clusters_file, marked_file = (
            files.enter_context(_open_for_writing(target)) if target else None
            for target in (clusters_path, marked_path)
        )
        for number, (sentence, clusters) in enumerate(
            pair_with_clusters(_sentences(text), plug_in), 1
        ):
            counts.add(sentence, clusters)
            # A sentence without a line is one that the resolver `file` does not know either.
            if clusters_file and clusters is not None:
                row = {"tokens": split_words(sentence.source), "clusters": clusters}
                clusters_file.write(json.dumps(row, ensure_ascii=False) + "\n")
            if marked_file:
                try:
                    marked_file.write(mark(sentence.source, clusters or ()).text + "\n")
                except ValueError as error:
                    raise DataError(text, number, str(error)) from None
    return counts


def _open_for_writing(path: Path) -> AbstractContextManager[IO[str]]:
    """Open a file to write, packed if it ends in `.gz`, as readers expect."""
    return packed_text(path) if path.suffix == ".gz" else path.open("w", encoding="utf-8")


def _sentences(path: Path) -> Iterator[Sentence]:
    return (Sentence(text.strip(), "", path.name, n - 1) for n, text in text_lines(path))


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m xnmt_bench.resolvers", description=__doc__)
    parser.add_argument("text", type=Path, help="English, one sentence a line; .gz is read too")
    names = ", ".join(entries("resolvers"))
    parser.add_argument("--resolver", default="learnt", help=f"one of {names}; learnt by default")
    parser.add_argument("--path", type=Path, help="the file of the resolver `file`")
    parser.add_argument(
        "--clusters", type=Path, help="write tokens and clusters here, as JSON lines"
    )
    parser.add_argument("--marked", type=Path, help="write the sentences with markers here")
    chosen = parser.parse_args(arguments)
    # Warnings go to the standard error; the standard output holds only the table.
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        counts = resolve_file(
            chosen.text, chosen.resolver, chosen.path, chosen.clusters, chosen.marked
        )
    except (XnmtError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print("| file | sentences | coref | gender |", "|---|---|---|---|", sep="\n")
    print(f"| {chosen.text.name} | {counts.sentences:,} | {counts.coref:,} | {counts.gender:,} |")
    if counts.unknown:
        print(f"{counts.unknown:,} sentences are unknown to the resolver", file=sys.stderr)
    return 0


if __name__ == "__main__":
    with standard_streams():
        status = main()
    sys.exit(status)
