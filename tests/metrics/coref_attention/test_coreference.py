"""Attention over coreference links, on a concatenation model of the toy corpus."""

import csv
import json

import numpy as np
import pytest
import torch
from conftest import SIZES, SMALL, command, configure, overrides

from xnmt_bench.corpora.subwords import SEPARATOR
from xnmt_bench.errors import NotApplicable
from xnmt_bench.explainers.base import Explainer, Relevance
from xnmt_bench.metrics.coref_attention import CorefAttention
from xnmt_bench.metrics.coref_attention.context import ContextWeights
from xnmt_bench.metrics.coref_attention.links import coref_scores
from xnmt_bench.metrics.units import Units
from xnmt_bench.nmt.base import Batch
from xnmt_bench.pipeline.job import Job

SMALL_CONCAT = [
    "nmt=concat", *SMALL, *SIZES["transformer"], "corpus.train=1200", "corpus.valid=60",
    "corpus.test=60", "nmt.training.max_epochs=2", "nmt.training.batch_tokens=2000", "nmt.beam=1",
    "metric=[coref_attention]",
]  # fmt: skip


class Weighed:
    """A job's weights over the context, and what the metric makes of them."""

    def __init__(self, workplace, explainer, *more, **options):
        changes = [*SMALL_CONCAT, f"store={workplace}/store", f"explainer={explainer}", *more]
        self.job = Job(configure(*changes))
        self.context, self.metric = ContextWeights(self.job), CorefAttention(**options)

    @property
    def coreference(self):
        return self.metric.weighed(self.job, self.context)

    @property
    def uniform(self):
        return self.metric.uniform(self.job, self.context)

    def weights(self, index):
        return next(blocks for i, blocks in self.context.weights() if i == index)


@pytest.fixture(scope="module")
def attention(workplace):
    return Weighed(workplace, "attention")


def units(artefact, side, subset="all"):
    return Units.load(artefact.path / f"{side} {subset}.parquet")


def links(context, side):
    """By sentence and distance, how many links the gold has."""
    spoken, counts = context.spoken[side], {}
    for i in range(len(spoken)):
        for distance in range(1, context.depth(i) + 1):
            earlier = spoken[i - distance].mentions
            pairs = sum(m.chain == a.chain for m in spoken[i].mentions for a in earlier)
            counts[i, distance] = pairs
    return counts


def test_weights_are_those_of_the_models_self_attention(attention):
    """Recomputed word by word from the pieces' attention."""
    split = attention.job.texts.split("test")
    index = next(i for i in range(len(split)) if (split.source[i] == SEPARATOR).sum() == 2)
    near, far = attention.weights(index)["source"]
    spoken = attention.context.spoken["source"]
    assert near.shape == (len(spoken[index].words), len(spoken[index - 1].words))
    assert far.shape == (len(spoken[index].words), len(spoken[index - 2].words))
    model, ids = attention.job.system.model, split.source[index]
    batch = Batch.collate([(ids, split.target[index])])
    whole = model.encoder_attention(model.embed_source(batch.source_BS), batch.layout)
    pieces = whole[0, -1].mean(0).double()
    ends = [*np.flatnonzero(ids == SEPARATOR).tolist(), len(ids) - 1]
    starts = [0, *(end + 1 for end in ends[:-1])]
    subwords = attention.job.system.subwords[0]
    words = [torch.tensor(subwords.words(ids[a:b].tolist()))
             for a, b in zip(starts, ends, strict=True)]  # fmt: skip
    rows = torch.arange(starts[-1], ends[-1])
    for block, place in ((near, 1), (far, 0)):
        columns = torch.arange(starts[place], ends[place])
        for i in range(block.shape[0]):
            for n in range(block.shape[1]):
                part = pieces[rows[words[-1] == i]][:, columns[words[place] == n]]
                assert block[i, n] == pytest.approx(float(part.sum(1).mean()), rel=1e-5)


def test_links_are_those_of_the_gold(attention):
    for side in ("source", "target"):
        found, gold = units(attention.coreference, side), links(attention.context, side)
        by_sentence = np.zeros(len(attention.context.sentences))
        for (sentence, _), count in gold.items():
            by_sentence[sentence] += count
        assert found["links"].tolist() == by_sentence.tolist()
        assert found.number_U.tolist() == attention.context.numbers
        distances = {distance for (_, distance), count in gold.items() if count}
        assert distances <= {1, 2, 3}
        for distance in distances:
            of = units(attention.coreference, side, f"distance {distance}")
            assert of["links"].sum() == sum(n for (_, d), n in gold.items() if d == distance)
        # Each link's weight is a share of the greatest.
        assert (found["weight"] >= 0).all()
        assert (found["greatest"] <= found["weight"] + 1e-4).all()
        assert (found["weight"] <= found["nonzero"]).all()
        assert (found["nonzero"] <= found["links"]).all()
    assert units(attention.coreference, "source")["links"].sum() > 30


def test_subsets_are_parts_of_all_links(attention):
    made = attention.coreference
    for side in ("source", "target"):
        whole, subsets = units(made, side), made.facts["subsets"][side]
        assert {p.stem for p in made.path.glob(f"{side} *.parquet")} == {
            f"{side} {subset}" for subset in ("all", *subsets)
        }
        by_distance = [units(made, side, s) for s in subsets if s.startswith("distance")]
        assert sum(u["links"].sum() for u in by_distance) == whole["links"].sum()
        assert np.isclose(sum(u["weight"].sum() for u in by_distance), whole["weight"].sum())
        for subset in subsets:
            part = units(made, side, subset)
            assert part["links"].sum() > 0
            assert all((part[c] <= whole[c] + 1e-9).all() for c in part.columns)


