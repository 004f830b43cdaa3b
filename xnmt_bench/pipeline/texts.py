"""The stage from a corpus to ids."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from xnmt_bench.corpora.passage import Context
from xnmt_bench.corpora.sentence import Corpus, Gold, Sentence, Split, lang_pair
from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit, encode
from xnmt_bench.corpora.vocabulary.subwords import SEPARATOR, Subwords
from xnmt_bench.errors import XnmtError
from xnmt_bench.lazy import Lazy
from xnmt_bench.store import Stage, Store, fingerprint

log = logging.getLogger(__name__)


class Texts(Lazy):
    """A corpus as ids of two vocabularies, with what the corpus knows of each sentence.

    Args:
        store: where the ids go.
        corpus: the sentences.
        write: returns the corpus as the system reads it, such as with markers; called once the
            ids are needed.
        read_subwords: returns the vocabularies of both sides; called once they are needed, since
            it may train them.
        max_length: subwords of a sentence on either side; longer pairs are left out.
        read_longest: returns how many subwords of source and target the system can read, with
            their context; None for any number.
        context: which sentences stand around each sentence.
        splits: which of the corpus's splits there are.
        seed: of the order in which training sentences are drawn to be explained.
    """

    def __init__(
        self,
        store: Store,
        corpus: Corpus,
        write: Callable[[Corpus], Corpus],
        read_subwords: Callable[[], tuple[Subwords, Subwords]],
        max_length: int,
        read_longest: Callable[[], tuple[int | None, int | None]],
        context: Context,
        splits: Sequence[Split],
        seed: int = 0,
    ) -> None:
        self.corpus, self.context, self.seed = corpus, context, seed
        self._write, self._read_subwords = write, read_subwords
        self._store, self._max_length, self._splits = store, max_length, tuple(splits)
        self._read_longest = read_longest

    @cached_property
    def subwords(self) -> tuple[Subwords, Subwords]:
        """The vocabularies of both sides."""
        return self._read_subwords()

    @cached_property
    def encoded(self) -> dict[Split, Stage]:
        """Each split as ids; what is learnt from one of them is the same beside any other."""
        corpus, readable = self._write(self.corpus), self._read_longest()
        return {split: self._encode(corpus, split, readable) for split in self._splits}

    def _encode(
        self, corpus: Corpus, split: Split, readable: tuple[int | None, int | None]
    ) -> Stage:
        subwords, longest, context = self.subwords, self._max_length, self.context
        return self._store.stage(
            "encoded",
            lambda folder: encode(corpus, *subwords, longest, folder, context, [split], readable),
            version=5,
            corpus=corpus.recipe(split),
            subwords=subwords,
            max_length=longest,
            context=asdict(context),
            split=split,
            readable=readable if any(readable) else None,
        )

    @cached_property
    def _folders(self) -> dict[Split, Path]:
        """The folder of each split's ids; all are looked at, before anything is learnt from one.

        Raises:
            XnmtError: a split has no sentence pair.
        """
        for split, stage in self.encoded.items():
            counts = stage.facts[split]
            if problems := describe_left_out(counts, self._max_length):
                log.warning("%s: %s", split, problems)
            if shorter := counts.get("shorter_context"):
                there = f"{shorter} of {counts['kept']} contexts are longer than the system reads"
                log.warning("%s: %s; their farthest sentences are left out", split, there)
            if not counts["kept"]:
                lost = f": {problems}" if problems else ""
                raise XnmtError(f"{self.corpus.name}: the {split} split has no sentence pair{lost}")
        return {split: stage.path for split, stage in self.encoded.items()}

    @cached_property
    def _open(self) -> dict[Split, EncodedSplit]:
        return {}

    @cached_property
    def _drawn(self) -> dict[Split, EncodedSplit]:
        return {}

    @cached_property
    def _orders(self) -> dict[Split, np.ndarray]:
        return {}

    def split(self, name: Split) -> EncodedSplit:
        """Return a split as ids; an XnmtError where a split has no sentence pair."""
        if name not in self._open:  # a file is mapped once
            self._open[name] = EncodedSplit.open(self._folders[name], name)
        return self._open[name]

    def order(self, name: Split) -> np.ndarray:
        """Return indices of a split in the order in which it is explained.

        Training sentences are drawn at random (Li et al. 2020, on sample size), so that the first n
        of them are a sample of all; those of a document whose sentences are context stay together.
        The test set keeps its order.
        """
        if name not in self._orders:
            order = np.arange(len(self.split(name)))
            if name == "train":
                starts = np.flatnonzero(self.places(name) == 0)  # where documents begin
                documents = np.split(order, starts[1:])
                # Whole documents are drawn: a translation's context has to be among what is
                # translated.
                drawn = np.random.default_rng(self.seed).permutation(len(documents))
                order = np.concatenate([documents[n] for n in drawn])
            self._orders[name] = order
        return self._orders[name]

    def drawn(self, name: Split) -> EncodedSplit:
        """Return a split as ids, in the order in which it is explained."""
        if name not in self._drawn:
            split = self.split(name)
            self._drawn[name] = split.taken(self.order(name)) if name == "train" else split
        return self._drawn[name]

    def sentences(self, name: Split, count: int | None = None) -> list[Sentence]:
        """Return the sentences of a split that have ids, in order; the first `count`, if given."""
        kept = set(self.split(name).number[:count].tolist())
        # Numbers count all of the corpus's sentences, also those that were too long for ids.
        return [s for number, s in enumerate(self.corpus.sentences(name)) if number in kept]

    def gold(self, name: Split) -> dict[int, Gold]:
        """Return the annotation of a split's sentences by number; empty where there is none."""
        sentences = enumerate(self.corpus.sentences(name))
        return {number: s.gold for number, s in sentences if s.gold is not None}

    def depth(self, name: Split, index: int) -> int:
        """Return how many sentences stand before a sentence of `drawn` in its concatenation."""
        if not self.context.sentences:
            return 0
        examples = len(self.subwords[0].in_front)  # of a prompt, each closed by a separator
        return int((self.drawn(name).source[index] == SEPARATOR).sum()) - examples

    def places(self, name: Split) -> np.ndarray:
        """Return each sentence's place in its document; 0 for all where no context is read."""
        if not self.context.sentences:
            return np.zeros(len(self.split(name)), dtype=np.int64)
        places: list[int] = []
        document = None  # not a document's name, so the first sentence opens one
        for sentence in self.sentences(name):
            places.append(places[-1] + 1 if sentence.document == document else 0)
            document = sentence.document
        return np.asarray(places)

    @cached_property
    def training_text(self) -> str:
        """How many training pairs there are, and which, such as `29,000 (3fa2c1)`."""
        digest = fingerprint(self.encoded["train"].artefact.files)
        return f"{len(self.split('train')):,} ({digest[:6]})"

    @cached_property
    def test_set(self) -> str:
        """What a test sentence's number counts in: the same for every corpus with this test set."""
        return test_set(self.corpus)


