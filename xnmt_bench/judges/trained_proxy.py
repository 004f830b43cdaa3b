"""Judges that are proxy models, trained by Lightning (Li et al. 2020, Algorithm 1)."""

from __future__ import annotations

import shutil
from abc import abstractmethod
from collections.abc import Iterator, Sized
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from safetensors.torch import load_model, save_model
from torch import Tensor

from proxies.base import Proxy, Vocabulary
from proxies.data import PackedRules, append, narrowest, open_decisions, pack
from proxies.lessons import Lessons, ProxyTrainingOptions
from proxies.narrowed import PIECES, Narrowed, Pieces
from proxies.scoring import BATCH, distributions, log_likelihoods
from xnmt_bench.code_hash import code_of_plug_in
from xnmt_bench.errors import NotApplicable
from xnmt_bench.judges.judge import Judge, LearnsFrom, describe_pieces, training_facts
from xnmt_bench.registry import create, entries, load
from xnmt_bench.rules.table import Rules, sentence_starts
from xnmt_bench.store import Stage, Work

WEIGHTS = "proxy.safetensors"
LESSONS = "lessons"
PIECES_FILE = "pieces.npz"  # of a large vocabulary, the ids that a proxy has weights of
SIDES = ("source", "target")
NUMBERS = 2**22  # of a distribution over a large vocabulary, computed at once
NOTHING = "the explainer gives no relevance for any training decision"
HELD_OUT = 1  # tells the draws of validation from those of training


