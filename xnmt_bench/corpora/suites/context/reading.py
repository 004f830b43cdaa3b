"""Examples by the name of their suite."""

from __future__ import annotations

from xnmt_bench.corpora.sentence import Corpus
from xnmt_bench.corpora.suites.context.documents import read_documents
from xnmt_bench.corpora.suites.context.example import ExampleSet
from xnmt_bench.errors import XnmtError
from xnmt_bench.registry import unknown

DOCUMENTS, OWN = "documents", "corpus"
SUITES = (DOCUMENTS, OWN)


def find_examples(suite: str, corpus: Corpus, data: str | None = None) -> list[ExampleSet]:
    """Return the sets of a suite.

    Args:
        suite: `documents` (the corpus's test sentences), or `corpus` (its own sets).
        corpus: what a system is trained on.
        data: the folder of published files.

    Raises:
        XnmtError: there is no such suite, or the corpus has none.
    """
    if suite == DOCUMENTS:
        examples = read_documents(corpus)
        if not examples.examples:
            raise XnmtError(f"corpus {corpus.name}: no test sentence has one before it")
        return [examples]
    if suite == OWN:
        sets = corpus.cued("test")
        if not sets:
            raise XnmtError(f"corpus {corpus.name} has no sets with cues")
        return sets
    raise XnmtError(unknown("suite", suite, SUITES))