def describe_left_out(counts: Mapping[str, int], longest: int) -> str:
    """Return how many pairs of a split were left out, and why; empty where all were kept.

    Args:
        counts: of the split's pairs; see `encode`.
        longest: subwords that a pair may have on a side.
    """
    reasons = {
        "too_long": f"have more than {longest} subwords",
        "unreadable": "have no word on a side or are longer than the system reads",
    }
    every = sum(counts[n] for n in ("kept", *reasons))
    parts = [f"{counts[n]} of {every} pairs {why}" for n, why in reasons.items() if counts[n]]
    return " and ".join(parts) + (" and are left out" if parts else "")


def test_set(corpus: Corpus) -> str:
    """Name the test set of a corpus by all that its sentences hold, without its training data.

    Documents and gold annotation count too: under another gold the same text is another task.
    """
    digest = hashlib.sha256()
    for sentence in corpus.sentences("test"):
        # Text and no ids: two systems with other vocabularies share a test set.
        digest.update(f"{sentence.source}\t{sentence.target}\t{sentence.position}\n".encode())
        if sentence.gold is not None:
            digest.update(_canonical(sentence.gold).encode())
    return f"{lang_pair(corpus)} test {digest.hexdigest()[:16]}"


def _canonical(value: Any) -> str:
    """Return an annotation as text that is the same in every process: sets are sorted."""
    if is_dataclass(value):
        return f"({', '.join(_canonical(getattr(value, f.name)) for f in fields(value))})"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(_canonical, value)))}}}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_canonical, value))}]"
    return repr(value)


def name_sentences(number_N: np.ndarray) -> str:
    """Return how many sentences of a test set these are, and which, such as `60 (3fa2c1)`."""
    digest = hashlib.sha256(",".join(map(str, number_N.tolist())).encode()).hexdigest()
    return f"{len(number_N):,} ({digest[:6]})"
