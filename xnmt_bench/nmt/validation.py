"""What training may look at besides its loss: BLEU or chrF, and accuracy on contrastive sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from sacrebleu.metrics import BLEU, CHRF

from xnmt_bench.corpora.languages import BLANKS, CHARACTERS, tokenizer_name, tokenizer_signature
from xnmt_bench.corpora.passage import Context, Passage
from xnmt_bench.corpora.suites.contrastive.group import ContrastiveSet
from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import current_span
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.comparing import compare
from xnmt_bench.nmt.decoding import translate
from xnmt_bench.nmt.scoring import log_probability

TOGETHER = 100  # sentences that are translated at once


class ValidationQuality:
    """BLEU of a split, greedy, behind the references of its context; of subwords put together.

    It tells epochs apart; what is reported of a system is `metric=[quality]`. Of a language that no
    tokenizer cuts into words, as Thai, it is chrF: 4-grams of characters say little of words.

    Args:
        valid: the split.
        language: of its targets.

    Attributes:
        name: `bleu` or `chrf`.
        fingerprint: of what is computed of the split that training validates on.
    """

    def __init__(self, valid: EncodedSplit, language: str) -> None:
        tokenizer = tokenizer_name(language)
        self._valid, self.name = valid, "bleu" if tokenizer != CHARACTERS else "chrf"
        # `force` silences a warning about tokenised text, which a corpus may consist of.
        self._metric = BLEU(tokenize=tokenizer, force=True) if self.name == "bleu" else CHRF()
        self.fingerprint = self.name
        if tokenizer != BLANKS:
            self.fingerprint += f" {tokenizer_signature(language)}"

    def __call__(self, model: NMTModel) -> float:
        """Return BLEU or chrF, from 0 to 100."""
        valid, decode = self._valid, model.target_subwords.decode
        # By length, so that little is padding; BLEU does not depend on the order.
        order = np.argsort(valid.source.lengths(), kind="stable")
        hypotheses, references = list[str](), list[str]()
        for start in range(0, len(order), TOGETHER):
            rows = order[start : start + TOGETHER]
            targets = [valid.target[i] for i in rows]
            starts = [current_span(ids)[0] for ids in targets]
            prefixes = [ids[:n] for ids, n in zip(targets, starts, strict=True)]
            sources = [valid.source[i] for i in rows]
            hypotheses += map(decode, translate(model, sources, prefixes=prefixes))
            references += [decode(ids[n:].tolist()) for ids, n in zip(targets, starts, strict=True)]
        return float(self._metric.corpus_score(hypotheses, [references]).score)


class ContrastiveAccuracy:
    """The mean accuracy on contrastive sets, in the context that a system is trained with.

    The sets are tokenised as the system's corpus is.

    Args:
        sets: the sets.
        context: which sentences the system reads.
        batch_tokens: target ids that are scored together.
        mark: writes the markers that the system reads into sources.
        markers: names what they come from; empty without markers.
    """

    def __init__(
        self,
        sets: Sequence[ContrastiveSet],
        context: Context,
        batch_tokens: int,
        mark: Callable[[Sequence[Passage]], list[Passage]] = list,
        markers: str = "",
    ) -> None:
        self._sets, self._context, self._batch_tokens = sets, context, batch_tokens
        self._mark = mark
        names = [contrastive_set.fingerprint for contrastive_set in sets]
        self.fingerprint = " ".join([*names, *filter(None, [markers])])
        self._passages: dict[int, list[Passage]] = {}  # by set, marked once

    def __call__(self, model: NMTModel) -> float:
        """Return the mean accuracy, from 0 to 100."""
        accuracies = [self._accuracy(model, number) for number in range(len(self._sets))]
        return 100 * float(np.mean(accuracies))

    def _accuracy(self, model: NMTModel, number: int) -> float:
        contrastive_set = self._sets[number]
        if number not in self._passages:
            groups = contrastive_set.groups
            read = [p.read(self._context) for group in groups for p in group.passages()]
            self._passages[number] = self._mark(read)
        passages = self._passages[number]
        # Variants that read the same are scored once, so that they tie exactly.
        row_of = {passage: row for row, passage in enumerate(dict.fromkeys(passages))}
        pairs = [passage.encode(*model.vocabularies) for passage in row_of]
        log_p, _ = log_probability(model, pairs, self._batch_tokens)
        log_p_N = log_p[[row_of[passage] for passage in passages]]
        return float(compare(contrastive_set).right_G(log_p_N, "wrong").mean())
