"""Configurations of small jobs, as command lines compose them."""

from __future__ import annotations

import pickle
from functools import cache
from pathlib import Path

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from support.paths import ROOT

SYSTEMS = ("transformer", "rnn_search")
STORED = (*SYSTEMS, "decoder_only")  # whose weights are in `fixtures/systems`
CONTEXT_AWARE = ("multi_encoder", "cadec", "s_hier_to_2")
# A system that has learnt enough of the toy corpus for its explanations to mean something.
SMALL = [
    "corpus.train=3000",
    "corpus.valid=60",
    "corpus.test=100",
    "corpus.subwords.source_size=500",
    "corpus.subwords.target_size=600",
    "rules.train_sentences=300",
    "rules.shard_sentences=150",
    "rules.largest_k=3",
    "nmt.training.max_epochs=8",
    "nmt.training.batch_tokens=800",
    "nmt.training.learning_rate=0.003",
    "nmt.training.warmup_steps=200",
    "proxy.training.max_epochs=6",
    "trainer.progress_bar=false",
    "device=cpu",
    "threads=1",
]
# Trains in seconds, and knows nothing: what holds by construction holds of it too.
GENERATED = [
    "corpus=toy_discourse", "corpus.train=400", "corpus.valid=30", "corpus.test=30",
    "corpus.families=5", "corpus.subwords.source_size=300", "corpus.subwords.target_size=300",
    "nmt.sizes.dimension=32", "nmt.training.max_epochs=1", "nmt.training.batch_tokens=1500",
    "nmt.beam=1", "trainer.progress_bar=false", "device=cpu", "threads=1",
]  # fmt: skip
TRANSFORMER = ["nmt.sizes.feed_forward=32", "nmt.sizes.layers=1"]
DISCOURSE = [*GENERATED, *TRANSFORMER]
DISCOURSE_SIZES = {
    "multi_encoder": TRANSFORMER,
    "cadec": [*TRANSFORMER, "nmt.sizes.second_layers=2"],
    "s_hier_to_2": ["nmt.sizes.encoder_hidden=24", "nmt.sizes.decoder_hidden=40"],
}
SIZES = {
    "transformer": [
        "nmt.sizes.dimension=64",
        "nmt.sizes.feed_forward=128",
        "nmt.sizes.dropout=0",
        "nmt.training.max_epochs=6",
        "nmt.training.batch_tokens=1000",
        "nmt.training.learning_rate=0.005",
        "nmt.training.warmup_steps=80",
    ],
    "decoder_only": [
        "nmt.sizes.layers=2",
        "nmt.sizes.dimension=64",
        "nmt.sizes.feed_forward=86",
        "nmt.sizes.dropout=0",
        "nmt.training.max_epochs=6",
        "nmt.training.batch_tokens=1000",
        "nmt.training.learning_rate=0.005",
        "nmt.training.warmup_steps=80",
    ],
    "rnn_search": [
        "nmt.sizes.dimension=64",
        "nmt.sizes.encoder_hidden=64",
        "nmt.sizes.decoder_hidden=96",
        "nmt.training.max_epochs=6",
        "nmt.training.learning_rate=0.008",
        "nmt.training.warmup_steps=100",
    ],
}


def overrides(system: str, workplace: Path | None = None) -> list[str]:
    """The command line of a small job, in the store of a workplace if one is given."""
    store = [f"store={workplace}/store"] if workplace else []
    return [f"nmt={system}", *SMALL, *SIZES[system], *store]


def configure(*changes: str) -> DictConfig:
    """The configuration of a command line."""
    return pickle.loads(_composed(changes))


@cache
def _composed(changes: tuple[str, ...]) -> bytes:
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        return pickle.dumps(compose("config", overrides=list(changes)))
