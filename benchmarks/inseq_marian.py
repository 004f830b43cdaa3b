"""How inseq's scores of a Marian differ from this project's, and what makes the difference.

    pip install 'xnmt_bench[bench]'
    python benchmarks/inseq_marian.py DIR --text ../shared/data/multi30k

`DIR` is a folder of a Marian, German to English; where it is absent, a small one is trained first
on the pairs of `train.de` and `train.en` in the folder of texts. inseq translates the first
sentences of `test_2016_flickr.de` one by one, and in one batch for comparison.

Then each tool explains the translations made one by one. inseq does so twice: as it comes, and with
the decoder's `embed_scale` set to 1, so that the embeddings, which inseq has scaled, are not scaled
again. Each is compared with this project's explainer of the same idea: both with their defaults, or
both with one definition. The number is the share of decisions whose most relevant source word is
the same, EOS left out.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import inseq
import torch
import torch.nn.functional as F
from sacrebleu.metrics import BLEU
from transformers import PreTrainedTokenizerBase

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from support.huggingface_models import build_marian
from xnmt_bench.explanation import Explanation, from_inseq
from xnmt_bench.nmt.opening import load
from xnmt_bench.progress import track
from xnmt_bench.registry import load_explainer

CODES = ("de", "en")
TEST = "test_2016_flickr"
PIECES, WIDTH = 3000, 192  # pieces of a side
ROWS, LONGEST, RATE = 64, 60, 2e-3  # sentences of a batch, ids of a side, learning rate
LENGTH = 60  # ids of a translation at most; the default limit is 20
# inseq's method, this project's name, the options that make it inseq's definition, and how inseq
# has to make one number of the embedding's; by default it is a norm, which has no sign.
METHODS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("attention", "attention", {"layer": None}, {}),
    ("saliency", "gradient_norm", {"norm": "l2"}, {}),
    ("input_x_gradient", "weighted_gradient", {}, {"aggregator": "sum", "normalize": False}),
    ("occlusion", "prediction_difference", {"removal": "unk"}, {}),
]
Pairs = list[tuple[str, str]]


def train(folder: Path, texts: list[list[str]], steps: int) -> None:
    """Trains a small model on sentence pairs and saves it."""
    tokenizer, model = build_marian(folder, texts, CODES, PIECES, WIDTH)
    optimiser = torch.optim.AdamW(model.parameters(), RATE, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, steps, pct_start=0.15)
    drawn = batches(tokenizer, list(zip(*texts, strict=True)))
    model.train()
    for _ in track(range(steps), "training", steps, "steps", True):
        source, target = next(drawn)
        pad = model.config.pad_token_id
        inputs = F.pad(target[:, :-1], (1, 0), value=pad)
        logits = model(
            input_ids=source,
            attention_mask=(source != pad).long(),
            decoder_input_ids=inputs.masked_fill(inputs == -100, pad),
        ).logits
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), label_smoothing=0.1)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    model.eval().save_pretrained(folder)
    print(f"{steps:,} steps; the last loss {loss.item():.3f}")


def batches(
    tokenizer: PreTrainedTokenizerBase, pairs: Pairs
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yields padded ids (B, S) and labels (B, T, -100 in padding) of pairs of like length."""
    ids = [(tokenizer(x).input_ids, tokenizer(text_target=y).input_ids) for x, y in pairs]
    ids = [pair for pair in ids if max(map(len, pair)) < LONGEST]
    ids.sort(key=lambda pair: (len(pair[1]), len(pair[0])))
    rows = [ids[start : start + ROWS] for start in range(0, len(ids), ROWS)]
    rng, todo = random.Random(0), []
    while True:
        if not todo:
            todo = rows[:]
            rng.shuffle(todo)
        sources, targets = zip(*todo.pop(), strict=True)
        yield padded(sources, tokenizer.pad_token_id), padded(targets, -100)


def padded(rows: tuple[list[int], ...], value: int) -> torch.Tensor:
    """Returns rows of one length."""
    longest = max(map(len, rows))
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


def translate(peer: Any, sources: list[str], references: list[str]) -> list[str]:
    """Returns inseq's translations one by one, and says what one batch makes of them."""
    single = peer.generate(sources, batch_size=1, max_new_tokens=LENGTH)
    together = peer.generate(sources, max_new_tokens=LENGTH)
    other = sum(x != y for x, y in zip(single, together, strict=True))
    scores = [BLEU().corpus_score(some, [references]).score for some in (single, together)]
    print(f"{len(sources)} sentences; BLEU {scores[0]:.1f} one by one, {scores[1]:.1f} in one "
          f"batch, where {other} translations are others")  # fmt: skip
    return single


