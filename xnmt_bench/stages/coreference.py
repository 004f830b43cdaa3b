"""The stages from a trained context-aware system to attention over coreference links."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import torch
from rich.progress import track

from xnmt_bench.corpora.function_words import function_words
from xnmt_bench.corpora.parcorfull import carried
from xnmt_bench.corpora.sentence import Gold, Sentence
from xnmt_bench.corpora.sentence import Mention as WordMention
from xnmt_bench.corpora.subwords import EOS, SEPARATOR, Subwords
from xnmt_bench.corpora.tokens import align_tokens
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.explainers.attention import Attention
from xnmt_bench.explainers.base import reference
from xnmt_bench.metrics.coref_attention import CorefScores, Mention, significant
from xnmt_bench.metrics.links import membership
from xnmt_bench.nmt.base import Batch
from xnmt_bench.parquet import write_table
from xnmt_bench.report.coref_heatmap import Example
from xnmt_bench.stages.explained import EVALUATED, Explained, code_hash
from xnmt_bench.stages.systems import VERSIONS, plain
from xnmt_bench.store import Artefact, write_atomically

Side = Literal["source", "target"]
SIDES: tuple[Side, ...] = ("source", "target")
EXAMPLES = "examples.json"


@dataclass(frozen=True)
class Spoken:
    """One sentence on one side, as the system reads or wrote it.

    Attributes:
        ids: its subwords, without separators and EOS.
        words: its words.
        mentions: coreference mentions on them.
    """

    ids: list[int]
    words: list[str]
    mentions: tuple[Mention, ...]


class Coreference(Explained):
    """Weights between the mentions of a sentence and those of its context, and their scores."""

    @cached_property
    def _sentences_explained(self) -> list[Sentence]:
        """The test sentences that the system has translated, in order.

        Raises:
            NotApplicable: the system reads no context, or nobody annotated mentions.
        """
        if not self.config.nmt.context.sentences:
            raise NotApplicable(f"{self.config.nmt.name} reads no context")
        kept = set(self.split(EVALUATED).number[: self._sentences(EVALUATED)].tolist())
        found = [s for n, s in enumerate(self.corpus.sentences(EVALUATED)) if n in kept]
        if not any(s.gold and (s.gold.source_mentions or s.gold.target_mentions) for s in found):
            raise NotApplicable(f"corpus {self.corpus.name} has no coreference chains")
        return found

    @cached_property
    def _outputs(self) -> list[str]:
        """The system's own translations of them."""
        path = self.translation.path / "test.txt"
        return path.read_text(encoding="utf-8").split("\n")

    @cached_property
    def spoken(self) -> dict[Side, list[Spoken]]:
        """Both sides of every sentence: the corpus's source, and the system's own target.

        Mentions of the reference are carried over to the system's output by edit distance.
        """
        source, target = self.subwords
        sides: dict[Side, list[Spoken]] = {"source": [], "target": []}
        for sentence, output in zip(self._sentences_explained, self._outputs, strict=False):
            gold = sentence.gold
            ours = gold.source_mentions if gold else ()
            words = output.split()
            theirs = [(m.chain, m.words) for m in gold.target_mentions] if gold else []
            moved = carried(theirs, sentence.target.split(), words)
            sides["source"].append(_spoken(source, sentence.source, ours))
            sides["target"].append(_spoken(target, output, moved))
        return sides

    def match_rate(self) -> float:
        """Share of the reference mentions' tokens that the system's own output has unchanged."""
        right = total = 0
        for sentence, output in zip(self._sentences_explained, self._outputs, strict=False):
            tokens, words = sentence.target.split(), output.split()
            place = dict(align_tokens(tokens, words))
            inside = [i for m in (sentence.gold or Gold()).target_mentions for i in m.words]
            total += len(inside)
            right += sum(i in place and words[place[i]] == tokens[i] for i in inside)
        return right / max(1, total)

    def depth(self, index: int) -> int:
        """How many sentences stand before a sentence in its concatenation."""
        return int((self.split(EVALUATED).source[index] == SEPARATOR).sum())

    def weights(self, index: int) -> dict[Side, list[np.ndarray]]:
        """Raw weights (I, N) over each context sentence, nearest first, on each side."""
        depth = self.depth(index)
        own = self.config.nmt.context.target
        x = [self.spoken["source"][i] for i in range(index - depth, index + 1)]
        y = [self.spoken["target"][i] for i in range(index - depth if own else index, index + 1)]
        batch = Batch.collate([(_joined(x), _joined(y))])
        source_XX, target_YY = self._word_weights(batch, x, y)
        blocks: dict[Side, list[np.ndarray]] = {"source": _blocks(source_XX, x)}
        if own:
            blocks["target"] = _blocks(target_YY, y)
        return blocks

    def _word_weights(
        self, batch: Batch, x: list[Spoken], y: list[Spoken]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Weights between source words and between target words of a concatenation."""
        pieces_x, pieces_y = _piece_words(self.subwords[0], x), _piece_words(self.subwords[1], y)
        if isinstance(self.explainer, Attention):
            source_SS, target_TT = self._self_attention(batch)
            return _pooled(source_SS, pieces_x, pieces_x), _pooled(target_TT, pieces_y, pieces_y)
        labelled, _ = reference(self.model, batch)
        relevance = self.explainer.relevance(self.model, labelled)
        if relevance.prefix_BTT is None:
            raise NotApplicable("no relevance of prefix words on this model")
        source_YX = _pooled(_array(relevance.source_BTS[0]), pieces_y, pieces_x)
        target_YY = _pooled(_array(relevance.prefix_BTT[0]), pieces_y, pieces_y)
        now = len(source_YX) - len(y[-1].words)  # where the current target sentence begins
        return _of_source_words(_shares(source_YX[now:]), x), _shares(target_YY)

    @torch.no_grad()
    def _self_attention(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Self-attention over source pieces and over target pieces, reduced as configured."""
        model, explainer = self.model, self.explainer
        assert isinstance(explainer, Attention)
        source = model.embed_source(batch.source_BS)
        encoder = model.encoder_attention(source, batch.layout)
        # A target word attends when it has been read, so EOS is appended for the last one.
        longer = Batch(batch.source_BS, torch.nn.functional.pad(batch.target_BT, (0, 1), value=EOS))
        decoder = model.attention(
            model.encode(source, longer.layout), model.embed_target(longer.input_BT)
        ).prefix_BLHTT
        if encoder is None or decoder is None:
            raise NotApplicable(f"{self.config.nmt.name} has no self-attention")
        reduced = (explainer.reduce(encoder)[0], explainer.reduce(decoder)[0, 1:, 1:])
        return _array(reduced[0]), _array(reduced[1])

    @cached_property
    def coreference(self) -> Artefact:
        """Every link's weight, on each side."""
        wanted = self.config.metric.coref_attention.heatmaps
        recipe = self._recipe() | {
            "explainer": plain(self.config.explainer),
            "code": code_hash(type(self.explainer)),
            "heatmaps": wanted,
        }

        def work(folder: Path) -> dict[str, Any]:
            scores = {side: CorefScores() for side in SIDES}
            examples: dict[Side, list[Example]] = {side: [] for side in SIDES}
            for index in self._with_context():
                for side, blocks in self.weights(index).items():
                    self._score(scores[side], side, index, blocks)
                    left = wanted - len(examples[side])
                    drawn = self._examples(side, index, blocks)
                    examples[side] += list(islice(drawn, left))
            described = {side: [asdict(e) for e in examples[side]] for side in SIDES}
            write_atomically(folder / EXAMPLES, json.dumps(described, ensure_ascii=False))
            facts: dict[str, Any] = {side: _save(scores[side], folder, side) for side in SIDES}
            return facts | {"match_rate": self.match_rate()}

        return self.store.make("coreference", recipe, work)

    @cached_property
    def uniform(self) -> Artefact:
        """The floor: every word attended to alike."""
        sides = SIDES if self.config.nmt.context.target else SIDES[:1]

        def work(folder: Path) -> dict[str, Any]:
            scores = {side: CorefScores() for side in SIDES}
            for index in self._with_context():
                for side in sides:
                    parts = self.spoken[side][index - self.depth(index) : index + 1]
                    total = max(1, sum(len(part.words) for part in parts))
                    even = [
                        np.full((len(parts[-1].words), len(part.words)), 1 / total)
                        for part in parts[-2::-1]
                    ]
                    self._score(scores[side], side, index, even)
            return {side: _save(scores[side], folder, side) for side in SIDES}

        return self.store.make("coreference", self._recipe() | {"kind": "uniform"}, work)

    @property
    def _options(self) -> dict[str, bool]:
        settings = self.config.metric.coref_attention
        return {key: settings[key] for key in ("nearest", "whole_matrix")}

    @property
    def _said(self) -> str:
        """The options that are not the paper's, as a row's name says them."""
        said = [name.replace("_", " ") for name, value in self._options.items() if value]
        return f" ({', '.join(said)})" if said else ""

    def _recipe(self) -> dict[str, Any]:
        return {
            "version": VERSIONS["coreference"],
            "translation": self.translation.id,
            "sentences": self._sentences(EVALUATED),
            "options": self._options,
        }

    def _with_context(self) -> Iterator[int]:
        count = len(self._sentences_explained)
        label = f"{self.config.explainer.name}, coreference"
        for index in track(range(count), label, disable=not self.options.progress_bar):
            if self.depth(index) and any(self.spoken[side][index].mentions for side in SIDES):
                yield index

    def _score(
        self,
        scores: CorefScores,
        side: Side,
        index: int,
        blocks: list[np.ndarray],
    ) -> None:
        spoken, nearest = self.spoken[side], self._options["nearest"]
        language = self.corpus.source_language if side == "source" else self.corpus.target_language
        seen: set[Mention] = set()
        for distance, raw in enumerate(blocks, start=1):
            current, context = spoken[index], spoken[index - distance]
            links = [
                (m, a)
                for m in current.mentions
                for a in context.mentions
                if m.chain == a.chain and not (nearest and m in seen)
            ]
            if nearest:
                # Of several antecedents in one sentence the last is the nearest.
                links = list({m: (m, a) for m, a in links}.values())
                seen |= {m for m, _ in links}
            scores.add(
                index,
                distance,
                significant(raw, self._options["whole_matrix"]),
                current.mentions,
                context.mentions,
                context.words,
                function_words(language),
                links,
            )

    def _examples(self, side: Side, index: int, blocks: list[np.ndarray]) -> Iterator[Example]:
        """The context sentences that a link leads to, ready to be drawn."""
        current = self.spoken[side][index]
        for distance, raw in enumerate(blocks, start=1):
            context = self.spoken[side][index - distance]
            links = [
                (list(m.words), list(a.words))
                for m in current.mentions
                for a in context.mentions
                if m.chain == a.chain
            ]
            if links:
                title = f"{self.explainer_name}, {side} side, sentence {index}, {distance} back"
                weights = significant(raw, self._options["whole_matrix"]).round(4).tolist()
                yield Example(title, current.words, context.words, weights, links)

    def job(self) -> dict[str, Any]:
        """What this job is about; options other than the paper's stand in the explainer's name."""
        job = super().job()
        return job | {"explainer": job["explainer"] + self._said}


def _spoken(subwords: Subwords, text: str, mentions: tuple[WordMention, ...]) -> Spoken:
    words, ids = text.split(), subwords.encode(text)
    if max(subwords.words(ids), default=-1) + 1 != len(words):
        raise XnmtError(f"subwords and blanks do not agree on the words of {text!r}")
    chained = tuple(Mention(m.chain, m.words, tuple(words[i] for i in m.words)) for m in mentions)
    return Spoken(ids, words, chained)


def _joined(sentences: list[Spoken]) -> list[int]:
    """The ids of a concatenation, closed by EOS."""
    ids = [i for s in sentences[:-1] for i in (*s.ids, SEPARATOR)]
    return [*ids, *sentences[-1].ids, EOS]


def _piece_words(subwords: Subwords, sentences: list[Spoken]) -> list[int]:
    """For each id of a concatenation the number of its word in it, -1 for separators and EOS."""
    words: list[int] = []
    start = 0
    for sentence in sentences:
        words += [start + w for w in subwords.words(sentence.ids)] + [-1]
        start += len(sentence.words)
    return words


def _pooled(weights_PQ: np.ndarray, rows: list[int], columns: list[int]) -> np.ndarray:
    """From pieces to words: summed over attended pieces, averaged over attending ones."""
    of_rows, of_columns = membership(rows), membership(columns)
    counts = np.maximum(of_rows.sum(0), 1)
    return (of_rows / counts).T @ np.nan_to_num(weights_PQ) @ of_columns


def _shares(relevance_IN: np.ndarray) -> np.ndarray:
    """Relevance as shares of what helps each step, so that it compares with attention."""
    positive = np.maximum(relevance_IN, 0)
    total = positive.sum(1, keepdims=True)
    return np.divide(positive, total, out=np.zeros_like(positive), where=total > 0)


def _of_source_words(shares_YX: np.ndarray, sentences: list[Spoken]) -> np.ndarray:
    """Source words by source words, from target words by source words.

    A current source word is explained through the target words whose best current word it is.
    """
    start = sum(len(s.words) for s in sentences[:-1])
    rows = np.zeros((shares_YX.shape[1], shares_YX.shape[1]))
    current = shares_YX[:, start:]
    if current.size:
        best = start + current.argmax(1)
        for word in np.unique(best[current.max(1) > 0]):
            rows[word] = shares_YX[(best == word) & (current.max(1) > 0)].mean(0)
    return rows


def _blocks(weights_XX: np.ndarray, sentences: list[Spoken]) -> list[np.ndarray]:
    """The rows of the current sentence over each context sentence, nearest first."""
    ends = np.cumsum([len(s.words) for s in sentences])
    starts = ends - [len(s.words) for s in sentences]
    rows = weights_XX[starts[-1] : ends[-1]]
    return [rows[:, starts[k] : ends[k]] for k in range(len(sentences) - 2, -1, -1)]


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().double().numpy()


def _save(scores: CorefScores, folder: Path, side: Side) -> dict[str, Any]:
    """Writes the links of a side; gives back what is no property of a single link."""
    rows = [asdict(link) for link in scores.links]
    names = ("sentence", "distance", "weight", "naive", "needed", "hard")
    write_table(pa.table({n: [row[n] for row in rows] for n in names}), folder / f"{side}.parquet")
    content = [a.content for a in scores.spread]
    function = [a.function for a in scores.spread]
    return {
        "precision": float(np.mean(scores.precise)) if scores.precise else None,
        "dispersion": float(np.mean(content)) if content else None,
        "dispersion_function": float(np.mean(function)) if function else None,
    }
