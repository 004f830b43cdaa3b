"""Changed models by hand, numbers against slow loops, and explainers whose place is known."""

import csv
from itertools import islice

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import xnmt_bench
from support.configurations import overrides
from support.example_rows import SYSTEM, measured
from support.forked_commands import must_run
from support.systems import batch_of, small_job
from xnmt_bench.corpora.vocabulary.subwords import SPECIAL, WORDS
from xnmt_bench.explainers.base import decide
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.measuring.units import Units
from xnmt_bench.metrics.robustness import Robustness
from xnmt_bench.metrics.robustness.changes import group_weights, move_embeddings, permute_weights
from xnmt_bench.metrics.robustness.comparing import compare_order, correlate_ranks, distances
from xnmt_bench.registry import create, load_explainer
from xnmt_bench.report.panels import panels
from xnmt_bench.report.report import collect
from xnmt_bench.report.standing import standings_of
from xnmt_bench.report.verdict import verdict
from xnmt_bench.rules.extract import TEACHER_FORCING
from xnmt_bench.rules.table import SentenceRelevance, all_rules


def state_of(model):
    return {name: weight.clone() for name, weight in model.state_dict().items()}


def assert_untouched(model, before):
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, before[name]), name


def test_noise_moves_words_a_little_and_nothing_else(system):
    model, before = system.system.model, state_of(system.system.model)
    moved = move_embeddings(model, 0.1, [3])
    batch = batch_of(system.texts.split("test"), [0, 1])
    for side, ids in (("source", batch.source_BS), ("target", batch.input_BT)):
        embed = getattr(model, f"embed_{side}")
        noise = getattr(moved, f"embed_{side}")(ids) - embed(ids)
        words = ~torch.isin(ids, torch.tensor(SPECIAL))
        vocabulary = model.vocabularies[side == "target"]
        scale = embed(torch.arange(WORDS, len(vocabulary))[None]).square().mean().sqrt()
        assert (noise[~words] == 0).all()
        assert 0.09 * scale < noise[words].abs().max() <= 0.1001 * scale
        # A word has the same noise wherever it stands.
        word, other = ids[words][0], ids[words].ne(ids[words][0]).nonzero()[0, 0]
        noise_of_word = noise[words][ids[words] == word]
        assert torch.allclose(noise_of_word, noise_of_word[:1].expand_as(noise_of_word), atol=1e-5)
        assert not torch.allclose(noise_of_word[0], noise[words][other], atol=1e-3)
    assert moved(batch).isfinite().all()
    assert not torch.allclose(moved(batch), model(batch))
    again, other = (move_embeddings(model, 0.1, [seed])(batch) for seed in (3, 4))
    assert torch.equal(again, moved(batch))
    assert not torch.equal(other, again)
    for weight, original in zip(moved.parameters(), model.parameters(), strict=True):
        assert weight is original
    assert_untouched(model, before)


def groups_of(model):
    """Groups, each weight in one of them."""
    groups = group_weights(model)
    names = [name for members in groups.values() for name in members]
    assert len(set(names)) == len(names)
    return groups, {name for name, _ in model.named_parameters()} - set(names)


TRANSFORMER = ["decoder 1", "decoder 0", "encoder 1", "encoder 0", "embeddings"]
SIZES = {"transformer": {"layers": 2}, "cadec": {"layers": 2}}


@pytest.mark.parametrize(
    ("architecture", "expected"),
    [
        ("transformer", TRANSFORMER),
        ("rnn_search", ["output", "encoder", "embeddings"]),
        ("multi_encoder", ["output", *(f"base.{x}" for x in TRANSFORMER[:-1]), "embeddings"]),
    ],
)
def test_weights_are_grouped_from_the_output_down(architecture, expected):
    subwords = xnmt_bench.load("tatoeba_de_en").vocabularies
    model = create("architectures", architecture, *subwords, **SIZES.get(architecture, {}))
    groups, left_out = groups_of(model)
    assert [*groups] == expected
    assert not left_out


def test_a_weight_is_permuted_within_itself(system):
    model, before = system.system.model, state_of(system.system.model)
    groups = group_weights(model)
    names = groups["embeddings"] + groups[next(iter(groups))]
    changed = permute_weights(model, names, seed=1)
    for name, weight in changed.named_parameters():
        unchanged = torch.equal(weight, before[name])
        # A bias that has stayed 0 is the same in any order.
        assert unchanged == (name not in names or len(before[name].unique()) == 1)
        assert torch.equal(weight.flatten().sort()[0], before[name].flatten().sort()[0])
    all_names = [name for members in groups.values() for name in members]
    weight_of = dict(permute_weights(model, all_names, seed=1).named_parameters())
    for name in names:  # with all other weights permuted too
        assert torch.equal(weight_of[name], dict(changed.named_parameters())[name])
    # Two weights of one size are not permuted alike.
    pair = torch.nn.ParameterDict({name: torch.arange(20.0) for name in "ab"})
    alike = permute_weights(pair, ["a", "b"], seed=1)
    assert not torch.equal(alike["a"], alike["b"])
    # Shared weights stay shared.
    tied = getattr(model.output, "weight", None) is model.target_embedding.weight
    assert (changed.output.weight is changed.target_embedding.weight) == tied
    assert_untouched(model, before)