def compare(folder: Path, sources: list[str], references: list[str]) -> None:
    """Prints a line for each method."""
    peer, model = inseq.load_model(str(folder), "saliency"), load(folder)
    pairs = list(zip(sources, translate(peer, sources, references), strict=True))
    decoder = peer.model.get_decoder()
    scale = decoder.embed_scale
    print(f"{'':58}{'as it comes':^24}{'embed_scale = 1':^24}")
    print(f"{'inseq / here, same definition':58}" + f"{'defaults':>12}{'same':>12}" * 2)
    for method, name, options, aggregator in METHODS:
        default_explanations = load_explainer(name)(model, pairs)
        matched_explanations = load_explainer(name, **options)(model, pairs)
        shares, probabilities = [], []
        for decoder.embed_scale in (scale, 1.0):
            output = attribute(peer, method, pairs)
            shares.append(share(from_inseq(output), default_explanations))
            if aggregator:
                output = output.aggregate(**aggregator)
            signed = method != "occlusion"
            shares.append(share(from_inseq(output), matched_explanations, signed))
            probabilities.append(mean_probability(from_inseq(output)))
        row = f"{method} / {name} {' '.join(f'{k}={v}' for k, v in options.items())}"
        print(f"{row:58}" + "".join(f"{x:>12.1%}" for x in shares), flush=True)
        if method == "saliency":
            probabilities.append(mean_probability(default_explanations))
            named = zip(("inseq", "with embed_scale 1", "here"), probabilities, strict=True)
            print("mean probability of the words:", *(f"{tool} {x:.3f}" for tool, x in named))
    steps = sum(len(explanation.labels) for explanation in default_explanations)
    print(f"{len(list_decisions(default_explanations)):,} decisions of {steps:,}")


def attribute(peer: Any, method: str, pairs: Pairs) -> Any:
    """Returns inseq's scores of the words of given targets."""
    sources, targets = map(list, zip(*pairs, strict=True))
    return peer.attribute(
        sources, targets, method=method, attribute_target=True, batch_size=1, show_progress=False,
        step_scores=[] if method == "attention" else ["probability"],
    )  # fmt: skip


def list_decisions(explanations: list[Explanation]) -> list[tuple[int, int]]:
    """Returns sentence and step of the decisions whose label is the target's own word.

    inseq explains the target's word at every step, and this project the word that is chosen.
    """
    return [
        (number, step)
        for number, explanation in enumerate(explanations)
        for step, label in enumerate(explanation.labels)
        if label == explanation.target_tokens[step]
    ]


def share(from_peer: list[Explanation], from_here: list[Explanation], signed: bool = True) -> float:
    """Returns at how many decisions both tools have the same source word first."""
    for x, y in zip(from_peer, from_here, strict=True):
        if (x.source_tokens, x.target_tokens) != (y.source_tokens, y.target_tokens):
            raise SystemExit(f"other tokens: {x.source_tokens} and {y.source_tokens}")
    scores = [x.source_TS if signed else x.source_TS.abs() for x in from_here]
    # Without EOS, which no rule holds.
    equal = [
        from_peer[number].source_TS[step, :-1].argmax() == scores[number][step, :-1].argmax()
        for number, step in list_decisions(from_here)
    ]
    return sum(map(bool, equal)) / len(equal)


def mean_probability(explanations: list[Explanation]) -> float:
    """Returns the mean probability of all labels."""
    return float(torch.cat([x.probabilities for x in explanations]).mean())


def main() -> None:
    """Trains where the folder is absent, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="of the Marian")
    parser.add_argument("--text", type=Path, required=True, help="folder of Multi30k's files")
    parser.add_argument("--steps", type=int, default=2000, help="of training")
    parser.add_argument("--sentences", type=int, default=100, help="of the test set")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("xnmt_bench").setLevel(logging.ERROR)  # the warning of what is shown here

    def read(split: str) -> list[list[str]]:
        paths = (arguments.text / f"{split}.{code}" for code in CODES)
        return [path.read_text(encoding="utf-8").splitlines() for path in paths]

    if not arguments.folder.exists():
        train(arguments.folder, read("train"), arguments.steps)
    compare(arguments.folder, *(side[: arguments.sentences] for side in read(TEST)))


if __name__ == "__main__":
    main()
