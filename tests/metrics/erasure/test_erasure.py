"""Erasure against slow loops, enumeration of all orders, and planted truth."""

from itertools import permutations

import numpy as np
import pytest
import torch

from support.configurations import configure, overrides
from support.forked_commands import command, must_run
from support.handwritten_transformer import CUES, SPECIAL, WORDS, build_copying_transformer
from support.systems import batch_of, double, small_job
from xnmt_bench.corpora.vocabulary.encoded import EncodedSide, EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import EOS
from xnmt_bench.errors import NotApplicable
from xnmt_bench.explainers.base import decide
from xnmt_bench.metrics.erasure import Erasure, stages
from xnmt_bench.metrics.erasure.curves import GRID, bins, erase, point
from xnmt_bench.metrics.erasure.erasing import Decision, Eraser, order_words, ordered_decisions
from xnmt_bench.metrics.erasure.limits import limits
from xnmt_bench.pipeline.decision_table import load_decisions
from xnmt_bench.pipeline.job import Job
from xnmt_bench.rules.table import SentenceRelevance
from xnmt_bench.store import Store

SHARES = (0.01, 0.1, 0.5)


class Table:
    """In the place of a model: the probability of each set of kept words is drawn once."""

    def __init__(self, seed=0):
        self.seed, self.asked, self.passes = seed, 0, 0

    def value(self, decision, keep_W):
        kept = (decision.side_W[keep_W].tolist(), decision.place_W[keep_W].tolist())
        places = sorted(zip(*kept, strict=True))
        return np.random.default_rng([self.seed, decision.step, *np.ravel(places)]).random()

    def probabilities(self, decisions, rows):
        rows = list(rows)
        self.asked += len(rows)
        self.passes += 1
        return np.array([self.value(decisions[n], keep_W) for n, keep_W in rows])


def decision_of(source, prefix, step=3):
    side_W = np.repeat([0, 1], [source, prefix])
    return Decision(0, step, 7, side_W, np.concatenate([np.arange(source), np.arange(prefix)]))


def area(table, decision, order):
    """The mean probability while words are erased in an order."""
    keep_W = np.ones(len(decision), dtype=bool)
    values = [table.value(decision, keep_W)]
    for word in order:
        keep_W[word] = False
        values.append(table.value(decision, keep_W))
    return np.mean(values)


def test_limits_are_those_of_all_orders():
    table = Table()
    decisions = [decision_of(3, 2, 0), decision_of(1, 0, 1), decision_of(2, 2, 2)]
    for enumerated in (8, 0):  # by enumeration, and by a beam that keeps every set
        lower_N, upper_N = limits(table, decisions, beam=100, enumerated=enumerated)
        for decision, lower, upper in zip(decisions, lower_N, upper_N, strict=True):
            areas = [area(table, decision, o) for o in permutations(range(len(decision)))]
            assert lower == pytest.approx(min(areas))
            assert upper == pytest.approx(max(areas))


def test_a_narrow_beam_stays_within_the_limits():
    table, decisions = Table(1), [decision_of(4, 3)]
    [lower], [upper] = limits(table, decisions, beam=1, enumerated=0)
    [least], [greatest] = limits(table, decisions, beam=1)
    assert least <= lower <= upper <= greatest
    assert (least, greatest) != (lower, upper)


def test_both_searches_take_each_step_in_one_pass_and_ask_each_set_once():
    table, decision = Table(2), decision_of(3, 2)
    limits(table, [decision], beam=100, enumerated=0)
    # The whole set, then one word less at each of five steps; a wide beam meets all 32 sets.
    assert (table.passes, table.asked) == (6, 32)


