"""Contrastive sets from files; their content shows the format."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from xnmt_bench.corpora.sentence import Corpus, Split, lang_pair, languages
from xnmt_bench.corpora.suites.contrastive.build import build
from xnmt_bench.corpora.suites.contrastive.disc_eval_mt import read_disc_eval_mt
from xnmt_bench.corpora.suites.contrastive.group import ContrastiveSet
from xnmt_bench.corpora.suites.contrastive.plain import read_plain
from xnmt_bench.corpora.suites.contrastive.published import (
    from_folder,
    from_records,
    from_voita,
    pair_of_records,
    records_of,
)
from xnmt_bench.corpora.text import plain_or_packed, present
from xnmt_bench.errors import DataError, XnmtError

# The published sets by name, each in a folder of that name. ContraPro is only for the test.
VOITA: dict[Split, tuple[str, ...]] = {
    "valid": ("deixis_dev", "lex_cohesion_dev"),
    "test": ("deixis_test", "lex_cohesion_test", "ellipsis_infl", "ellipsis_vp"),
}
VOITA_PAIR = "en-ru"
DISC_EVAL_MT = "disc_eval_mt"
NAMES = ("voita", "contrapro", DISC_EVAL_MT)
OWN, BUILT = "corpus", "build"  # sets that are in no file
ENTRY = re.compile(r"([^\s:/-]+-[^\s:/]+):(.+)")  # languages, and what they are of


def find_sets(
    names: Sequence[str],
    corpus: Corpus,
    split: Split,
    data: str | None = None,
    exchanged: str | None = None,
) -> list[ContrastiveSet]:
    """Return the sets of some names.

    Args:
        names: `corpus` (its own), `build` (made from its documents), or as `read_sets` has them.
        corpus: what a system is trained on.
        split: of the corpus, where sets are its own.
        data: the folder of published sets.
        exchanged: the table of forms that `build` exchanges.

    Raises:
        DataError: a file is not in its format.
        XnmtError: the corpus has no sets.
    """
    all_sets = []
    for name in names:
        if name == BUILT:
            sets = build(corpus, split, exchanged)
        elif name == OWN:
            sets = corpus.contrastive(split)
        else:
            sets = read_sets(name, data, split)
        # Before the next name: an empty set would vanish among the others.
        if not sets:
            raise XnmtError(
                f"corpus {corpus.name} has no contrastive sets; name voita, contrapro, "
                "disc_eval_mt, build or a file"
            )
        all_sets += sets
    return all_sets


def as_read(contrastive_set: ContrastiveSet, corpus: Corpus) -> ContrastiveSet:
    """Return a set as a corpus's sentences are written: tokenised and cased alike.

    Raises:
        XnmtError: it is of another language pair.
    """
    require_pair(contrastive_set, corpus)
    source, target = (partial(corpus.words, language=name) for name in languages(corpus))
    return contrastive_set.map(source, target)


def require_pair(contrastive_set: ContrastiveSet, corpus: Corpus) -> None:
    """Raise an XnmtError where a set is of another language pair than the corpus."""
    if contrastive_set.lang_pair != lang_pair(corpus):
        raise XnmtError(
            f"contrastive set {contrastive_set.name} is {contrastive_set.lang_pair}, but the "
            f"system translates {lang_pair(corpus)}"
        )


def read_sets(name: str, data: str | None = None, split: Split = "test") -> list[ContrastiveSet]:
    """Return the sets of a name or a path.

    Args:
        name: `voita`, `contrapro` or `disc_eval_mt`, in the folder of that name in `data`; or the
            path of a file in Voita's or ContraPro's format or in the plain form, or of ContraPro's
            folder. A file that does not say its languages has them before its path: `en-fr:FILE`.
        data: a folder.
        split: what it is for, where a published set has parts.

    Raises:
        DataError: no such file, or one that is not in its format, with its line or its group; or
            its languages are not known.
        XnmtError: a published set without the folder that it is in.
    """
    pair = None
    if (entry := ENTRY.fullmatch(name)) and not Path(name).exists():
        pair, name = entry.groups()
    if name in NAMES:
        if data is None:
            raise XnmtError(
                f"{name}: name the folder that holds {name}/ (metric.contrastive.data, "
                "nmt.training.contrastive_data)"
            )
        folder = Path(data) / name
        # To stop a training by the test set would spoil the test.
        if name != "voita" and split != "test":
            raise XnmtError(f"{name} has no validation set; name the path of another set")
        if name == DISC_EVAL_MT:
            return read_disc_eval_mt(folder)
        if name == "contrapro":
            return [from_folder(folder, pair)]
        paths = [plain_or_packed(folder / f"{part}.json") for part in VOITA[split]]
        return [_read_json(path, pair or VOITA_PAIR) for path in paths]
    path = Path(name)
    if path.is_dir() or path.name == "groups.tsv":
        return [from_folder(path if path.is_dir() else path.parent, pair)]
    # Among the suffixes, since the last of a packed file is .gz.
    if ".jsonl" in path.suffixes:
        return read_plain(path, pair)
    return [_read_json(path, pair)]


def _read_json(path: Path, pair: str | None) -> ContrastiveSet:
    """Return the set of a JSON file, whose records show its format."""
    records = records_of(present(path))
    first = records[0] if records and isinstance(records[0], dict) else {}
    # By what is in them: names of files say little.
    reader = from_voita if "dst" in first else from_records if "errors" in first else None
    if reader is None:
        problem = (
            "not a contrastive set: its first record has neither `dst` (Voita et al.) nor `errors` "
            "(ContraPro); the plain form ends in .jsonl"
        )
        raise DataError(path, None, problem)
    pair = pair or pair_of_records(records)
    if pair is None:
        problem = (
            f"the file does not name its languages; put them before the path, as in en-fr:{path}"
        )
        raise DataError(path, None, problem)
    return reader(path, records, pair)
