"""Attention over coreference links, on a concatenation model of the toy corpus."""

import csv
import json
import math

import numpy as np
import pytest
import torch

from support.configurations import SIZES, SMALL, configure, overrides
from support.debug_page_reader import read_listings
from support.forked_commands import must_run
from support.systems import context_aware
from xnmt_bench.corpora.vocabulary.subwords import SEPARATOR
from xnmt_bench.errors import NotApplicable
from xnmt_bench.explainers.base import Explainer, Relevance
from xnmt_bench.explainers.random import Random
from xnmt_bench.measuring.units import Units
from xnmt_bench.metrics.coref_attention import CorefAttention
from xnmt_bench.metrics.coref_attention.context import ContextWeights
from xnmt_bench.metrics.coref_attention.link_attention import coref_scores
from xnmt_bench.metrics.coref_attention.metric import SHUFFLED, UNIFORM
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.pipeline.job import Job
from xnmt_bench.words.pieces import to_words

SMALL_CONCAT = [
    "nmt=concat", *SMALL, *SIZES["transformer"], "corpus.train=600", "corpus.valid=60",
    "corpus.test=60", "nmt.training.max_epochs=1", "nmt.training.batch_tokens=2000", "nmt.beam=1",
    "metric=[coref_attention]",
    "corpus.subwords.source_size=200", "corpus.subwords.target_size=200",  # so that words split
]  # fmt: skip


class Weighed:
    """A job's weights over the context, and what the metric makes of them."""

    def __init__(self, workplace, explainer, *extra, **options):
        changes = [*SMALL_CONCAT, f"store={workplace}/store", f"explainer={explainer}", *extra]
        self.job = Job(configure(*changes))
        self.context, self.metric = ContextWeights(self.job), CorefAttention(**options)

    @property
    def coreference(self):
        return self.metric.weighed(self.job, self.context)

    @property
    def uniform(self):
        return self.metric.weighed(self.job, self.context, UNIFORM)

    @property
    def shuffled(self):
        return self.metric.weighed(self.job, self.context, SHUFFLED)

    def weights(self, index):
        return next(blocks for i, blocks in self.context.weights() if i == index)


@pytest.fixture(scope="module")
def attention(workplace):
    weighed = Weighed(workplace, "attention")
    every = [*weighed.context.weights()]  # read once for all tests
    weighed.context.weights = lambda: iter(every)
    return weighed


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
    weights = model.encoder_attention(model.embed_source(batch.source_BS), batch.layout)
    pieces = weights[0, -1].mean(0).double()
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
        side_units, gold = units(attention.coreference, side), links(attention.context, side)
        by_sentence = np.zeros(len(attention.context.sentences))
        for (sentence, _), count in gold.items():
            by_sentence[sentence] += count
        assert side_units["links"].tolist() == by_sentence.tolist()
        assert side_units.number_U.tolist() == attention.context.numbers
        distances = {distance for (_, distance), count in gold.items() if count}
        assert distances <= {1, 2, 3}
        for distance in distances:
            of = units(attention.coreference, side, f"distance {distance}")
            assert of["links"].sum() == sum(n for (_, d), n in gold.items() if d == distance)
        # Each link's weight is a share of the greatest.
        assert (side_units["weight"] >= 0).all()
        assert (side_units["greatest"] <= side_units["weight"] + 1e-4).all()
        assert (side_units["weight"] <= side_units["nonzero"]).all()
        assert (side_units["nonzero"] <= side_units["links"]).all()
    assert units(attention.coreference, "source")["links"].sum() > 30


def test_positive_attention_is_a_weight_above_the_uniform_one_anywhere(attention):
    """Counted from the raw weights, link by link."""
    counts = {side: np.zeros(len(attention.context.sentences)) for side in ("source", "target")}
    for index, sides in attention.context.weights():
        for side, blocks in sides.items():
            spoken = attention.context.spoken[side]
            for distance, raw in enumerate(blocks, start=1):
                for mention in spoken[index].mentions:
                    looks = any(w > (1 + 1e-5) / len(raw[i]) for i in mention.words for w in raw[i])
                    chains = [a.chain for a in spoken[index - distance].mentions]
                    counts[side][index] += looks * chains.count(mention.chain)
    for side, by_sentence in counts.items():
        side_units = units(attention.coreference, side)
        assert side_units["positive"].tolist() == by_sentence.tolist()
        assert (side_units["nonzero"] <= side_units["positive"]).all()
        assert (side_units["naive"] <= side_units["nonzero"]).all()
    side_units = units(attention.coreference, "source")
    group = units(attention.coreference, "source", "positive attention")
    assert 0 < group["links"].sum() < side_units["links"].sum()
    assert group["links"].tolist() == counts["source"].tolist()
    for column in ("nonzero", "greatest", "naive", "weight"):
        np.testing.assert_allclose(group[column], side_units[column])