def test_a_larger_draw_holds_a_smaller_one():
    by_sentence = [
        [Decision(number, step, 7, *np.zeros((2, 1), int)) for step in range(steps)]
        for number, steps in enumerate((4, 0, 9, 3))
    ]
    every = [(d.sentence, d.step) for decisions in by_sentence for d in decisions]

    def drawn(limited, draws):
        sentences = [*stages.draw(by_sentence, limited, draws)]
        assert all(len({d.sentence for d in decisions}) == 1 for decisions in sentences)
        return [(d.sentence, d.step) for decisions in sentences for d in decisions]

    few, more = drawn(5, 0), drawn(9, 0)
    assert len(few) == 5 and len(more) == 9 and {*few} < {*more} < {*every}
    assert few == sorted(few) and few != drawn(5, 1)
    assert drawn(16, 0) == drawn(99, 1) == every


def test_the_sides_are_merged_by_rank():
    source = (np.array([0, 1, 2, 4]), np.array([0.1, 0.5, 0.1, 0.9]))
    prefix = (np.array([0, 1]), np.array([2.0, 3.0]))
    side_W, place_W = order_words([source, prefix])
    # Places of source words: 1/8, 3/8, 5/8, 7/8; of prefix words 1/4, 3/4. Ties to the leftmost.
    assert list(zip(side_W.tolist(), place_W.tolist(), strict=True)) == [
        (0, 4), (1, 1), (0, 1), (0, 0), (1, 0), (0, 2)
    ]  # fmt: skip
    empty = (np.array([], int), np.array([]))
    assert order_words([source, empty])[1].tolist() == [4, 1, 0, 2]


def test_shares_are_rounded_up_to_one_word_at_least():
    assert bins(decision_of(10, 3), (0.01, 0.1, 0.11, 0.5)) == [(1, 1), (1, 1), (2, 1), (5, 2)]
    assert bins(decision_of(2, 0), (0.01, 0.5)) == [(1, 0), (1, 0)]
    # 0.28 of 25 is 7.000000000000001 in floating point.
    assert bins(decision_of(25, 0), (0.28,)) == [(7, 0)]


def test_equal_rows_are_asked_once():
    table = Table()
    erase(table, [decision_of(2, 0)], (0.01, 0.1, 0.5), whole_curves=True)
    # All, none, the first word alone, and the second alone.
    assert table.asked == 4


@pytest.mark.parametrize("removal", ["zero", "mean"])
def test_every_number_equals_a_slow_loop(transformer, removal):
    """Embeddings replaced by hand, one row after another, in float64."""
    model = double(transformer.system.model)
    split = transformer.texts.split("test")
    batch, _ = decide(model, batch_of(split, [2]))
    rng = np.random.default_rng(0)
    s, t = batch.source_BS.shape[1], batch.target_BT.shape[1]
    relevance = rng.normal(size=(t, s)), np.tril(rng.normal(size=(t, t)), -1)
    number = int(split.number[2])
    label_of = {(number, step): int(y) for step, y in enumerate(batch.labels_BT[0])}
    sentence_relevance = SentenceRelevance(number, 0, *relevance, np.ones(t))
    [decisions] = ordered_decisions(split, [sentence_relevance], label_of)
    assert not any(decision.flat for decision in decisions)
    columns = erase(Eraser(model, split, removal), decisions, SHARES, whole_curves=True)
    embedded = [model.embed_source(batch.source_BS), model.embed_target(batch.input_BT)]
    off = [torch.zeros(embedded[0].shape[-1]).double()] * 2
    if removal == "mean":
        embed = (model.embed_source, model.embed_target)
        ids = [torch.arange(4, len(v))[None] for v in model.vocabularies]
        off = [e(i)[0].mean(0) for e, i in zip(embed, ids, strict=True)]

    def p(step, source, prefix):
        """P(label) with these words kept; EOS and BOS stay."""
        new = [x.clone() for x in embedded]
        for place in range(s - 1):
            if place not in source:
                new[0][0, place] = off[0]
        for place in range(t - 1):
            if place not in prefix:
                new[1][0, place + 1] = off[1]
        states = model.decode(model.encode(new[0], batch.layout), new[1])
        return float(model.logits(states[0, step]).softmax(-1)[label_of[number, step]])

    for step in (0, 3, t - 1):
        source = sorted(range(s - 1), key=lambda i: -relevance[0][step, i])
        prefix = sorted(range(step), key=lambda i: -relevance[1][step, i])
        unerased = p(step, source, prefix)
        assert columns["whole"][step] == pytest.approx(unerased, abs=1e-9)
        for share in SHARES:
            a, b = (max(1, int(np.ceil(share * len(side)))) for side in (source, prefix))
            without = unerased - p(step, source[a:], prefix[b:])
            alone = unerased - p(step, source[:a], prefix[:b])
            assert columns[f"comprehensiveness {share}"][step] == pytest.approx(without, abs=1e-9)
            assert columns[f"sufficiency {share}"][step] == pytest.approx(alone, abs=1e-9)
        ranks = [
            ((rank + 0.5) / len(side), number_of_side, word)
            for number_of_side, side in enumerate((source, prefix))
            for rank, word in enumerate(side)
        ]
        order = [word[1:] for word in sorted(ranks, key=lambda word: word[:2])]
        for curve, kept in (
            ("deletion", [order[j:] for j in range(len(order) + 1)]),
            ("insertion", [order[:j] for j in range(len(order) + 1)]),
        ):
            values = [p(step, [w for n, w in k if n == 0], [w for n, w in k if n == 1])
                      for k in kept]  # fmt: skip
            assert columns[curve][step] == pytest.approx(np.mean(values), abs=1e-9)
            middle = np.interp(0.5, np.linspace(0, 1, len(values)), values)
            assert columns[point(curve, 0.5)][step] == pytest.approx(middle, abs=1e-9)
    assert GRID[10] == 0.5


