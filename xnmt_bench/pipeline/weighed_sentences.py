"""Translations with their weights, of our own systems and explainers and of other tools' dumps."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from xnmt_bench.corpora.vocabulary.subwords import EOS, Subwords, current_span
from xnmt_bench.errors import DataError, XnmtError
from xnmt_bench.pipeline.explained import EVALUATED, Explained, Relevances
from xnmt_bench.rules.extract import Scenario
from xnmt_bench.store import Stage
from xnmt_bench.words import Tokens, Weighed
from xnmt_bench.words.weighed import EOS_TOKEN

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WeighedSentences:
    """Sentences with their weights, one after the other; what is wrong with those that are bad.

    Attributes:
        fingerprint: of what they were read from.
        shares: weights are shares of each step, as attention is; else relevance.
        read: a fresh pass over them.
        source: the stage that makes them; None where they are from a file.
        off_words: what `shares_off_words` gives of them.
    """

    fingerprint: str
    shares: bool
    read: Callable[[], Iterable[Weighed | DataError]]
    source: Stage | None = None
    off_words: Callable[[], dict[int, np.ndarray] | None] = lambda: None

    def __iter__(self) -> Iterator[Weighed | DataError]:
        return iter(self.read())


def skip_unreadable(
    sentences: Iterable[Weighed | DataError], problems: list[str] | None = None
) -> Iterator[Weighed]:
    """Yield the readable sentences; warn of the others, and append their problems."""
    for sentence in sentences:
        if isinstance(sentence, DataError):
            # One bad sentence of a dump does not cost all the others.
            log.warning("left out: %s", sentence)
            if problems is not None:
                problems.append(str(sentence))
        else:
            yield sentence


def require_words(sentences: Iterable[Weighed | DataError]) -> Iterator[Weighed | DataError]:
    """Yield an error in the place of each sentence whose tokens cannot be tied to its words."""
    for sentence in sentences:
        if isinstance(sentence, Weighed) and not (sentence.source.tied and sentence.target.tied):
            problem = "a subword may be a part of two words"
            yield DataError(f"test sentence {sentence.number}", None, problem)
        else:
            yield sentence


def weigh_sentences(
    explained: Explained, scenario: Scenario, relevances: Relevances
) -> Iterator[Weighed | DataError]:
    """Yield relevance of the current sentence's words, with the words themselves.

    Words of a context have weights too, but do not belong to the sentence, and are left out.
    Attention does not weigh the prefix against the source. A translation without a word has no
    weights, and is bad.

    Args:
        explained: the decisions.
        scenario: where their contexts and labels come from.
        relevances: of them.

    Raises:
        XnmtError: the relevance is of other sentences, or of other translations of them.
    """
    split = explained.decisions.split(EVALUATED, scenario)
    source, target = explained.texts.subwords
    for index, relevance in enumerate(relevances):
        if index == len(split):
            needed = f"the {len(split)} sentences of the test set"
            raise XnmtError(f"the relevance is of more sentences than {needed}")
        source_ids, target_ids = split.source[index], split.target[index]
        # Metrics on sentences count only the current sentence's words.
        (start, end), rows = current_span(source_ids), slice(*current_span(target_ids))
        # An EOS that is not read has no weight, and would count as a word that the system ignores.
        columns = slice(start, end if source.reads_eos else end - 1)
        expected = (int(split.number[index]), (len(target_ids) - rows.start, len(source_ids)))
        # Relevance of another scenario has other steps, and would fit in no sentence but by chance.
        if (relevance.number, relevance.source_TS.shape) != expected:
            got = f"sentence {relevance.number}, {relevance.source_TS.shape[0]} steps"
            needed = f"sentence {expected[0]}, {expected[1][0]} steps ({scenario} decoding)"
            raise XnmtError(f"the relevance is of {got}; expected {needed}")
        if expected[1][0] == 1:  # its only step is EOS
            problem = "the translation has no word"
            yield DataError(explained.system.name, relevance.number + 1, problem)
            continue
        prefix_TT = None
        # Of a single step no prefix word is seen, which is not the explainer's silence.
        silent = len(relevance.prefix_TT) > 1 and np.isnan(relevance.prefix_TT).all()
        if not (explained.explainer.attends or silent):
            # NaN is for words not seen yet, which weigh nothing.
            prefix_TT = np.nan_to_num(relevance.prefix_TT[:, rows])
        yield Weighed(
            relevance.number,
            tokens(source, source_ids[columns], split.source.words(index)[columns]),
            tokens(target, target_ids[rows], split.target.words(index)[rows]),
            relevance.source_TS[:, columns],
            prefix_TT,
            _logarithms(relevance.probability_T),
            explained.explainer.blind,
        )


def _logarithms(probability_T: np.ndarray) -> np.ndarray | None:
    """Return log-probabilities; None if unknown. None is below float32's least."""
    # Files of relevance may lack probabilities.
    if np.isnan(probability_T).any():
        return None
    return np.log(np.maximum(probability_T, np.finfo(np.float32).tiny))


def tokens(subwords: Subwords, ids: np.ndarray, words: np.ndarray) -> Tokens:
    """Return ids of a sentence, and the word of each, as tokens."""
    pieces = subwords.pieces(ids.tolist())
    if len(ids) and ids[-1] == EOS:
        # Vocabularies spell EOS in their own ways.
        pieces[-1] = EOS_TOKEN
    return Tokens(tuple(pieces), tuple(words.tolist()), subwords.decode(ids.tolist()))