def test_subsets_are_parts_of_all_links(attention):
    artefact = attention.coreference
    for side in ("source", "target"):
        all_links, subsets = units(artefact, side), artefact.facts["subsets"][side]
        assert {p.stem for p in artefact.path.glob(f"{side} *.parquet")} == {
            f"{side} {subset}" for subset in ("all", *subsets)
        }
        by_distance = [units(artefact, side, s) for s in subsets if s.startswith("distance")]
        assert sum(u["links"].sum() for u in by_distance) == all_links["links"].sum()
        assert np.isclose(sum(u["weight"].sum() for u in by_distance), all_links["weight"].sum())
        for subset in subsets:
            part = units(artefact, side, subset)
            assert part["links"].sum() > 0
            assert all((part[c] <= all_links[c] + 1e-9).all() for c in part.columns)


def test_mentions_of_the_target_stand_on_the_systems_own_output(attention):
    artefact = attention.job.translations().made("test")
    outputs = (artefact.path / "test.txt").read_text().split("\n")
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


def test_shuffled_weights_are_the_same_in_other_places(attention):
    dealt = dict(attention.context.shuffled(0))
    assert all(np.array_equal(a, b)
               for i, sides in attention.context.shuffled(0) for side in sides
               for a, b in zip(sides[side], dealt[i][side], strict=True))  # fmt: skip
    moved = 0
    for index, sides in attention.context.weights():
        for side, blocks in sides.items():
            for raw, other in zip(blocks, dealt[index][side], strict=True):
                assert sorted(map(tuple, raw.T)) == sorted(map(tuple, other.T))  # whole columns
                moved += not np.array_equal(raw, other)
    assert moved > 50
    for side in ("source", "target"):
        weighed, chance = units(attention.coreference, side), units(attention.shuffled, side)
        # Where a mention looks is another matter, but not whether, nor at how many words.
        for name in ("links", "positive", "attending"):
            assert weighed[name].tolist() == chance[name].tolist(), name
        assert (weighed["content"] + weighed["function"]).tolist() == (
            chance["content"] + chance["function"]
        ).tolist()


def test_floors_are_not_of_altered_explainers(workplace):
    """Which would be compared with the noise of the explainer, and in no table."""
    explainers = {}
    for name in ("attention", "noisy"):
        changes = ["explainer.phi.of=attention"] if name == "noisy" else []
        job = Job(
            configure(*SMALL_CONCAT, f"store={workplace}/store", f"explainer={name}", *changes)
        )
        rows = [planned.keys["explainer"] for planned in CorefAttention().measure(job)]
        explainers[name] = list(dict.fromkeys(rows))
    assert explainers["attention"] == ["attention", "attention, shuffled", "uniform"]
    assert explainers["noisy"] == ["noisy[of=attention]"]


def test_only_the_nearest_antecedent(attention):
    every = units(attention.coreference, "source")
    nearest = CorefAttention(nearest=True)
    fewer = units(nearest.weighed(attention.job, attention.context), "source")
    assert 0 < fewer["links"].sum() < every["links"].sum()
    assert (fewer["links"] <= every["links"]).all()


@pytest.mark.parametrize("name", ["random", pytest.param("gradient_norm", marks=pytest.mark.slow)])
def test_any_explainers_relevance_is_scored(workplace, name):
    weighed = Weighed(workplace, name)
    source_units = units(weighed.coreference, "source")
    # Words drawn alike hardly ever differ enough to be significant.
    assert source_units["links"].sum() > 30
    assert source_units["weight"].max() > 0 or name == "random"
    index = next(i for i in range(10) if weighed.context.depth(i) == 2)
    for side, blocks in weighed.weights(index).items():
        spoken = weighed.context.spoken[side]
        assert len(blocks) == 2
        for distance, block in enumerate(blocks, start=1):
            shape = (len(spoken[index].words), len(spoken[index - distance].words))
            assert block.shape == shape
            assert np.isfinite(block).all()
            assert (block >= 0).all()
            assert (block.sum(1) <= 1 + 1e-9).all()