def relevance_of(rng, first=1, s=5, t=6):
    prefix = rng.normal(size=(t - first, t))
    for row, step in enumerate(range(first, t)):
        prefix[row, step:] = np.nan
    return SentenceRelevance(0, first, rng.normal(size=(t - first, s)), prefix, np.ones(t - first))


IDS = np.array([9, 8, 7, 6, SPECIAL[-1]]), np.array([9, 8, 7, 6, 5, SPECIAL[-1]])


def test_numbers_equal_a_slow_loop():
    rng = np.random.default_rng(0)
    reference, first, other = (relevance_of(rng) for _ in range(3))
    moved_N = distances(reference, [first, other], *IDS)
    compared = compare_order(reference, first, *IDS)
    for n in range(5):
        three = (reference, first, other)
        prefixes = [x.prefix_TT[n, : min(n + 1, 5)] for x in three]
        words = [x.source_TS[n, :4] for x in three]
        phi, *moved_scores = (np.concatenate(pair) for pair in zip(words, prefixes, strict=True))
        expected = max(np.linalg.norm(x - phi) for x in moved_scores) / np.linalg.norm(phi)
        assert moved_N[n] == pytest.approx(expected)
        assert compared["rank source"][n] == pytest.approx(spearmanr(*words[:2]).statistic)
        assert compared["top source"][n] == (words[0].argmax() == words[1].argmax())
        assert compared["chance source"][n] == 0.25
        if n == 0:  # one word has no order
            assert np.isnan(compared["rank prefix"][n])
        else:
            assert compared["rank prefix"][n] == pytest.approx(spearmanr(*prefixes[:2]).statistic)
            assert compared["chance prefix"][n] == pytest.approx(1 / len(prefixes[0]))


def test_scores_of_words_that_are_rounding_beside_those_of_eos_are_left_out():
    """The rest of a ratio to them would be the mean of all decisions."""
    reference, other = (relevance_of(np.random.default_rng(seed)) for seed in (0, 1))
    reference.source_TS[0] = [0, 0, 0, 1e-12, 1]
    reference.prefix_TT[0, 0] = 0
    moved_N = distances(reference, [other], *IDS)
    assert np.isnan(moved_N).tolist() == [True] + [False] * 4


def row_of(folder, name, depths, kept=0.5, alters=None, **keys):
    """A measurement of the order that is kept at some depths, the same on both sides."""
    columns = {"moved": np.ones(3), "of moved": np.ones(3), "rows": np.ones(3)}
    for depth in range(len(depths)):
        for side in ("source", "prefix"):
            for column, value in (("rank", kept), ("top", max(kept, 0.0)), ("chance", 0.25)):
                columns[f"{column} {side} at {depth}"] = np.full(3, value)
                columns[f"of {column} {side} at {depth}"] = np.ones(3)
    facts = {"depths": depths, "settings": {"radius": 0.05}}
    facts |= {"alters": [alters, "noisy", ""]} if alters else {}
    units = Units("toy test", np.arange(3), columns)
    identity = SYSTEM | {"explainer": name, "seed": ""} | keys
    return measured(Robustness, folder, identity, units, **facts)


def test_the_figure_has_a_row_of_axes_for_each_system_and_depths(tmp_path):
    row_of(tmp_path, "a", ["output", "embeddings"])
    row_of(tmp_path, "b", ["embeddings"])
    row_of(tmp_path, "a", ["output", "embeddings"], kept=-0.5, lang_pair="de-en")
    row_of(tmp_path, "noisy[of=a]", ["output", "embeddings"], alters="a")
    metric = Robustness()
    scored = collect(metric, tmp_path, Draws(20, 0))
    [(_, figure)] = metric.figures([row.measurement for row in scored])
    assert len(figure.axes) == 6
    drawn = {line.get_label() for ax in figure.axes for line in ax.lines}
    assert {"a", "b"} <= drawn
    assert "noisy[of=a]" not in drawn
    # Of one order that is kept and one that is reversed neither is averaged away.
    ends = {round(line.get_ydata()[-1], 3) for ax in figure.axes for line in ax.lines
            if line.get_label() == "a"}  # fmt: skip
    assert ends == {0.5, -0.5}


