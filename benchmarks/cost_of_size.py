"""What explaining 1,000 sentences costs on large language models, by calculation.

    python benchmarks/cost_of_size.py                       # on one H100, in bfloat16
    python benchmarks/cost_of_size.py --precision float32
    python benchmarks/cost_of_size.py --source 40 --target 40 --prompt 120

Nothing of it is measured. Positions are counted by formulas that follow the code, and a test holds
them against counted ones (`tests/explainers/test_cost_of_size.py`). Seconds follow from them by the
peak of the machine and the share of it that is reached, which is an assumption.

Letters: P pieces of the prompt before the source, S source words, M pieces between source and
target but the last, T target words with the end. All sentences have the same lengths.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from xnmt_bench.explainers.gradient import CPU, chunk_of

SENTENCES = 1000
GIBIBYTE = 2**30
# Of an H100 (SXM), from its data sheet, without sparsity: operations and bytes a second.
PEAK = {"bfloat16": 989e12, "float32": 67e12}
BANDWIDTH = 3.35e12
NUMBER = {"bfloat16": 2, "float32": 4}  # bytes
SHARE = 0.4  # of the peak that products reach; assumed
PASS = 16_384  # positions that are read together; assumed
GRADIENT_PASS = 1024  # the same where a graph is kept for walking back; assumed


@dataclass(frozen=True)
class Sizes:
    """A decoder-only model, as its `config.json` says it.

    Attributes:
        layers: L.
        dimension: D, of a state.
        inner: of the gated feed-forward block, which has three matrices.
        heads: of queries.
        key_heads: of keys and values.
        head: dimension of a head.
        vocabulary: V.
        tied: input and output embeddings are the same weights.
    """

    layers: int
    dimension: int
    inner: int
    heads: int
    key_heads: int
    head: int
    vocabulary: int
    tied: bool

    @property
    def in_layers(self) -> int:
        """Weights of matrices in all layers."""
        attention = 2 * self.dimension * self.head * (self.heads + self.key_heads)
        return self.layers * (attention + 3 * self.dimension * self.inner)

    @property
    def weights(self) -> int:
        """All weights but those of norms."""
        tables = 1 if self.tied else 2
        return self.in_layers + tables * self.vocabulary * self.dimension

    def attended(self, keys: float) -> float:
        """Operations of one position that attends to so many keys, in all layers."""
        return 4 * self.layers * self.heads * self.head * keys

    def read(self, keys: float) -> float:
        """Operations of reading one position: a product and a sum a weight, and attention."""
        return 2 * self.in_layers + self.attended(keys)

    @property
    def output(self) -> int:
        """Operations of the output layer for one state."""
        return 2 * self.dimension * self.vocabulary


# The sizes of Gemma 3 1B and of Mistral 7B, from their configurations.
MODELS = {
    "1B": Sizes(26, 1152, 6912, 4, 1, 256, 262_144, tied=True),
    "7B": Sizes(32, 4096, 14336, 32, 8, 128, 32_000, tied=False),
}


@dataclass(frozen=True)
class Text:
    """Lengths of a sentence in its prompt: P, S, M and T."""

    prompt: int
    source: int
    between: int
    target: int

    @property
    def row(self) -> int:
        """Positions of one row; the prompt is read once for all rows of a batch."""
        return self.source + self.between + self.target

    @property
    def keys(self) -> float:
        """Keys that a position attends to, in the mean of a row."""
        return self.prompt + self.row / 2


@dataclass(frozen=True)
class Work:
    """What a sentence costs, without the prompt.

    Attributes:
        read: positions that are read.
        walked: positions that are walked back through.
        output_states: states that the output layer reads.
    """

    read: float
    walked: float
    output_states: float


def count_labels(text: Text) -> Work:
    """Count the pass that finds the labels, which every explainer and judge needs once."""
    return Work(text.row, 0, text.target)


def count_attention(text: Text) -> Work:
    """Count attention: one pass."""
    return Work(text.row, 0, 0)


def count_gradients(text: Text) -> Work:
    """Count gradients: one pass, and from each step back to the first word.

    A step begins at the end of its chunk: (S + M) T + the sum of the chunks' ends.
    """
    chunk = chunk_of(text.target, CPU)
    ends = (min(text.target, (step // chunk + 1) * chunk) for step in range(text.target))
    walked = (text.source + text.between) * text.target + sum(ends)
    return Work(text.row, walked, 3 * text.target)  # forward, and twice that for a leaf's gradient


def count_prediction_difference(text: Text) -> Work:
    """Count removals: (S + 2) rows, the whole one and the EOS's too, and T (T - 1) / 2 positions.

    Prefix words are removed in blocks that begin at the same step, an eighth of what is left.
    """
    read, start = (text.source + 2) * text.row, 1
    while start < text.target:
        steps_left = text.target - start
        count = max(steps_left // 8, 1)
        read, start = read + count * steps_left, start + count
    states = text.target * (text.source + 2) + text.target * (text.target - 1) / 2
    return Work(read, 0, states)


def count_base(text: Text, parts: int = 1) -> Work:
    """Count Base at k = 1: a source for each source word that a rule names, and a row a decision.

    It is the most that it can be: T decisions whose rules all differ. A row is read to the longest
    of its part; a GPU has one part, a CPU `judges.masked.PARTS`.
    """
    sources = min(text.source, text.target) * (text.source + text.between)
    rows = text.target**2 * (parts + 1) / (2 * parts)
    return Work(sources + rows, 0, text.target)


def count_base_masked(text: Text) -> Work:
    """Count the same with masked keys: a word that no state attends to is not read.

    Of the source the rule's word and what stands behind; of the target BOS, the rule's word, and
    the place that predicts.
    """
    sources = min(text.source, text.target) * (1 + text.between)
    return Work(sources + 3 * text.target, 0, text.target)


WORK = {
    "labels": count_labels,
    "attention": count_attention,
    "gradients": count_gradients,
    "prediction difference": count_prediction_difference,
    "Base": count_base,
    "Base, masked keys": count_base_masked,
}


@dataclass(frozen=True)
class Cost:
    """What all sentences cost.

    Attributes:
        positions: read and walked back through.
        passes: each reads all weights.
        seconds: of the slower of products and reading of weights.
        memory: bytes.
    """

    positions: float
    passes: float
    seconds: float
    memory: float


def count_operations(sizes: Sizes, text: Text, work: Work, prompts: float) -> float:
    """Return the operations of a sentence's matrix products.

    Args:
        sizes: of the model.
        text: lengths of the sentence.
        work: what is read, walked back through and asked.
        prompts: how often the prompt is read for it.
    """
    reading = work.read * sizes.read(text.keys)
    reading += prompts * text.prompt * sizes.read(text.prompt / 2)
    # Walking back makes no gradients of weights, so a matrix costs once; attention has two factors.
    walking = work.walked * (sizes.read(text.keys) + sizes.attended(text.keys))
    return reading + walking + work.output_states * sizes.output


def calculate(sizes: Sizes, text: Text, work: Work, precision: str) -> Cost:
    """Return what 1,000 sentences cost."""
    together = GRADIENT_PASS if work.walked else PASS
    positions = SENTENCES * (work.read + work.walked)
    passes = positions / together
    operations = SENTENCES * count_operations(sizes, text, work, passes / SENTENCES)
    weights = sizes.weights * NUMBER[precision]
    seconds = max(operations / (SHARE * PEAK[precision]), passes * weights / BANDWIDTH)
    numbers = keep_of_graph(sizes, text) if work.walked else keep_of_pass(sizes, text)
    return Cost(positions, passes, seconds, weights + together * numbers * NUMBER[precision])


def keep_of_pass(sizes: Sizes, text: Text) -> float:
    """Numbers that a pass holds for a position: keys and values, and the work of one layer.

    One layer holds the state twice, both halves of the feed-forward block, and weights over keys
    before and after the softmax.
    """
    keys_values = 2 * sizes.layers * sizes.key_heads * sizes.head
    widest = max(2 * sizes.inner, 2 * sizes.heads * (text.prompt + text.row))
    return keys_values + 2 * sizes.dimension + widest


def keep_of_graph(sizes: Sizes, text: Text) -> float:
    """Numbers that are kept for a position so that steps can walk back: of every layer.

    Norms keep their input and its scaled form, the feed-forward block its two halves, the
    activation and their product, attention queries, keys, values and its weights.
    """
    attention = sizes.head * (sizes.heads + 2 * sizes.key_heads)
    attention += sizes.heads * (text.prompt + text.row)
    return sizes.layers * (4 * sizes.dimension + 4 * sizes.inner + attention)


def print_costs(text: Text, precision: str) -> None:
    """Print a row for each model and each piece of work."""
    table = Table("model", "work", "positions", "passes", "GiB", "seconds")
    for name, sizes in MODELS.items():
        for title, count in WORK.items():
            cost = calculate(sizes, text, count(text), precision)
            table.add_row(
                name, title, f"{cost.positions:,.0f}", f"{cost.passes:,.0f}",
                f"{cost.memory / GIBIBYTE:.1f}", f"{cost.seconds:,.1f}",
            )  # fmt: skip
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, length, described in (
        ("prompt", 75, "before the source"), ("source", 25, "of the source"),
        ("between", 3, "between source and target"), ("target", 25, "of the target, with its end"),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=length, help=f"pieces {described}")
    parser.add_argument("--precision", choices=PEAK, default="bfloat16")
    options = parser.parse_args()
    text = Text(options.prompt, options.source, options.between, options.target)
    print_costs(text, options.precision)


if __name__ == "__main__":
    main()