def test_a_drawn_word_is_as_often_the_greatest_whatever_its_pieces():
    pieces = [1, 4, 1, 2, 1, 3]  # of each source word
    columns, rows = [w for w, n in enumerate(pieces) for _ in range(n)] + [-1], [0, 0, 0, -1]
    batch = Batch.collate([(range(10, 10 + len(columns)), range(10, 10 + len(rows)))])
    draws = [Random(seed).relevance(None, batch).source_BTS[0].numpy() for seed in range(3000)]

    def greatest(blind):
        best = [to_words(draw, rows, columns, blind=blind)[0].argmax() for draw in draws]
        return np.bincount(best, minlength=len(pieces)) / len(draws)

    even, spread = 1 / 6, math.sqrt(1 / 6 * 5 / 6 / len(draws))
    assert np.abs(greatest(blind=True) - even).max() < 4 * spread
    # Sums over pieces, as of attention, are not a blind draw of words.
    summed = greatest(blind=False)
    assert summed[1] > 2 * even > 100 * summed[0]


def test_pieces_behind_the_first_are_nothing_to_a_blind_word():
    rows, columns = [0, 0, 1, -1], [0, 1, 1, 1, 2, 2, -1]
    generator = np.random.default_rng(0)
    draw = generator.random((4, 7))
    of_words = to_words(draw, rows, columns, blind=True)
    assert of_words.tolist() == [[draw[t, s] for s in (0, 1, 4)] for t in (0, 2)]
    other = generator.random((4, 7))
    other[np.ix_([0, 2], [0, 1, 4])] = draw[np.ix_([0, 2], [0, 1, 4])]
    assert (to_words(other, rows, columns, blind=True) == of_words).all()
    assert to_words(draw, [-1] * 4, columns, blind=True).shape == (0, 3)


@pytest.mark.slow
def test_blind_words_alone_are_those_of_their_first_pieces(workplace, monkeypatch):
    called = []

    def counted(*arguments):
        called.append((name, arguments[-1]))
        return to_words(*arguments)

    monkeypatch.setattr("xnmt_bench.metrics.coref_attention.context.to_words", counted)
    for name in ("random", "gradient_norm"):
        weighed = Weighed(workplace, name)
        index = next(i for i in range(10) if weighed.context.depth(i) == 2)
        assert weighed.weights(index)
    assert set(called) == {("random", True), ("gradient_norm", False)}


class OnlyNow(Explainer):
    """The current steps look at the current sentence alone, those of the context at everything."""

    def relevance(self, model, batch):
        now = batch.layout.source_BS == batch.layout.source_BS.amax(1, keepdim=True)
        source = torch.where(batch.current_BT[:, :, None], now[:, None].double(), 1.0)
        return Relevance.of_inputs(batch, source, torch.zeros(batch.target_BT.shape).diag_embed())


def test_steps_of_the_context_say_nothing_of_the_current_sentence(workplace):
    weighed = Weighed(workplace, "gradient_norm")
    weighed.job.explained.__dict__["explainer"] = OnlyNow()
    depth, spoken = weighed.context.depth, weighed.context.spoken["target"]
    index = next(i for i in range(10) if depth(i) == 2 and spoken[i].words)
    blocks = weighed.weights(index)["source"]
    assert len(blocks) == 2
    assert all(block.max() == 0 for block in blocks)


def test_a_system_without_context_is_not_applicable(workplace, transformer):
    options = [*overrides("transformer"), "metric=[coref_attention]", "corpus.seed=0"]
    job = Job(configure(*options, f"store={workplace}/store"))
    with pytest.raises(NotApplicable, match="reads no context"):
        _ = CorefAttention().weighed(job, ContextWeights(job))


