"""Beam search, of which greedy decoding is the beam of one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from xnmt_bench.corpora.subwords import BOS, EOS, PAD
from xnmt_bench.nmt.base import Encoding, Ids, Layout, NMTModel, Reader, segments

FORBIDDEN = [PAD, BOS]


@torch.no_grad()
def translate(
    model: NMTModel,
    sources: Sequence[Ids],
    beam: int = 1,
    length_penalty: float = 1.0,
    prefixes: Sequence[Ids] | None = None,
) -> list[list[int]]:
    """Translates a batch of sentences.

    Args:
        model: the system.
        sources: ids of each source sentence, closed by EOS.
        beam: hypotheses kept; 1 is greedy.
        length_penalty: log-probabilities are divided by length to this power.
        prefixes: target ids that each translation goes on from, such as the translations of the
            sentences before it; they are neither scored nor returned.

    Returns:
        The best target ids of each sentence, closed by EOS unless the length limit cut them:
        twice the source and 10 more, or what the model can read.
    """
    source_BS = torch.nn.utils.rnn.pad_sequence(
        [torch.as_tensor(x, dtype=torch.long) for x in sources], batch_first=True, padding_value=PAD
    )
    source_BS = source_BS.to(next(model.parameters()).device)
    forced = [[BOS, *map(int, ids)] for ids in prefixes or [()] * len(sources)]
    layout = Layout(segments(source_BS), segments(source_BS.new_full((len(sources), 1), BOS)))
    encoding = model.encode(model.embed_source(source_BS), layout)
    limits = (2 * layout.mask_BS.sum(1) + 10).tolist()
    if model.longest_target is not None:
        limits = [min(limit, model.longest_target) for limit in limits]
    return _search(model, encoding, forced, limits, beam, length_penalty)


def _search(
    model: NMTModel,
    encoding: Encoding,
    forced: list[list[int]],
    limits: list[int],
    beam: int,
    penalty: float,
) -> list[list[int]]:
    """Keeps `beam` open hypotheses a sentence; a finished sentence leaves the batch."""
    device = encoding.mask_BS.device
    open_sentences = list(range(len(limits)))
    finished: list[list[tuple[float, list[int]]]] = [[] for _ in limits]
    output_RT = torch.empty((len(limits), 0), dtype=torch.long, device=device)
    score_R = torch.zeros(len(limits), device=device)
    width = 1  # rows a sentence: one until the first step has spread the beam
    reader, read_RT = model.reader(encoding), _padded(forced, device)
    while open_sentences:
        log_p = _next(model, reader, read_RT)
        total = (score_R[:, None] + log_p).view(len(open_sentences), -1)
        # Twice the beam, so that beam open ones remain when as many end.
        best, flat = total.topk(min(2 * beam, total.shape[1]), dim=1)
        keep: list[tuple[int, int, float]] = []
        still_open: list[int] = []
        length = output_RT.shape[1] + 1
        for place, sentence in enumerate(open_sentences):
            survivors: list[tuple[int, int, float]] = []
            candidates = zip(best[place].tolist(), flat[place].tolist(), strict=True)
            for rank, (score, index) in enumerate(candidates):
                row, token = place * width + index // log_p.shape[1], index % log_p.shape[1]
                if length >= limits[sentence] or (token == EOS and rank < beam):
                    hypothesis = [*output_RT[row].tolist(), token]
                    finished[sentence].append((score / length**penalty, hypothesis))
                elif token != EOS and len(survivors) < beam:
                    survivors.append((row, token, score))
                if len(finished[sentence]) >= beam:
                    break
            if len(finished[sentence]) < beam and survivors:
                # A sentence's rows stay a block of equal width.
                survivors += [(survivors[0][0], survivors[0][1], -torch.inf)] * (
                    beam - len(survivors)
                )
                keep += survivors
                still_open.append(sentence)
        open_sentences, width = still_open, beam
        if not keep:
            break
        parents = torch.tensor([row for row, _, _ in keep], device=device)
        tokens = torch.tensor([token for _, token, _ in keep], device=device)
        output_RT = torch.cat([output_RT[parents], tokens[:, None]], dim=1)
        score_R = torch.tensor([score for _, _, score in keep], device=device)
        reader.select(parents)
        read_RT = tokens[:, None]
    return [max(hypotheses)[1] for hypotheses in finished]


def _padded(rows: list[list[int]], device: torch.device) -> Tensor:
    tensors = [torch.tensor(row, device=device) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=PAD)


def _next(model: NMTModel, reader: Reader, read_RT: Tensor) -> Tensor:
    """Log-probabilities (R, V) of each row's next word, once it has read further ones."""
    logits = model.logits(reader.read(read_RT)).float()
    logits[:, FORBIDDEN] = -torch.inf
    return logits.log_softmax(-1)