class TrainedProxy(Judge):
    """The configured proxy model, trained on the lessons that a subclass gives it."""

    def settings(self) -> dict[str, Any]:
        """Return its options, and the sizes and training of the proxy."""
        proxy = self.rules.proxy
        # Rows of unlike proxies are then never ranked together.
        return super().settings() | proxy.sizes | vars(proxy.training) | self._narrowing

    @property
    def is_narrowed(self) -> bool:
        """Whether a side's vocabulary is too large for weights of every piece."""
        return any(self.rules.wide)

    @property
    def _narrowing(self) -> dict[str, Any]:
        """The entry of a row's settings and of a proxy's recipe where it is so."""
        return {"vocabulary": PIECES} if self.is_narrowed else {}

    @property
    def family(self) -> str:
        """The proxy's name; one that reads positions in the sentence has `+positions` behind it."""
        positions = self.rules.proxy.sizes.get("sentence_positions", False)
        return self.rules.proxy.name + ("+positions" if positions else "")

    @property
    def family_heading(self) -> str:
        """The proxy's name as the papers write it; a plug-in's registered name."""
        name, plus, positions = self.family.partition("+")
        return (name.upper() if name in FAMILY else name) + plus + positions

    @property
    def train_sentences(self) -> int:
        """The number of sentences that it learns from."""
        return self.rules.train_sentences

    @property
    @abstractmethod
    def description(self) -> str:
        """What is trained on what, in words, for the progress line."""

    @abstractmethod
    def learning_recipe(self) -> dict[str, Any]:
        """Return what decides the lessons."""

    @abstractmethod
    def lessons(self, folder: Path, training: ProxyTrainingOptions) -> Lessons:
        """Return the lessons; `folder` may hold files named `lessons*` until training is over."""

    @abstractmethod
    def find_pieces(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of source words, and of prefix words and labels, in its lessons.

        An id may be there more than once, and -1 stands for none.
        """

    @property
    def initial(self) -> TrainedProxy | None:
        """The proxy whose weights training starts from; None for fresh weights."""
        return None

    @property
    def _kind(self) -> str:
        """What tells how long an epoch takes."""
        return f"{self.row_name} on {self.train_sentences:,} sentences"

    @cached_property
    def trained(self) -> Stage:
        """The trained proxy in the store.

        Raises:
            NotApplicable: there is nothing to learn from.
        """
        proxy, seed, options = self.rules.proxy, self.rules.seed, self.rules.trainer
        training = proxy.training
        # Labels are target ids, so the output layer is as wide as the target vocabulary.
        initial, labels = self.initial, len(self.rules.explained.texts.subwords[1])

        def work(folder: Path) -> dict[str, Any]:
            # Lightning takes seconds to import, and most commands train nothing.
            from proxies.training import ProxyTraining
            from xnmt_bench.fitting import fit

            if self.is_narrowed:
                self._write_pieces(folder)
            lessons = self.lessons(folder, training)

            def build() -> ProxyTraining:
                # `fit` builds it once more where it validates the weights before any step.
                start = initial.open() if initial else self._fresh(folder)
                # An opened proxy has no dropout, as scoring wants it.
                return ProxyTraining(start.train().requires_grad_(True), lessons, training, labels)

            module, facts = fit(
                build,
                folder,
                seed,
                training.max_epochs,
                training.patience,
                options,
                self.description,
                from_start=initial is not None,
            )
            # safetensors, since a pickled checkpoint could run code when it is opened.
            save_model(module.model, str(folder / WEIGHTS))  # type: ignore[arg-type]
            # Lessons are copies of rules, and by far the largest files here.
            for file in folder.glob(f"{LESSONS}*"):
                file.unlink()
            return dict(facts)

        return self.rules.store.stage(
            "proxy",
            work,
            version=5 if initial else 4,
            amount=Work(self._kind, training.max_epochs, "epochs"),
            **self.learning_recipe(),
            k=self.rules.k,
            initial=initial.trained if initial else None,
            # Its class, since two packages may give one name to two classes over time.
            proxy=entries("proxies")[proxy.name].value,
            sizes=proxy.sizes,
            training=vars(training),
            seed=seed,
            # The device decides no result; how products are rounded does.
            precision=options.precision,
            code=code_of_plug_in(load("proxies", proxy.name)),
            judge=code_of_plug_in(type(self)),
            **self._narrowing,
        )

    def recipe(self) -> dict[str, Any]:
        """Return the trained proxy, which decides every prediction."""
        return {"proxy": self.trained}

    def log_likelihood(self, rules: Rules) -> tuple[np.ndarray, np.ndarray]:
        """Return log Q of each label, and whether the label is the proxy's first choice."""
        return log_likelihoods(self.open(), decisions_of(rules))

    def log_distributions(self, rules: Rules, positions: int) -> Iterator[tuple[slice, Tensor]]:
        """Yield rows of some rules at a time, and log Q of the whole vocabulary, (B, V)."""
        rows = min(BATCH, positions)
        if self.is_narrowed:
            rows = min(rows, max(1, NUMBERS // len(self.rules.explained.texts.subwords[1])))
        return distributions(self.open(), decisions_of(rules), rows)

    def made_by(self) -> dict[str, str]:
        """Return the trained proxy's fingerprint."""
        return {"learned": self.trained.fingerprint}

    def facts(self) -> dict[str, Any]:
        """Return what is known of its training, and of its labels where it lacks some.

        See `training_facts` and `describe_pieces`.
        """
        facts = training_facts(self.trained, self.train_sentences)
        if self.is_narrowed:
            _, target = self.pieces(self.trained.path)
            facts |= describe_pieces(target, self.rules.test.label_N)
        return facts

    def open(self) -> Proxy:
        """Return the trained proxy, on the configured device."""
        proxy = self._fresh(self.trained.path)
        load_model(proxy, self.trained.path / WEIGHTS)
        # Dropout off: scoring has to give the same digits twice.
        return proxy.eval().to(self.rules.trainer.device)

    def _fresh(self, folder: Path) -> Proxy:
        """Return the configured proxy with fresh weights.

        Args:
            folder: of the proxy, which holds its pieces if it is narrowed.

        Raises:
            XnmtError: no proxy has this name, or it refuses an option.
        """
        if not self.is_narrowed:
            return self._create(*self.rules.explained.texts.subwords)
        pieces = self.pieces(folder)
        return Narrowed(self._create(*pieces), *pieces)

    def _create(self, source: Sized, target: Sized) -> Proxy:
        """Return the configured proxy with fresh weights of so many ids."""
        vocabulary = Vocabulary(len(source), len(target), self.rules.k)
        configured = self.rules.proxy
        proxy: Proxy = create("proxies", configured.name, vocabulary, **configured.sizes)
        return proxy

    def pieces(self, folder: Path) -> tuple[Pieces, Pieces]:
        """Return the classes of both sides' ids, of a narrowed proxy in a folder."""
        sizes = map(len, self.rules.explained.texts.subwords)
        with np.load(folder / PIECES_FILE, allow_pickle=False) as ids:
            of_sides = zip(SIDES, sizes, strict=True)
            source, target = (Pieces(ids[side], size) for side, size in of_sides)
        return source, target

    def _write_pieces(self, folder: Path) -> None:
        """Write the ids that the proxy has weights of."""
        if self.initial:  # whose weights it takes over
            shutil.copy(self.initial.trained.path / PIECES_FILE, folder)
            return
        source, target = map(np.unique, self.find_pieces())
        np.savez(folder / PIECES_FILE, source=source, target=target)


FAMILY = ("fn", "rn", "sa")  # the paper's proxies, whose best is Comb


class RuleProxy(TrainedProxy):
    """A proxy that learns from the explainer's rules of the training sentences."""

    learns_from: ClassVar[LearnsFrom] = "rules"

    def learning_recipe(self) -> dict[str, Any]:
        """Return the explainer's rules of the training sentences, how many count, their view."""
        rules = {"rules": self.rules.training_artefact, "train_sentences": self.train_sentences}
        return rules | self.rules.other_prefix

    def made_by(self) -> dict[str, str]:
        """Return the fingerprints of the trained proxy and of the rules that it learnt from."""
        return super().made_by() | {"rules": self.rules.training_artefact.fingerprint}

    def find_pieces(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids in the explainer's rules."""
        source, target = [], []
        for rules in self.rules.training():
            source.append(np.unique(rules.source_NK))
            target += [np.unique(rules.prefix_NK), np.unique(rules.label_N)]
        if not source:
            raise NotApplicable(NOTHING)
        return np.concatenate(source), np.concatenate(target)

    def write_decisions(self, folder: Path) -> tuple[PackedRules, np.ndarray]:
        """Write the training rules to a file.

        Returns:
            The memory-mapped rules, and the row where each sentence begins.

        Raises:
            NotApplicable: the explainer leaves out every decision.
        """
        path, starts, count = folder / LESSONS, [], 0
        # Two bytes an id where they suffice: the file is read from disk once an epoch.
        kind = narrowest(max(map(len, self.rules.explained.texts.subwords)))
        with path.open("wb") as file:
            for rules in self.rules.training():
                append(decisions_of(rules), file, kind)
                # Starts are counted through all shards, since validation holds out whole sentences.
                starts.append(count + sentence_starts(rules.sentence_N))
                count += len(rules.sentence_N)
        if not count:
            raise NotApplicable(NOTHING)
        return open_decisions(path, self.rules.k, kind), np.concatenate(starts)


def held_out(starts: np.ndarray, training: ProxyTrainingOptions) -> int:
    """Return the row where the held-out last sentences begin.

    Args:
        starts: the row where each sentence begins, ascending.
        training: gives the share of the sentences that is held out; at least one is, and not all.

    Raises:
        NotApplicable: there is only one sentence.
    """
    if len(starts) < 2:
        raise NotApplicable(
            "a proxy needs at least two training sentences, one of which is held out; raise "
            "train_sentences, rules.train_sentences or the judge's own sentences"
        )
    # The last sentences and not random rows: decisions of one sentence are alike, and rows of it on
    # both sides would make the validation loss too good.
    count = max(1, round(training.validation_share * len(starts)))
    return int(starts[-min(count, len(starts) - 1)])


def decisions_of(rules: Rules) -> PackedRules:
    """Return rules as the proxies read them: label, words, positions; (N, 1 + 4k)."""
    words = np.concatenate([rules.source_NK, rules.prefix_NK], axis=1)
    positions = np.concatenate([rules.source_position_NK, rules.prefix_position_NK], axis=1)
    return pack(rules.label_N, words, positions)
