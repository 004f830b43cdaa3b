"""Which words of a translation are linked to a mention: by eflomal, by a file, by relevance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyarrow as pa

from xnmt_bench.corpora.alignment import AlignmentFile, to_pharaoh
from xnmt_bench.corpora.consistency import bare, pairs
from xnmt_bench.corpora.sentence import Corpus, Links, Sentence
from xnmt_bench.corpora.text import present
from xnmt_bench.corpora.tokens import align_tokens
from xnmt_bench.dumps import Tokens
from xnmt_bench.errors import NotApplicable
from xnmt_bench.metrics.aer.eflomal import align
from xnmt_bench.metrics.aer.links import best_links
from xnmt_bench.parquet import read_table, write_table
from xnmt_bench.pipeline.weighed import Weighings, readable
from xnmt_bench.store import Artefact, Store, file_hash, fingerprint

EFLOMAL, GOLD, EXPLAINER = WAYS = ("eflomal", "gold", "explainer")
TRAIN = "train"
FILE = "links.parquet"
Pairs = Mapping[int, tuple[str, str]]  # source and translation by the sentence's number


def links(
    store: Store, how: str, said: Pairs, more: Path | Corpus | None = None
) -> tuple[Artefact, dict[int, Links]]:
    """The links of every sentence, between words that stand between blanks.

    Args:
        store: that keeps them: eflomal has no seed, so another run's are others.
        how: `eflomal`, whose two directions are united, or a file in Pharaoh's form.
        said: what is linked.
        more: what else eflomal learns from: a file of sources and translations, or a corpus's
            training sentences.

    Raises:
        DataError: the file has other sentences, or a link is out of range.
        NotApplicable: eflomal is not installed.
    """

    def work(folder: Path) -> dict[str, Any]:
        if how != EFLOMAL:
            lengths = [(len(x.split()), len(y.split())) for x, y in said.values()]
            found = [alignment.sure for alignment in AlignmentFile(Path(how)).read(lengths)]
            return _written(dict(zip(said, found, strict=True)), folder)
        spoken = {n: pair for n, pair in said.items() if pair[1].strip()}
        wanted = list(_sentences(spoken.values()))
        forward, backward = align(wanted, _sentences(_more(more)), folder)
        united = {n: one | two for n, one, two in zip(spoken, forward, backward, strict=True)}
        return _written({n: united.get(n, frozenset()) for n in said}, folder)

    made = store.make(
        "consistency_links", work, version=2, cheap=True,
        of=fingerprint({"pairs": [[n, *pair] for n, pair in said.items()]}),
        made_by=_aligner() if how == EFLOMAL else file_hash(present(Path(how))),
        more=more.recipe() if isinstance(more, Corpus) else more and file_hash(present(more)),
    )  # fmt: skip
    return made, read_links(made.path / FILE)


def of_relevance(
    store: Store, weighings: Weighings, said: Pairs
) -> tuple[Artefact, dict[int, Links]]:
    """The best source word of each target word by relevance, of the sentences that are explained.

    Args:
        store: that keeps them.
        weighings: of these translations, on words as the system cuts them.
        said: what is linked.
    """

    def work(folder: Path) -> dict[str, Any]:
        found = {}
        for one in readable(weighings):
            best = best_links(one.weights_TS, list(one.source.words), list(one.target.words))
            source, target = (
                carried(tokens, text.split())
                for tokens, text in zip((one.source, one.target), said[one.number], strict=True)
            )
            found[one.number] = frozenset(
                (s, t) for i, j in best for s in source.get(i, ()) for t in target.get(j, ())
            )
        return _written(found, folder)

    made = store.make(
        "consistency_links", work, version=2, cheap=True, made_by=weighings.fingerprint,
        of=fingerprint({"pairs": [[n, *pair] for n, pair in said.items()]}),
    )  # fmt: skip
    return made, read_links(made.path / FILE)


def of_gold(store: Store, sentences: Mapping[int, Sentence]) -> tuple[Artefact, dict[int, Links]]:
    """The sure links of annotated sentences.

    Raises:
        NotApplicable: there are none.
    """
    found = {n: s.gold.sure for n, s in sentences.items() if s.gold}
    if not any(found.values()):
        raise NotApplicable("these sentences have no gold word alignment")
    told = fingerprint({"links": [[n, to_pharaoh(own)] for n, own in found.items()]})
    made = store.make(
        "consistency_links", lambda folder: _written(found, folder), version=2, cheap=True, of=told
    )
    return made, read_links(made.path / FILE)


def linked(pairs: Links, sources: Sequence[int]) -> list[int]:
    """The target words of source words, in the order of these."""
    return list(dict.fromkeys(t for s, t in sorted(pairs) if s in sources))


def from_pharaoh(text: str) -> Links:
    """Links as they are kept."""
    ends = (link.split("-") for link in text.split())
    return frozenset((int(source), int(target)) for source, target in ends)


def read_links(path: Path) -> dict[int, Links]:
    """The links of each sentence."""
    columns = read_table(path).to_pydict()
    return dict(zip(columns["sentence"], map(from_pharaoh, columns["links"]), strict=True))


def _written(found: Mapping[int, Links], folder: Path) -> dict[str, Any]:
    columns = {"sentence": list(found), "links": list(map(to_pharaoh, found.values()))}
    write_table(pa.table(columns), folder / FILE)
    return {}


def _aligner() -> str:
    """Eflomal and its version.

    Raises:
        NotApplicable: it is not installed.
    """
    try:
        return f"{EFLOMAL} {version(EFLOMAL)}"
    except PackageNotFoundError:
        raise NotApplicable("eflomal is not installed; pip install -e '.[align]'") from None


def _more(more: Path | Corpus | None) -> Iterator[tuple[str, str]]:
    if isinstance(more, Corpus):
        yield from ((s.source, s.target) for s in more.sentences("train"))
    elif more is not None:
        yield from pairs(more)


def _sentences(texts: Iterable[tuple[str, str]]) -> Iterator[Sentence]:
    """Pairs as they are aligned."""
    for number, (source, target) in enumerate(texts):
        yield Sentence(_bare(source), _bare(target), str(number), 0)


def _bare(text: str) -> str:
    """As many words, without the punctuation at their ends, in lower case."""
    return " ".join(bare(word) or word for word in text.split())


def carried(tokens: Tokens, words: Sequence[str]) -> dict[int, list[int]]:
    """Of each of a system's words, which of a text's it is part of or holds.

    Both are cuts of one text, so letters tell; else the cheapest edits do.
    """
    own = tokens.text.split()
    if "".join(own) != "".join(words):
        return {i: [j] for i, j in align_tokens(own, words)}
    ours, theirs = (
        [n for n, word in enumerate(cut) for _ in word] for cut in (own, words)
    )  # of each letter, its word
    found: dict[int, list[int]] = {}
    for i, j in dict.fromkeys(zip(ours, theirs, strict=True)):
        found.setdefault(i, []).append(j)
    return found
