"""The stage from a system to its own translations; outputs are those, or what a file holds."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from xnmt_bench.corpora.passage import concatenated
from xnmt_bench.corpora.sentence import Corpus, Sentence, Split, languages
from xnmt_bench.corpora.vocabulary.encoded import EncodedSide, EncodedSplit, SideWriter
from xnmt_bench.corpora.vocabulary.subwords import EOS, SEPARATOR, Tied
from xnmt_bench.device import Room, device_of
from xnmt_bench.engine import make_shards
from xnmt_bench.errors import StoreError, XnmtError
from xnmt_bench.lazy import Lazy
from xnmt_bench.nmt.batching import buckets
from xnmt_bench.nmt.decoding import length_limit, translate, warn_of_unended
from xnmt_bench.nmt.passages import SEARCHED
from xnmt_bench.pipeline.system import System
from xnmt_bench.pipeline.texts import Texts, name_sentences
from xnmt_bench.progress import inside
from xnmt_bench.store import (
    Stage,
    Store,
    Work,
    is_sealed,
    seal,
    unlink_sealed,
    write_atomically,
)

log = logging.getLogger(__name__)

SHARD = 500  # sentences at least: the unit of resuming
FARTHEST = 3  # sentences back that a context may begin


@dataclass(frozen=True)
class Outputs:
    """Translations of a test set, as words between blanks, with what they are translations of.

    Attributes:
        corpus: where the sentences are from.
        test_set: what `number_N` counts in.
        number_N: of each sentence in the corpus.
        sentences: sources and references.
        texts: the translation of each.
        fingerprint: of the translations.
    """

    corpus: Corpus
    test_set: str
    number_N: np.ndarray
    sentences: list[Sentence]
    texts: list[str]
    fingerprint: str

    @property
    def which(self) -> str:
        """How many sentences these are, and which; see `name_sentences`."""
        return name_sentences(self.number_N)

    def raw(self) -> tuple[list[str], list[str], list[str]]:
        """Return sources, translations and references as they were before tokenisation."""
        raw, (source, target) = self.corpus.raw, languages(self.corpus)
        return (
            [raw(s.source, source) for s in self.sentences],
            [raw(text, target) for text in self.texts],
            [raw(s.target, target) for s in self.sentences],
        )


class Translations(Lazy):
    """A system's own translations of texts, with `beam` hypotheses kept; 1 is greedy."""

    def __init__(
        self, store: Store, system: System, texts: Texts, beam: int, progress: bool
    ) -> None:
        self.system, self.texts = system, texts
        self._store, self._beam, self._progress = store, beam, progress

    def made(self, name: Split, sentences: int | None = None) -> Stage:
        """Return the translations of a split's first sentences; of the test set always of all."""
        # Some metrics want the whole test set, and it shall not be translated a second time.
        count = len(self.texts.split(name)) if name == "test" or sentences is None else sentences
        return self._store.stage(
            "translation",
            partial(self._translate, name, count),
            version=9,
            amount=Work(self.system.name, count, "sentences"),
            model=self.system,
            encoded=self.texts.encoded[name],
            beam=self._beam,
            split=name,
            sentences=count,
            drawn=self.texts.seed if name == "train" else None,
        )

    def outputs(self) -> Outputs:
        """Return those of the test set."""
        artefact, texts = self.made("test"), self.texts
        path, number_N = artefact.path / "test.txt", texts.split("test").number
        translations = _lines(path)
        if len(translations) != len(number_N):
            raise StoreError(
                f"{path}: {len(translations)} lines, but the test set has {len(number_N)} sentences"
            )
        return Outputs(
            texts.corpus,
            texts.test_set,
            number_N,
            texts.sentences("test"),
            translations,
            artefact.fingerprint,
        )

    def split(self, name: Split, sentences: int) -> EncodedSplit:
        """Return a split's first sentences with the system's translations as targets.

        A translation without a word, and one that is longer than the system reads once it is cut
        into subwords anew, is left out; of a system that reads a context none is, since each is the
        context of others. A context on both sides is as long on either.

        Raises:
            XnmtError: none is left.
        """
        folder = self.made(name, sentences).path
        split = replace(self.texts.drawn(name), target=EncodedSide.open(folder / name))
        if self._has_own_context:
            split = replace(split, source=EncodedSide.open(folder / f"{name}.source"))
        if self.texts.context.sentences:
            return split.taken(np.arange(sentences))
        kept = np.flatnonzero(self._readable(split.target)[:sentences])
        if not len(kept):
            raise XnmtError(
                f"{self.system.name}: every translation of the {name} split is empty or too long "
                "to be read"
            )
        return split.taken(kept)

    def _readable(self, target: EncodedSide) -> np.ndarray:
        """Return which translations have a word and are as short as the system reads, (N,)."""
        lengths_N = target.lengths()
        return (lengths_N > 1) & (lengths_N <= self._longest)  # EOS does not count

    def describe_left_out(self, name: Split, sentences: int) -> list[str]:
        """Return a doubt about translations of a split's first sentences that were left out."""
        left_out = sentences - len(self.split(name, sentences))
        translations = f"{left_out} of {sentences} of the system's own translations"
        problem = "have no word or are longer than the system reads, and are left out"
        return [f"{translations} {problem}"] if left_out else []

    @property
    def _has_own_context(self) -> bool:
        """Whether translations stand behind the system's own translations."""
        return bool(self.texts.context.sentences and self.texts.context.target)

    def _own_depth(self, name: Split, index: int) -> int:
        """Return how many of its own translations may stand before a translation."""
        return self.texts.depth(name, index) if self._has_own_context else 0

    def _count_read(
        self, name: Split, index: int, before: Sequence[Sequence[int]], length: int = 0
    ) -> int:
        """Return how many of the own translations before a translation the system reads.

        A context that is longer than the system reads loses its farthest sentences, so that a
        translation up to its limit has room.

        Args:
            name: the split.
            index: of the sentence in it.
            before: ids of the translations of its context, without EOS, the nearest last.
            length: ids of its translation with EOS, once they are known.
        """
        room = self._longest - max(length_limit(self.texts.drawn(name).source[index]), length)
        lengths_N = np.array([len(ids) + 1 for ids in before])  # a separator closes each
        return int((lengths_N[::-1].cumsum() <= room).sum())

    def _source(self, name: Split, index: int, count: int) -> Tied:
        """Return a source behind only the nearest sentences of its context, as many as own ones."""
        source, examples = self.texts.drawn(name).source, len(self.texts.subwords[0].in_front)
        ids, words = source[index], source.words(index)
        if lost := self._own_depth(name, index) - count:
            # Examples of a prompt stand before the context.
            ends = [0, *(np.flatnonzero(ids == SEPARATOR) + 1)]
            farthest = slice(ends[examples], ends[examples + lost])
            ids, words = np.delete(ids, farthest), np.delete(words, farthest)
        return Tied(ids.tolist(), words.tolist())

    def _cut(self, ids: Sequence[int], room: float) -> list[int]:
        """Return a translation without EOS, short enough to be read as the text that it is."""
        subwords = self.system.model.target_subwords
        kept = [t for t in ids if t != EOS]  # a translation that was cut at its limit lacks it
        # Without a context, what is too long is left out.
        if self.texts.context.sentences and room < np.inf:
            while kept and len(subwords.encode(subwords.decode(kept))) + 1 > room:
                kept.pop()
        return kept

    @property
    def _longest(self) -> float:
        """How many ids of a target the system reads, EOS and context included."""
        longest = self.system.model.longest_target
        return np.inf if longest is None else longest

    def _translate(self, name: Split, sentences: int, folder: Path) -> None:
        """Translate a split's first sentences, shard by shard; one that is there is left alone."""
        # A sentence's context has to be translated first, so places in documents order the work.
        places = self.texts.places(name)[self.texts.order(name)[:sentences]]
        if not self.texts.context.target:  # nothing has to be translated before anything else
            places = np.zeros_like(places)
        shards, room = _shards(places), Room(None, **SEARCHED)
        paths = [folder / f"{name}.{number:05}.part" for number in range(len(shards))]

        def make(numbers: Sequence[int]) -> Iterator[int]:
            for number in numbers:
                work = partial(self._translated, name, places, shards[number], number)
                lines = room.tried(device_of(self.system.model), work)
                write_atomically(paths[number], "".join(f"{line}\n" for line in lines))
                seal(paths[number])
                yield number

        make_shards(folder, name, paths, make, "translating", self._progress, is_sealed)
        with (folder / f"{name}.txt").open("wb") as file:
            for path in paths:  # as bytes, since a text would lose other line ends
                file.write(path.read_bytes())
        self._encode(name, folder)
        for path in paths:
            unlink_sealed(path)

    def _translated(
        self, name: Split, places: np.ndarray, shard: range, number: int, batch_tokens: int
    ) -> list[str]:
        """Return a shard's sentences, those of a document one after the other.

        Where the target has a context, it is the system's own translations of it.
        """
        split, model = self.texts.drawn(name), self.system.model
        outputs, every = dict[int, list[int]](), list[list[int]]()
        # Of sources, since targets are not known yet.
        lengths = np.array([len(split.source[i]) for i in shard])
        places_U = places[shard.start : shard.stop]
        # A sentence's context has to be translated before it: by place in the document.
        groups = (
            group
            for place in range(int(places_U.max()) + 1)
            for group in buckets(lengths, np.flatnonzero(places_U == place), batch_tokens)
        )
        for group in inside(groups, len, len(shard), number):
            batch = [shard[i] for i in group]
            before = [[outputs[j] for j in range(i - self._own_depth(name, i), i)] for i in batch]
            counts = [self._count_read(name, *row) for row in zip(batch, before, strict=True)]
            contexts = [x[len(x) - n :] for x, n in zip(before, counts, strict=True)]
            prefixes = [[t for ids in context for t in (*ids, SEPARATOR)] for context in contexts]
            sources = [self._source(name, *row).ids for row in zip(batch, counts, strict=True)]
            translated = translate(model, sources, self._beam, prefixes=prefixes)
            for i, prefix, ids in zip(batch, prefixes, translated, strict=True):
                outputs[i] = self._cut(ids, self._longest - len(prefix))
            every += translated
        warn_of_unended(every)
        # A translation is a line of a file; a vocabulary of bytes can write a line's end.
        return [model.target_subwords.decode(outputs[i]).replace("\n", " ") for i in shard]

    def _encode(self, name: Split, folder: Path) -> None:
        """Write translations as ids too, each behind its own context."""
        target, before = self.texts.subwords[1], deque[Tied](maxlen=FARTHEST)
        with ExitStack() as stack:
            text = stack.enter_context(
                (folder / f"{name}.txt").open(encoding="utf-8", newline="\n")
            )
            writer, shorter = SideWriter(stack, folder / name), 0
            source = SideWriter(stack, folder / f"{name}.source") if self._has_own_context else None
            for i, line in enumerate(text):
                # Encoded from text, so that ids are those which this text always has.
                tied, depth = target.tie(line.rstrip("\n")), self._own_depth(name, i)
                # As the system reads them when they are explained: its own translations are the
                # context.
                context = [*before][len(before) - depth :]
                count = self._count_read(name, i, [x.ids for x in context], len(tied.ids) + 1)
                writer.write(concatenated(context[depth - count :], tied))
                if source:
                    source.write(self._source(name, i, count))
                shorter += count < depth
                before.append(tied)
        if shorter:
            log.warning(
                "%s: %d contexts of own translations are longer than the system reads; their "
                "farthest sentences are left out",
                name,
                shorter,
            )


def _shards(places: np.ndarray) -> list[range]:
    """Split sentences into shards; a document lies in one, since its sentences are contexts."""
    starts = [0]
    for start in np.flatnonzero(places == 0).tolist():
        # Only at a document's beginning, so shards are at least this long.
        if start - starts[-1] >= SHARD:
            starts.append(start)
    return [range(*ends) for ends in pairwise((*starts, len(places)))]


def _lines(path: Path) -> list[str]:
    # Not `splitlines`, which also cuts at characters that a translation may hold.
    return path.read_bytes().decode().split("\n")[:-1]
