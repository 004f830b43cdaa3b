"""Beam search, of which greedy decoding is the beam of one."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import torch
from torch import Tensor

from xnmt_bench.corpora.vocabulary.subwords import BOS, EOS, PAD, current_span
from xnmt_bench.device import device_of, keeps_in_cache
from xnmt_bench.nmt.base import NMTModel, Reader
from xnmt_bench.nmt.batch import Encoding, Ids, Layout, pad, segments
from xnmt_bench.sweep import log_once

log = logging.getLogger(__name__)
STEPS = 8  # of greedy search on a GPU, before the host asks which sentences have ended


@torch.no_grad()
def translate(
    model: NMTModel, sources: Sequence[Ids], beam: int = 1, prefixes: Sequence[Ids] | None = None
) -> list[list[int]]:
    """Translate a batch of sentences.

    Args:
        model: the system.
        sources: ids of each source sentence, closed by EOS.
        beam: hypotheses kept; 1 is greedy.
        prefixes: target ids that each translation goes on from, such as the translations of the
            sentences before it; they are neither scored nor returned.

    Returns:
        The best target ids of each sentence, closed by EOS unless the length limit cut them:
        `length_limit`, or what the model can read.
    """
    device = device_of(model)
    source_BS = pad(sources, device)
    prefixes = [()] * len(sources) if prefixes is None else prefixes
    inputs_RT = pad([[BOS, *map(int, ids)] for ids in prefixes], device)
    # BOS replaces the inputs: a reader makes its own layout.
    one_BT = source_BS.new_ones(len(sources), 1)
    layout = Layout(segments(source_BS), one_BT, model.draft(source_BS))
    encoding = model.encode(model.embed_source(source_BS), layout)
    padded = len({len(ids) for ids in prefixes}) > 1
    return translate_encoded(
        model, encoding, inputs_RT, [*map(length_limit, sources)], beam, padded
    )


def length_limit(source: Ids) -> int:
    """Return how many ids a translation may have: twice the current sentence's, and 10 more.

    It bounds what a translation without an end can cost.
    """
    start, end = current_span(source)
    return 2 * (end - start) + 10


@torch.no_grad()
def translate_encoded(
    model: NMTModel,
    encoding: Encoding,
    inputs_RT: Tensor,
    limits: Sequence[int],
    beam: int = 1,
    padded: bool = False,
) -> list[list[int]]:
    """Translate encoded sentences.

    Args:
        model: the system.
        encoding: of the sentences; its decoder inputs are not read.
        inputs_RT: what the decoder reads first, BOS and a prefix of the translation.
        limits: ids that each translation may have.
        beam: hypotheses kept; 1 is greedy.
        padded: whether the rows of the inputs have unlike lengths.

    Returns:
        As `translate`.
    """
    if (longest := model.longest_target) is not None:
        prefixes = ((inputs_RT != PAD).sum(1) - 1).tolist()  # BOS is not of it
        # A prefix that leaves no room for a word is refused where the model reads it.
        limits = [
            max(1, min(limit, longest - prefix))
            for limit, prefix in zip(limits, prefixes, strict=True)
        ]
    reader = model.reader(encoding)
    if padded and not reader.reads_padding:
        reader = Reader(model, encoding)
    if beam == 1:
        return _search_greedily(model, reader, inputs_RT, limits)
    return _search(model, reader, inputs_RT, limits, beam)


def warn_of_unended(translations: Sequence[Ids]) -> None:
    """Log a warning where the limit cut more than half of the translations.

    Such a model hardly ever writes what ends a translation.
    """
    unended = sum(EOS not in ids for ids in translations)
    if 2 * unended > len(translations):
        log_once(
            log,
            logging.WARNING,
            f"{unended} of {len(translations)} translations were cut at their limit, twice the "
            "source and 10 more subwords: the model hardly ever ends one",
        )


def _search_greedily(
    model: NMTModel, reader: Reader, inputs_RT: Tensor, limits: Sequence[int]
) -> list[list[int]]:
    """Write the most probable word each time; a sentence that has ended leaves with the next look.

    What is written is looked at each step on a processor, and elsewhere each STEPS steps, since the
    host then waits for the device.
    """
    outputs: list[list[int]] = [[] for _ in limits]
    open_sentences, score_R = list(range(len(limits))), inputs_RT.new_zeros(len(limits)).float()
    steps, length = 1 if keeps_in_cache(inputs_RT.device) else STEPS, 0
    # A row is not read beyond its limit where the model could not read that.
    last_limit = max if model.longest_target is None else min
    while open_sentences:
        words = []
        for _ in range(min(steps, last_limit(limits[n] for n in open_sentences) - length)):
            total_RV = _log_probability(model, reader, inputs_RT).add_(score_R[:, None])
            score_R, word_R = total_RV.max(dim=1)
            inputs_RT = word_R[:, None]
            words.append(word_R)
        length += len(words)
        still_open = []
        for row, (n, new) in enumerate(
            zip(open_sentences, torch.stack(words, dim=1).tolist(), strict=True)
        ):
            end = new.index(EOS) + 1 if EOS in new else len(new)
            outputs[n] = (outputs[n] + new[:end])[: limits[n]]
            if EOS not in new and length < limits[n]:
                still_open.append(row)
        # Rows that all go on need no copy of their keys.
        if still_open and len(still_open) < len(open_sentences):
            rows = torch.tensor(still_open, device=inputs_RT.device)
            reader.select(rows)
            inputs_RT, score_R = inputs_RT[rows], score_R[rows]
        open_sentences = [open_sentences[row] for row in still_open]
    return outputs


def _log_probability(model: NMTModel, reader: Reader, inputs_RT: Tensor) -> Tensor:
    """Return log P (R, V) of the next word; padding and BOS are impossible."""
    # In float32 also under autocast: scores of many steps are summed.
    logits_RV = model.logits(reader.read(inputs_RT)).float()
    for never in (PAD, BOS):  # before the softmax: what is left sums to 1
        logits_RV[:, never] = -torch.inf
    return logits_RV.log_softmax(-1)


def _search(
    model: NMTModel, reader: Reader, inputs_RT: Tensor, limits: Sequence[int], beam: int
) -> list[list[int]]:
    """Keep `beam` open hypotheses a sentence; a finished sentence leaves the batch."""
    device, open_sentences = inputs_RT.device, list(range(len(limits)))
    finished: list[list[tuple[float, list[int]]]] = [[] for _ in limits]
    # What is written stays on the host, or each hypothesis that ends would wait for the device.
    output_RT, score_R = inputs_RT[:, :0].cpu(), torch.zeros(len(limits), device=device)
    width = 1  # rows a sentence: one until the first step has spread the beam
    while open_sentences:
        # In place, since rows are as wide as the vocabulary.
        total = _log_probability(model, reader, inputs_RT).add_(score_R[:, None])
        length, (rows, words) = output_RT.shape[1] + 1, total.shape
        total = total.view(len(open_sentences), -1)
        # Twice the beam, so that beam open ones remain when as many end.
        best, flat = (x.tolist() for x in total.topk(min(2 * beam, total.shape[1]), dim=1))
        keep: list[tuple[int, int, float]] = []  # row that is gone on from, word, score
        still_open: list[int] = []
        for place, sentence in enumerate(open_sentences):
            survivors: list[tuple[int, int, float]] = []
            ended = finished[sentence]
            for rank, (score, index) in enumerate(zip(best[place], flat[place], strict=True)):
                # The index counts words through all rows of the sentence.
                row, token = place * width + index // words, index % words
                # An EOS beyond the best `beam` would end what the beam does not keep.
                if length >= limits[sentence] or (token == EOS and rank < beam):
                    ended.append((score / length, [*output_RT[row].tolist(), token]))
                elif token != EOS and len(survivors) < beam:
                    survivors.append((row, token, score))
                # As many have ended as the beam is wide: the search does not look for longer ones.
                if len(ended) >= beam:
                    break
            if len(ended) < beam and survivors:
                # A sentence's rows stay a block of equal width; what fills it is never chosen.
                filler = (*survivors[0][:2], -torch.inf)
                keep += survivors + [filler] * (beam - len(survivors))
                still_open.append(sentence)
        open_sentences, width = still_open, beam
        if keep:
            parents, tokens, score_R = (torch.tensor(x) for x in zip(*keep, strict=True))
            output_RT = torch.cat([output_RT[parents], tokens[:, None]], dim=1)
            inputs_RT, score_R = tokens[:, None].to(device), score_R.to(device)
            # Rows that go on as they stand need no copy of their keys.
            if [row for row, *_ in keep] != [*range(rows)]:
                reader.select(parents.to(device))
    # Of equal scores the greater ids win, which depends on no order of the search.
    return [max(hypotheses)[1] for hypotheses in finished]