@pytest.mark.parametrize("side", ["source", "prefix"])
def test_who_names_the_planted_word_first_is_at_the_ceiling(side):
    """A Transformer written by hand copies one word, and all others are in vain.

    Erased from attention, since a zeroed word leaves its position, which norms make as long as a
    word: without any words this model chooses the label with probability 0.3 to 0.7.
    """
    model = build_copying_transformer(side)
    drawn = torch.Generator().manual_seed(1)
    words = [int(SPECIAL + CUES + n) for n in torch.randperm(WORDS - CUES, generator=drawn)]
    sources, targets = [*words, EOS], [*words[::-1], EOS]
    (sources if side == "source" else targets)[1] = SPECIAL
    split = EncodedSplit(EncodedSide.of([sources]), EncodedSide.of([targets]), np.arange(1))
    batch, _ = decide(model, batch_of(split, [0]))
    step = 4
    label = int(batch.labels_BT[0, step])
    assert label == SPECIAL
    relevance = [np.zeros((5, 5)), np.zeros((5, 5))]
    relevance[side == "prefix"][:, 1] = 1.0
    label_of = {(0, n): int(y) for n, y in enumerate(batch.labels_BT[0])}
    eraser = Eraser(model, split, "attention")
    areas = {}
    for name, sign in (("first", 1), ("last", -1)):
        sentence_relevance = SentenceRelevance(0, 0, *(sign * r for r in relevance), np.ones(5))
        [decisions] = ordered_decisions(split, [sentence_relevance], label_of)
        columns = erase(eraser, decisions[step:], SHARES, whole_curves=True)
        areas[name] = {n: float(v[0]) for n, v in columns.items()}
        lower, upper = (float(x[0]) for x in limits(eraser, decisions[step:], beam=3))
    # Without the cue P is 0.01 to 0.09, by what else is there. A source word stands before a prefix
    # word of the same rank, which costs one step of nine.
    tolerance = 0.05 + (side == "prefix") / 9
    assert areas["first"]["deletion"] == pytest.approx(lower, abs=tolerance)
    assert areas["first"]["insertion"] == pytest.approx(upper, abs=tolerance)
    assert areas["first"]["comprehensiveness 0.01"] > 0.8 > 0.1 > areas["first"]["sufficiency 0.01"]
    assert areas["last"]["deletion"] > areas["first"]["deletion"] + 0.3