def test_mentions_of_the_target_stand_on_the_systems_own_output(attention):
    made = attention.job.translations().made("test")
    outputs = (made.path / "test.txt").read_text().split("\n")
    for spoken, output in zip(attention.context.spoken["target"], outputs, strict=False):
        assert spoken.words == output.split()
        for mention in spoken.mentions:
            assert mention.texts == tuple(spoken.words[w] for w in mention.words)
    assert units(attention.coreference, "target")["links"].sum() > 10


def test_uniform_attention_has_no_significant_weight(attention):
    for side in ("source", "target"):
        floor = units(attention.uniform, side)
        assert floor["weight"].max() == floor["nonzero"].max() == 0
        assert floor["links"].tolist() == units(attention.coreference, side)["links"].tolist()


def test_only_the_nearest_antecedent(attention, workplace):
    every = units(attention.coreference, "source")
    fewer = units(Weighed(workplace, "attention", nearest=True).coreference, "source")
    assert 0 < fewer["links"].sum() < every["links"].sum()
    assert (fewer["links"] <= every["links"]).all()


def test_any_explainers_relevance_is_scored(workplace):
    for name in ("random", "gradient_norm"):
        made = Weighed(workplace, name)
        found = units(made.coreference, "source")
        assert found["weight"].max() > 0
        index = next(i for i in range(10) if made.context.depth(i) == 2)
        for side, blocks in made.weights(index).items():
            spoken = made.context.spoken[side]
            assert len(blocks) == 2
            for distance, block in enumerate(blocks, start=1):
                shape = (len(spoken[index].words), len(spoken[index - distance].words))
                assert block.shape == shape
                assert np.isfinite(block).all()
                assert (block >= 0).all()
                assert (block.sum(1) <= 1 + 1e-9).all()


class OnlyNow(Explainer):
    """The current steps look at the current sentence alone, those of the context at everything."""

    def relevance(self, model, batch):
        now = batch.layout.source_BS == batch.layout.source_BS.amax(1, keepdim=True)
        source = torch.where(batch.current_BT[:, :, None], now[:, None].double(), 1.0)
        return Relevance.of_inputs(batch, source, torch.zeros(batch.target_BT.shape).diag_embed())


def test_steps_of_the_context_say_nothing_of_the_current_sentence(workplace):
    made = Weighed(workplace, "gradient_norm")
    made.job.explained.__dict__["explainer"] = OnlyNow()
    depth, spoken = made.context.depth, made.context.spoken["target"]
    index = next(i for i in range(10) if depth(i) == 2 and spoken[i].words)
    blocks = made.weights(index)["source"]
    assert len(blocks) == 2
    assert all(block.max() == 0 for block in blocks)


def test_a_system_without_context_is_not_applicable(workplace, transformer):
    given = [*overrides("transformer"), "metric=[coref_attention]", "corpus.seed=0"]
    job = Job(configure(*given, f"store={workplace}/store"))
    with pytest.raises(NotApplicable, match="reads no context"):
        _ = CorefAttention().weighed(job, ContextWeights(job))


def test_from_the_command_line(attention, workplace, tmp_path):
    given = [*SMALL_CONCAT, f"store={workplace}/store", f"results={tmp_path}/results"]
    made = command("train.py", "-m", *given, "explainer=attention,random",
                   f"hydra.sweep.dir={tmp_path}/sweep")  # fmt: skip
    assert made.returncode == 0, made.stderr
    read = command("evaluate.py", *given, f"hydra.run.dir={tmp_path}/run")
    assert read.returncode == 0, read.stderr
    assert "Attention over coreference links" in read.stdout
    assert "its translations have" in " ".join(read.stdout.split())
    with (tmp_path / "results" / "coref_attention.csv").open() as file:
        rows = list(csv.DictReader(file))
    kinds = {(r["explainer"], r["side"], r["links_of"]) for r in rows}
    assert {e for e, _, _ in kinds} == {"attention", "random", "uniform"}
    assert {s for _, s, _ in kinds} == {"source", "target"}
    assert "context needed, hard" in {k for _, _, k in kinds}
    uniform = [r for r in rows if r["explainer"] == "uniform" and r["links_of"] == "all"]
    assert all(float(r["nonzero"]) == 0 for r in uniform)
    mine = [r for r in rows if r["explainer"] == "attention" and r["links_of"] == "all"]
    for row in mine:
        assert float(row["nonzero_low"]) <= float(row["nonzero"]) <= float(row["nonzero_high"])
    whole = units(attention.coreference, "source")
    sums = {name: column.sum(keepdims=True) for name, column in whole.columns.items()}
    [row] = [r for r in mine if r["side"] == "source"]
    for name, [value] in coref_scores(sums).items():
        assert float(row[name]) == pytest.approx(value), name
    _heatmaps_are_drawn(attention, tmp_path / "results")


def _heatmaps_are_drawn(attention, results):
    """A section of the page, and files for a paper."""
    page = (results / "report.html").read_text(encoding="utf-8")
    assert '<section id="coref_heatmaps">' in page
    described = json.loads((attention.coreference.path / "examples.json").read_text())
    titles = [example["title"] for side in described.values() for example in side]
    assert 2 <= len(titles) <= 6
    assert all(f"<h3>{title}</h3>" in page for title in titles)
    for ending in ("svg", "png"):
        drawn = list((results / "coref_attention").glob(f"*attention*.{ending}"))
        assert len(drawn) == len(titles)
        assert all(path.stat().st_size > 1000 for path in drawn)
    assert list((results / "coref_attention").glob("*random*.svg"))
