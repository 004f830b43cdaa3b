"""Examples by the name of their suite."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from xnmt_bench.corpora.formats.pecore import LANG_PAIR
from xnmt_bench.corpora.sentence import Corpus, lang_pair, languages
from xnmt_bench.corpora.suites.context.disc_eval_mt import read_disc_eval_mt
from xnmt_bench.corpora.suites.context.documents import read_documents
from xnmt_bench.corpora.suites.context.example import ExampleSet
from xnmt_bench.corpora.suites.context.scat import read_scat
from xnmt_bench.errors import XnmtError
from xnmt_bench.registry import unknown

DOCUMENTS, OWN, SCAT, DISC_EVAL_MT = "documents", "corpus", "scat", "disc_eval_mt"
PUBLISHED = (SCAT, DISC_EVAL_MT)  # both English to French


def find_examples(suite: str, corpus: Corpus, data: str | None, option: str) -> list[ExampleSet]:
    """Return the sets of a suite, as a corpus's sentences are written.

    Args:
        suite: `documents` (the corpus's test sentences, whose cues are not known), `corpus` (its
            own sets), `scat` or `disc_eval_mt`.
        corpus: what a system translates.
        data: the folder that holds `scat/` and `pecore/`.
        option: of the configuration that has `suite` and `data`, such as `metric.cues`.

    Raises:
        DataError: a file is missing, or not in its format.
        XnmtError: the suite is unknown or of another language pair, or the corpus has no sets.
    """
    if suite == DOCUMENTS:
        sets = [read_documents(corpus)]
        if not sets[0].examples:
            raise XnmtError(f"corpus {corpus.name}: no test sentence has one before it")
    elif suite == OWN:
        sets = corpus.cued("test")
        if not sets:
            names = " or ".join(PUBLISHED)
            raise XnmtError(
                f"corpus {corpus.name} has no sets with cues; name {names} ({option}.suite)"
            )
    elif suite not in PUBLISHED:
        raise XnmtError(f"{option}.suite: {unknown('suite', suite, (DOCUMENTS, OWN, *PUBLISHED))}")
    elif lang_pair(corpus) != LANG_PAIR:
        problem = f"{suite} is {LANG_PAIR}, but the system translates {lang_pair(corpus)}"
        raise XnmtError(f"{option}.suite: {problem}")
    elif data is None:
        problem = f"name the folder that holds scat/ and pecore/ ({option}.data=DIR)"
        raise XnmtError(f"{option}.suite={suite}: {problem}")
    else:
        write = (partial(corpus.words, language=language) for language in languages(corpus))
        if suite == SCAT:
            sets = read_scat(Path(data) / SCAT, *write)
        else:
            sets = read_disc_eval_mt(Path(data), *write)
    return sets