@pytest.mark.slow
def test_from_the_command_line(attention, workplace, tmp_path):
    options = [*SMALL_CONCAT, f"store={workplace}/store", f"results={tmp_path}/results"]
    must_run("train.py", "-m", *options, "explainer=attention,random",
             f"hydra.sweep.dir={tmp_path}/sweep")  # fmt: skip
    read = must_run("evaluate.py", *options, f"hydra.run.dir={tmp_path}/run")
    assert "Attention over coreference links" in read.stdout
    assert "its translations have" in " ".join(read.stdout.split())
    with (tmp_path / "results" / "coref_attention.csv").open() as file:
        rows = list(csv.DictReader(file))
    kinds = {(r["explainer"], r["side"], r["links_of"]) for r in rows}
    assert {e for e, _, _ in kinds} == {"attention", "attention, shuffled", "random", "uniform"}
    assert {r["explainer"] for r in rows if r["remarks"] != "blind"} == {"attention"}
    assert {s for _, s, _ in kinds} == {"source", "target"}
    assert "context needed, hard" in {k for _, _, k in kinds}
    uniform = [r for r in rows if r["explainer"] == "uniform" and r["links_of"] == "all"]
    assert all(float(r["nonzero"]) == 0 for r in uniform)
    attention_rows = [r for r in rows if r["explainer"] == "attention" and r["links_of"] == "all"]
    for row in attention_rows:
        assert float(row["nonzero_low"]) <= float(row["nonzero"]) <= float(row["nonzero_high"])
    source_units = units(attention.coreference, "source")
    sums = {name: column.sum(keepdims=True) for name, column in source_units.columns.items()}
    [row] = [r for r in attention_rows if r["side"] == "source"]
    for name, [value] in coref_scores(sums).items():
        assert float(row[name]) == pytest.approx(value), name
    _heatmaps_are_drawn(attention, tmp_path / "results")


def _heatmaps_are_drawn(attention, results):
    """On the page on which sentences are read, and files for a paper."""
    assert 'href="debug.html"' in (results / "report.html").read_text(encoding="utf-8")
    described = json.loads((attention.coreference.path / "examples.json").read_text())
    examples = {example["title"]: example for side in described.values() for example in side}
    listings = [
        listing
        for listing in read_listings(results / "debug.html")
        if listing["name"].startswith("attention, ")
    ]
    titles = [title for listing in listings for title in listing["texts"]["where"]]
    assert 2 <= len(titles) <= 6
    assert sorted(titles) == sorted(examples)
    for listing in listings:
        for title, shown in zip(listing["texts"]["where"], listing["shown"], strict=True):
            example = examples[title]
            assert (shown["rows"], shown["columns"]) == (example["current"], example["context"])
            assert shown["levels"] / 250 == pytest.approx(np.array(example["weights"]), abs=0.005)
            cells = {(i, n) for current, two in example["links"] for i in current for n in two}
            assert set(map(tuple, shown["framed"])) == cells
    for ending in ("svg", "png"):
        drawn = list((results / "coref_attention").glob(f"*attention*.{ending}"))
        assert len(drawn) == len(titles)
        assert all(path.stat().st_size > 1000 for path in drawn)
    assert list((results / "coref_attention").glob("*random*.svg"))


def test_a_multi_encoders_weights_are_its_first_level(workplace):
    """One block a context sentence, whose EOS is the last of its words; the mean of the heads."""
    job = context_aware("multi_encoder", workplace, "explainer=attention")
    context, split, model = ContextWeights(job), job.texts.split("test"), job.system.model
    examined = 0
    for index, sides in context.weights():
        assert set(sides) == {"source"}  # it reads no translation of the context
        ids = split.source[index]
        batch = Batch.collate([(ids, split.target[index])])
        weights = model.encoder_attention(model.embed_source(batch.source_BS), batch.layout)
        pieces = weights[0, -1].mean(0).double()
        ends = [*(np.flatnonzero(ids == SEPARATOR) + 1).tolist(), len(ids)]
        starts = [0, *ends[:-1]]
        subwords = job.system.subwords[0]
        current = subwords.words(ids[starts[-1] : ends[-1] - 1].tolist())
        for back, block in enumerate(sides["source"], start=1):
            a, b = starts[-1 - back], ends[-1 - back]
            words = subwords.words(ids[a : b - 1].tolist())
            words.append(max(words) + 1)  # EOS
            expected = np.zeros((max(current) + 1, max(words) + 1))
            for piece, i in enumerate(current):
                for other, n in enumerate(words):
                    share = float(pieces[starts[-1] + piece, a + other])
                    expected[i, n] += share / current.count(i)
            np.testing.assert_allclose(block, expected, rtol=1e-5, atol=1e-9)
            np.testing.assert_allclose(block.sum(1), 1, rtol=1e-5)
            examined += 1
    assert examined > 20
    rows = CorefAttention().weighed(job, context)
    drawn = json.loads((rows.path / "examples.json").read_text())["source"]
    assert all(example["context"][-1] == "</s>" for example in drawn)
    assert drawn
