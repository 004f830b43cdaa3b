"""Word alignments of a job's test set: read off relevance, by a diagonal, by eflomal."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from xnmt_bench.corpora.formats.alignment import Alignment, to_pharaoh
from xnmt_bench.corpora.sentence import Gold, Links, Sentence
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.corpora.view import flipped
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.lazy import Lazy
from xnmt_bench.measuring.metric import OFF_WORDS
from xnmt_bench.metrics.aer.counts import SOURCE, TARGET, count_links
from xnmt_bench.metrics.aer.symmetrise import METHODS
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.texts import test_set
from xnmt_bench.pipeline.weighed_sentences import WeighedSentences, skip_unreadable
from xnmt_bench.rules.extract import GOLDEN
from xnmt_bench.store import Stage
from xnmt_bench.words import Weighed
from xnmt_bench.words.eflomal import align, aligner
from xnmt_bench.words.pieces import best_links
from xnmt_bench.words.tying import tie_tokens

log = logging.getLogger(__name__)
FORWARD, BACKWARD = "forward", "backward"
STEPS = "steps"
BOTH = (FORWARD, BACKWARD, *METHODS)


class Alignments(Lazy):
    """Word alignments of the explained part of a job's test set.

    With `reverse`, the folder of a system of the other direction, also of that.
    """

    def __init__(self, job: Job, reverse: str | None = None) -> None:
        self._job, self._reverse = job, reverse
        self._left_out = 0

    @cached_property
    def sentences(self) -> list[Sentence]:
        """The sentences that are aligned, in the order of their numbers."""
        numbers = set(self.numbers)
        test_sentences = enumerate(self._job.corpus.sentences(EVALUATED))
        return [sentence for number, sentence in test_sentences if number in numbers]

    @cached_property
    def numbers(self) -> list[int]:
        """Numbers in the corpus of the sentences that are explained, or that a dump has.

        Those whose tokens cannot be tied to words are left out, and those that the system of the
        other direction lacks.
        """
        numbers = self._tied if self._dumped is None else list(self._dumped)
        if self._backward is None:
            return numbers
        there = set(self._backward.numbers)
        self._leave_out({n: "the other direction lacks it" for n in numbers if n not in there})
        both = [number for number in numbers if number in there]
        if not both:
            raise XnmtError("the two directions share no sentence")
        return both

    @property
    def left_out(self) -> int:
        """How many sentences are explained, or in the dump, and not among `numbers`."""
        _ = self.numbers  # which counts them
        return self._left_out

    def _leave_out(self, problems: Mapping[int, str]) -> None:
        """Warn of sentences, by number, and count them."""
        for number, problem in problems.items():
            log.warning("left out: test sentence %d: %s", number, problem)
        self._left_out += len(problems)

    @property
    def _tied(self) -> list[int]:
        """Numbers of the explained sentences whose subwords are tied to their words.

        Raises:
            XnmtError: there is none.
        """
        split = self._job.texts.split(EVALUATED)
        # Long pairs have no ids, so numbers in the corpus have gaps.
        numbers = split.number[: self._job.explained.decisions.count(EVALUATED)].tolist()
        problems = {n: p for i, n in enumerate(numbers) if (p := split.untied(i))}
        self._leave_out(problems)
        if len(problems) == len(numbers):
            raise XnmtError("no test sentence has subwords that can be tied to its words")
        return [number for number in numbers if number not in problems]

    @cached_property
    def _dumped(self) -> dict[int, Weighed] | None:
        """What another tool's dump has of each sentence, by its number, if one is given."""
        input_file = self._job.input_file("relevance")
        if input_file is None or input_file.dump is None:
            return None
        test_sentences = dict(enumerate(self._job.corpus.sentences(EVALUATED)))
        unreadable: list[str] = []
        # Tools that translate by length dump sentences in that order.
        dumped = sorted(skip_unreadable(self._weighed, unreadable), key=lambda w: w.number)
        self._left_out += len(unreadable)
        if dumped and dumped[-1].number not in test_sentences:
            wrong = f"sentence {dumped[-1].number}, but the test set has {len(test_sentences)}"
            raise XnmtError(f"the relevance is of another test set: it has {wrong}")
        kept, problems = dict[int, Weighed](), dict[int, str]()
        for weighed in dumped:
            sentence = test_sentences[weighed.number]
            source = tie_tokens(weighed.source, sentence.source)
            target = tie_tokens(weighed.target, sentence.target)
            # Gold counts words; tokens that make other words would shift every link.
            if source and target:
                kept[weighed.number] = replace(weighed, source=source, target=target)
            else:
                side = "target" if source else "source"
                problems[weighed.number] = f"its {side} tokens do not spell the corpus's words"
        self._leave_out(problems)
        if not kept:
            raise XnmtError("no sentence of the file is readable and spells the corpus's words")
        return kept

    @cached_property
    def _gold(self) -> list[Alignment]:
        """The gold of each of them.

        Raises:
            NotApplicable: the corpus has no gold word alignment.
        """
        # A sentence without gold counts with none, so that units stay those of the test set.
        gold = [s.gold or Gold() for s in self.sentences]
        if not any(g.possible for g in gold):
            raise NotApplicable(f"corpus {self._job.corpus.name} has no gold word alignment")
        return [Alignment(g.sure, g.possible) for g in gold]

    @cached_property
    def _weighed(self) -> WeighedSentences:
        """For the reference's words.

        Raises:
            XnmtError: stored relevance is of other words.
        """
        input_file = self._job.input_file("relevance")
        if input_file is not None and input_file.scenario not in (None, GOLDEN):
            of = f"relevance.path has relevance of scenario={input_file.scenario}"
            raise XnmtError(f"{of}, but alignment needs scenario=golden, the reference's words")
        return self._job.weighed_sentences(GOLDEN)

    @cached_property
    def off_words(self) -> dict[str, np.ndarray]:
        """By sentence, the sum of attention that lies on no word, and its steps; (U,) each.

        Empty where the relevance has no shares.
        """
        shares = self._weighed.off_words()
        if shares is None:
            return {}
        of_sentences = [shares[number] for number in self.numbers]
        return {
            OFF_WORDS.name: np.array([share_T.sum() for share_T in of_sentences]),
            STEPS: np.array([len(share_T) for share_T in of_sentences]),
        }

    def links(self) -> Iterator[Links]:
        """Yield the links of each sentence: the best source word of each target word.

        Raises:
            XnmtError: the relevance is of other sentences.
        """
        dumped = self._dumped
        explained = skip_unreadable(self._weighed) if dumped is None else dumped.values()
        by_number = {
            weighed.number: best_links(
                weighed.weights_TS, weighed.source.words, weighed.target.words, weighed.blind
            )
            for weighed in explained
        }
        # Compared by number and not by count: equally many others would be scored without an error.
        if missing := [number for number in self.numbers if number not in by_number]:
            if by_number and missing == self.numbers[-len(missing) :]:
                first = f"the first {len(by_number)} of {len(self.numbers)} test sentences"
                remedy = f"give rules.test_sentences={len(by_number)}"
                raise XnmtError(f"the relevance covers {first}; {remedy}")
            raise XnmtError("the relevance is of another test set")
        yield from (by_number[number] for number in self.numbers)

    @cached_property
    def _backward(self) -> Alignments | None:
        """The same explainer's on the system of the other direction, where one is given."""
        if self._reverse is None:
            return None
        turned = {"reversed": not self._job.settings.corpus.reversed}
        return Alignments(self._job.changed({"corpus": turned, "nmt": {"path": self._reverse}}))

    @property
    def reverse_family(self) -> str:
        """What trainings of the system of the other direction share; empty without one."""
        if self._backward is None or self._backward._job.from_files:
            return ""
        system = self._backward._job.system
        return str(system.lineage.get("family") or system.fingerprint)

    def stages(self, kind: str) -> list[Stage]:
        """Return the stage of a kind of links: `explained`, `diagonal` or `eflomal`."""
        return [getattr(self, kind)]

    @cached_property
    def explained(self) -> Stage:
        """Links by relevance: of this direction, and with the other one symmetrised."""
        _ = self._gold  # a corpus without gold fails before any relevance is made
        backward = self._backward

        def aligned(_: Path) -> Mapping[str, Sequence[Links]]:
            forward = list(self.links())
            if backward is None:
                return {FORWARD: forward}
            # A symmetrisation needs both directions of the very same pairs.
            there = dict(zip(backward.numbers, backward.links(), strict=True))
            return _both(forward, [flipped(there[number]) for number in self.numbers])

        # The other system's relevance decides the symmetrised links too.
        of_backward = backward and backward._weighed
        return self._made("alignment", aligned, relevance=self._weighed, backward=of_backward)

    @cached_property
    def diagonal(self) -> Stage:
        """Each target word linked to the source word at its own share of the sentence."""

        def aligned(_: Path) -> Mapping[str, Sequence[Links]]:
            pairs = [(split_words(s.source), split_words(s.target)) for s in self.sentences]
            return {FORWARD: [link_diagonal(*map(len, pair)) for pair in pairs]}

        # No relevance in the recipe: it is the same under every explainer.
        return self._made("alignment", aligned, kind="diagonal", numbers=self.numbers)

    @cached_property
    def eflomal(self) -> Stage:
        """Eflomal's links, aligned together with the training split.

        Raises:
            NotApplicable: eflomal is not installed.
        """

        def aligned(folder: Path) -> Mapping[str, Sequence[Links]]:
            return _both(*align(self.sentences, self._job.corpus.sentences("train"), folder))

        learnt, made_by = self._job.corpus.recipe("train"), aligner()
        return self._made("eflomal", aligned, learnt=learnt, made_by=made_by, numbers=self.numbers)

    # Both stages, `alignment` and `eflomal`, are made here.
    def _made(
        self, stage: str, aligned: Callable[[Path], Mapping[str, Sequence[Links]]], **recipe: Any
    ) -> Stage:
        """Return the links of each method that `aligned` gives, and their counts."""
        gold = self._gold

        def work(folder: Path) -> None:
            lengths = [len(split_words(s.target)) for s in self.sentences]
            for method, links in aligned(folder).items():
                # In Pharaoh's form, so that other tools can score the same links.
                text = "".join(f"{to_pharaoh(pair)}\n" for pair in links)
                (folder / f"{method}.links").write_text(text, encoding="utf-8")
                # Each source word is the other direction's target word.
                linked = SOURCE if method == BACKWARD else TARGET
                name = test_set(self._job.corpus)
                units = count_links(name, self.numbers, links, gold, lengths, linked)
                units.save(folder / f"{method}.parquet")

        recipe |= (
            {"encoded": self._job.texts.encoded[EVALUATED]}
            if self._dumped is None
            else {"corpus": self._job.corpus.recipe(EVALUATED), "numbers": self.numbers}
        )
        return self._job.store.stage(stage, work, version=6, cheap=True, **recipe)


def _both(forward: Sequence[Links], backward: Sequence[Links]) -> dict[str, Sequence[Links]]:
    """Return both directions, and every symmetrisation of the two."""
    pairs = list(zip(forward, backward, strict=True))
    return {FORWARD: forward, BACKWARD: backward} | {
        name: [method(f, b) for f, b in pairs] for name, method in METHODS.items()
    }


def link_diagonal(source: int, target: int) -> Links:
    """Link each of `target` words to that of `source` words at the same share of its sentence."""
    # Half a word more, so that middles of words meet and both ends are treated alike.
    return frozenset((int((j + 0.5) * source / target), j) for j in range(target))