def test_relevance_without_order_is_counted_and_a_missing_number_is_not_applicable():
    side = EncodedSide.of([[5, 6, 7, EOS]])
    split = EncodedSplit(side, side, np.arange(1))
    label_of = {(0, step): 5 for step in range(4)}

    def count_flat(source_TS):
        flat_T4 = np.full((4, 4), 0.5)
        sentence_relevance = SentenceRelevance(0, 0, source_TS, flat_T4, np.ones(4))
        [decisions] = ordered_decisions(split, [sentence_relevance], label_of)
        return sum(decision.flat for decision in decisions)

    # Two and three words before a step have one relevance; fewer have an order of their own.
    assert count_flat(np.arange(16.0).reshape(4, 4)) == 2
    assert count_flat(np.zeros((4, 4))) == 4
    with pytest.raises(NotApplicable, match="gives no score to some words"):
        count_flat(np.full((4, 4), np.nan))


@pytest.fixture(scope="module")
def erasure_job(workplace, transformer):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "SHARD", 5)  # three shards of few sentences
        yield small_job(workplace, "transformer", "explainer=attention", "metric=[erasure]")


def evidence(job, **options):
    metric = Erasure(
        **{"removals": ["zero"], "sentences": 12, "curves": 8, "limited": 1, "beam": 1} | options
    )
    row, *ceiling = metric.measure(job)
    assert len(ceiling) == bool(metric.limited and metric.curves)
    return metric, row.make()


def test_sums_by_sentence(erasure_job):
    metric, made_evidence = evidence(erasure_job)
    units = made_evidence.units
    assert len(units) == 12
    results = metric.of_sums({n: units[n].sum(keepdims=True) for n in units.columns})
    assert results["decisions"] == units["rows"].sum() > results["curve_decisions"]
    by_share = [units[f"comprehensiveness {s:g}"].sum() / units["rows"].sum()
                for s in metric.shares]  # fmt: skip
    assert results["comprehensiveness"] == pytest.approx(np.mean(by_share))
    assert 0 < results["normalised_deletion"] <= 1 and results["outside"] == 0
    assert (units["curve_decisions"][8:] == 0).all() and (units["curve_decisions"][:8] > 0).all()
    assert units["limited_decisions"].sum() + units["narrow"].sum() == 1


def test_limits_do_not_depend_on_the_draw(erasure_job):
    few, every = (
        load_decisions(stages.bound(erasure_job, 3, limited, draws, "zero", 1))
        for limited, draws in ((4, 1), (99, 0))
    )
    keys, keys_of_all = (list(zip(x["sentence"], x["step"], strict=True)) for x in (few, every))
    rows = [keys_of_all.index(key) for key in keys]
    assert len(rows) == 4 < len(keys_of_all)
    for name in ("lower", "upper"):
        np.testing.assert_allclose(few[name], every[name][rows], rtol=1e-5)


def test_the_draw_is_a_setting_and_a_note(erasure_job):
    settings = [
        evidence(erasure_job, **options)[1].settings["decisions with limits"]
        for options in (
            {"limited": 3},
            {"limited": 3, "draws": 1},
            {"limited": 999},
            {"limited": 0},
        )
    ]
    count = evidence(erasure_job)[1].units["curve_decisions"].sum()
    of_all = f"3 of {count:.0f} decisions with curves, drawn at random (seed"
    assert settings == [
        f"{of_all} 0)", f"{of_all} 1)", f"all {count:.0f} decisions with curves", "none"
    ]  # fmt: skip


def test_the_ceiling_is_what_the_search_finds_on_the_same_decisions(erasure_job):
    # All decisions of the one sentence with curves.
    metric, explained = evidence(erasure_job, curves=1, limited=99)
    [_, row] = metric.measure(erasure_job)
    units, ceiling = explained.units, row.make().units
    assert ceiling.number_U.tolist() == units.number_U[:1].tolist()
    for name in ("curve_decisions", "limited_decisions", "narrow"):
        np.testing.assert_array_equal(ceiling[name], units[name][:1])
    assert (ceiling["deletion"] < units["deletion"][:1]).all()
    assert (ceiling["insertion"] > units["insertion"][:1]).all()
    results = metric.of_sums({n: ceiling[n].sum(keepdims=True) for n in ceiling.columns})
    assert results["normalised_deletion"] == results["normalised_insertion"] == 1
    assert "comprehensiveness" not in results