def test_no_order_is_as_good_as_a_reversed_one_and_blind_rows_are_not_beaten(tmp_path):
    for name, kept in (("reversed", -0.9), ("lost", 0.0), ("kept", 0.6)):
        row_of(tmp_path, name, ["embeddings"], kept)
    scored = collect(Robustness(), tmp_path, Draws(20, 0))
    [panel] = panels(Robustness(), scored)
    assert panel.rank("", "reversed") == panel.rank("", "lost") < panel.rank("", "kept")
    standings = standings_of(Robustness(), scored, Draws(20, 0))
    assert standings == [{}] and not list(verdict(Robustness(), scored, standings))
    chance = [note for note in Robustness().notes(scored) if "a drawn word" in note]
    assert chance == [
        "toy transformer: a drawn word would be the same first word in 25.0 % (source) and 25.0 % "
        "(prefix)."
    ]


def test_relevance_without_an_order():
    rng = np.random.default_rng(0)
    reference, flat = relevance_of(rng), relevance_of(rng)
    flat.source_TS[:] = 0
    flat.prefix_TT[~np.isnan(flat.prefix_TT)] = 0
    assert np.isnan(distances(flat, [reference], *IDS)).all()
    assert np.isnan(compare_order(flat, reference, *IDS)["rank source"]).all()
    assert (compare_order(reference, flat, *IDS)["rank source"] == 0).all()
    tied = np.array([1.0, 2, 2, 3])
    assert correlate_ranks(tied, tied) == pytest.approx(1)
    assert correlate_ranks(tied, -tied) == pytest.approx(-1)
    assert correlate_ranks(tied, np.ones(4)) == 0


def results_of(workplace, explainer):
    metric = Robustness(sentences=10, samples=2)
    [row] = metric.measure(small_job(workplace, "transformer", f"explainer={explainer}"))
    evidence = row.make()
    sums = {name: evidence.units[name].sum(keepdims=True) for name in evidence.units.columns}
    results = {name: float(x[0]) for name, x in metric.of_sums(sums).items()}
    return results | {"depths": evidence.facts["depths"]}


@pytest.mark.long
def test_blind_explainers_stay_as_they_are_and_others_do_not(workplace, transformer):
    asks = results_of(workplace, "gradient_norm")
    for name in ("random", "lexicon"):
        blind = results_of(workplace, name)
        assert blind["sensitivity"] == 0
        assert blind["rank_source"] == blind["rank_prefix"] == pytest.approx(1)
        assert blind["top_source"] == blind["top_prefix"] == 1
        assert blind["decisions"] == asks["decisions"] > 100
    assert abs(asks["rank_source"]) < 0.2
    assert asks["top_source"] < 0.35
    assert 0.01 < asks["sensitivity"] < 0.5
    assert asks["depths"] == TRANSFORMER


def test_labels_stay_those_of_the_system_as_it_is(workplace, transformer):
    """One sentence explained by hand, of a model without any of what it has learnt."""
    job = small_job(workplace, "transformer", "explainer=gradient_norm")
    names = [name for name, _ in transformer.system.model.named_parameters()]
    stored = job.explained.relevance_of_changed(
        lambda model: permute_weights(model, names, 0), 4, permuted=names, seed=0
    )
    split = job.texts.split("test")
    relevance = next(islice(stored.read(), 2, None))
    batch = batch_of(split, [2])
    batch, _ = decide(job.system.model, batch)
    changed = permute_weights(job.system.model, names, 0)
    by_changed, _ = decide(changed, batch_of(split, [2]))
    assert not torch.equal(batch.labels_BT, by_changed.labels_BT)
    expected = load_explainer("gradient_norm").relevance(changed, batch.labelled(batch.labels_BT))
    np.testing.assert_allclose(relevance.source_TS, expected.source_BTS[0], rtol=1e-4, atol=1e-9)
    kept = job.explained.rules(TEACHER_FORCING, "test")
    labels = all_rules(kept.path, "test", 1)
    [artefact] = [
        a for a in job.store.all("relevance_of_changed") if a.fingerprint == stored.fingerprint
    ]
    of_changed = all_rules(artefact.path, "test", 1)
    assert (of_changed.label_N == labels.label_N[: len(of_changed)]).all()


@pytest.mark.long
def test_from_the_command_line(workplace, tmp_path):
    shared = [*overrides("transformer", workplace), f"results={tmp_path}", "metric=[robustness]",
              "metric.robustness.sentences=4", "metric.robustness.samples=1",
              "metric.robustness.depths=2"]  # fmt: skip
    must_run("train.py", "-m", *shared, "explainer=gradient_norm,random", cwd=tmp_path)
    shown = must_run("evaluate.py", *shared, cwd=tmp_path)
    text = " ".join(shown.stdout.split())
    assert "random (blind)" in text and "order kept, source" in text
    assert "The least sensitivity is no merit" in text
    assert (tmp_path / "robustness" / "robustness_depths.svg").stat().st_size > 1000
    with (tmp_path / "robustness.csv").open(encoding="utf-8") as file:
        rows = {row["explainer"]: row for row in csv.DictReader(file)}
    assert "depths:2" in rows["random"]["signature"]