def test_without_curves_and_limits_there_are_no_such_numbers(erasure_job):
    metric, made_evidence = evidence(erasure_job, curves=0)
    results = metric.of_sums(
        {n: made_evidence.units[n].sum(keepdims=True) for n in made_evidence.units.columns}
    )
    assert {"deletion", "normalised_deletion"}.isdisjoint(results)
    assert results["comprehensiveness"] > 0


def test_a_killed_run_goes_on_with_the_shards_that_are_there(erasure_job, tmp_path, monkeypatch):
    _, expected = evidence(erasure_job, limited=0)
    store = f"store={erasure_job.settings.store}"
    other = Job(configure(*overrides("transformer"), store, "corpus.seed=0",
                          "explainer=attention", "metric=[erasure]"))  # fmt: skip
    calls, erase = [], Eraser.probabilities

    def stopping(self, decisions, rows):
        calls.append(len(decisions))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return erase(self, decisions, rows)

    stage_of = Store.stage

    def fresh(self, name, work, **recipe):
        return stage_of(self, name, work, **recipe, **({"again": 1} if name == "erased" else {}))

    monkeypatch.setattr(Store, "stage", fresh)
    monkeypatch.setattr(Eraser, "probabilities", stopping)
    with pytest.raises(KeyboardInterrupt):
        evidence(other, limited=0)
    _, resumed = evidence(other, limited=0)
    # Three shards: the second was begun twice, and some of its sentences have no curves.
    assert len(calls) == 5
    for name in expected.units.columns:
        np.testing.assert_array_equal(expected.units[name], resumed.units[name])


def test_from_the_command_line(workplace, tmp_path):
    shared = [*overrides("transformer", workplace), f"results={tmp_path}", "metric=[erasure]",
              "metric.erasure.sentences=4", "metric.erasure.curves=4", "metric.erasure.limited=1",
              "metric.erasure.beam=1", "metric.erasure.removals=[zero,mean]"]  # fmt: skip
    must_run("train.py", "-m", *shared, "explainer=prediction_difference,random", cwd=tmp_path)
    shown = must_run("evaluate.py", *shared, cwd=tmp_path)
    text = " ".join(shown.stdout.split())
    for part in ("removal", "sufficiency", "random (blind)", "greedy (ceiling)",
                 "decisions with curves, drawn at random (seed 0).",
                 "explains nothing"):  # fmt: skip
        assert part in text, part
    assert (tmp_path / "erasure" / "erasure_curves.png").exists()
    page = (tmp_path / "report.html").read_text()
    assert "prediction difference" in page.replace("_", " ") and "comprehensiveness" in page


def test_a_removal_that_does_not_cover_the_system_is_a_row_that_says_so(workplace, tmp_path):
    shared = [*overrides("rnn_search", workplace), f"results={tmp_path}", "metric=[erasure]",
              "metric.erasure.sentences=3", "metric.erasure.curves=0", "explainer=nearest",
              "metric.erasure.removals=[attention,zero]"]  # fmt: skip
    done = must_run("train.py", *shared, cwd=tmp_path)
    assert (
        "n/a: removal=attention: this model cannot leave words out of its attention" in done.stdout
    )
    assert "removal: zero: comprehensiveness" in done.stdout


@pytest.mark.parametrize("option", ["erasure.removals", "erasure.shares", "infidelity.removals"])
def test_a_metric_that_would_have_no_rows_is_refused(tmp_path, option):
    metric = option.split(".")[0]
    done = command("train.py", f"metric=[{metric}]", f"metric.{option}=[]", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [f"error: metric.{option}=[]: should not be empty"]
