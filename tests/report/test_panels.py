"""Rows that are compared with each other, and what tells groups of them apart."""

from dataclasses import replace
from math import exp, log
from statistics import stdev

import pytest

from support.example_rows import AER, FIDELITY, SYSTEM, scored
from xnmt_bench.measuring.measurement import DECISIONS, SETTINGS
from xnmt_bench.metrics.aer.metric import AER as AlignmentErrorRate
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.metrics.quality import Quality
from xnmt_bench.report.panels import distinguish, panels, pooled, seeds_cell
from xnmt_bench.report.table import about_trainings


def row(ppl=4.0, model="m0", status="ok", derived=False, **identity):
    values = {"ppl": ppl, "ppl_low": ppl - 1, "ppl_high": ppl + 1} if status == "ok" else {}
    return scored(FIDELITY | identity, values, status, model, derived)


def test_panels_hold_each_explainers_seeds():
    rows = [row(instantiation=i, explainer=e) for i in ("sa", "base", "fn") for e in ("b", "a")]
    [panel] = panels(Fidelity(), [*rows, row(7.0, instantiation="sa", explainer="a", seed=2)])
    assert list(panel.rows) == ["base", "fn", "sa"]
    assert panel.names == ["a", "b"]
    assert [s.row["seed"] for s in panel.of("sa", "a")] == [1, 2]
    assert panel.value("sa", "a") == pytest.approx(5.5)  # of both seeds
    assert panel.value("sa", "c") is None
    assert panel.ranked("sa") == ["b", "a"]
    assert panel.condition == {
        "corpus": "toy", "lang_pair": "en-de", "nmt": "transformer", "model": "m0", "k": 1,
        "prefix": "chosen", "scenario": "teacher_forcing", "learned_from": "teacher_forcing",
        "train_sentences": 900, "settings": "",
    }  # fmt: skip


def trained(ppl, nmt_seed, family="f", **identity):
    """A row of one of several trainings that differ in `nmt.seed` alone."""
    lineage = {"family": family, "seed": nmt_seed, "initial": None}
    values = {"ppl": ppl, "ppl_low": ppl - 1, "ppl_high": ppl + 1}
    return scored(FIDELITY | identity, values, model=f"{family}{nmt_seed}", lineage=lineage)


def test_trainings_of_one_system_are_pooled_by_a_t_interval():
    # Two seeds of the judge on the first: a system counts once, with the mean of its seeds.
    rows = [trained(3.0, 0), trained(5.0, 0, seed=2), trained(6.0, 1), trained(8.0, 2)]
    [panel] = panels(Fidelity(), rows)
    assert panel.condition["model"] == "f"
    value, low, high = pooled(panel.metric.headline, panel.of("fn", "attention"))
    assert value == pytest.approx(6.0)
    # Perplexities are ratios: the t of two degrees of freedom, 4.3027, is of the logarithms.
    factor = exp(4.302653 * stdev(map(log, (4, 6, 8))) / 3**0.5)
    assert (low, high) == (pytest.approx(6 / factor, rel=1e-5), pytest.approx(6 * factor, rel=1e-5))
    assert low > 0
    assert "Several trainings of a system (nmt.seed), 3:" in about_trainings(rows)


def test_one_training_says_that_it_is_one():
    assert "Each system is one training" in about_trainings([trained(3.0, 0), trained(5.0, 0)])
    assert about_trainings([row()]) == ""  # nothing is known of how it was trained


def test_trainings_of_other_options_are_not_pooled():
    built = panels(Fidelity(), [trained(3.0, 0), trained(4.0, 0, family="g")])
    assert [panel.condition["model"] for panel in built] == ["f", "g"]
    assert distinguish(built).texts == [["transformer f"], ["transformer g"]]


@pytest.mark.parametrize(
    "other",
    [{"k": 2}, {"prefix": "none"}, {"scenario": "real"}, {"learned_from": "real"},
     {"train_sentences": 90}, {"corpus": "other"}, {"lang_pair": "de-en"}, {"nmt": "rnn"},
     {"model": "m1"}],
)  # fmt: skip
def test_what_is_not_compared_stands_in_panels_of_its_own(other):
    built = panels(Fidelity(), [row(), row(**other)])
    [column] = other
    assert {panel.condition[column] for panel in built} == {row().row[column], *other.values()}
    assert all(panel.names == ["attention"] for panel in built)


def test_sizes_stand_in_their_own_order():
    built = panels(Fidelity(), [row(train_sentences=n) for n in (10000, 900)])
    assert [p.condition["train_sentences"] for p in built] == [900, 10000]


def test_what_has_no_number_is_compared_with_nothing():
    rows = [
        row(),
        row(status="failed: x", seed=2),
        row(explainer="silent", status="n/a"),
        row(float("nan"), explainer="empty"),
        row(2.0, instantiation="comb", derived=True),
    ]
    [panel] = panels(Fidelity(), rows)
    assert panel.names == ["attention", "empty", "silent"]
    assert {name: len(seeds) for name, seeds in panel.measured("fn").items()} == {"attention": 1}
    assert panel.ranked("fn") == ["attention"]
    assert panel.measured("comb") == {}  # made of others
    assert set(panel.measured("comb", derived=True)) == {"attention"}


def test_a_row_stands_beside_special_ones_and_never_on_behind_them():
    base = row(9.0, instantiation="base", learned_from="", train_sentences="")
    every = row(2.0, instantiation="sa", train_sentences="")
    some = row(7.0, instantiation="sa", train_sentences=500)
    built = {p.condition["train_sentences"]: p for p in panels(Fidelity(), [base, every, some])}
    assert {size: panel.value("sa", "attention") for size, panel in built.items()} == {
        "": 2.0, 500: 7.0,
    }  # fmt: skip
    assert all(len(panel.of("base", "attention")) == 1 for panel in built.values())


def test_trainings_without_a_number_are_counted():
    lineage = {"family": "f", "seed": 2, "initial": None}
    failed = scored(FIDELITY, {}, "failed: x", model="f2", lineage=lineage)
    [panel] = panels(Fidelity(), [trained(3.0, 0), trained(5.0, 1), failed])
    text, _ = seeds_cell(panel.metric.headline, panel.of("fn", "attention"))
    assert text.endswith("(2 of 3 trainings)")


def test_the_same_row_with_fewer_settings_is_no_further_seed():
    rows = [
        scored(FIDELITY, {"ppl": ppl}, **{SETTINGS: settings})
        for ppl, settings in ((2.0, {"a": 1}), (7.0, {"a": 1, "b": 2}))
    ]
    built = panels(Fidelity(), rows)
    assert [panel.value("fn", "attention") for panel in built] == [2.0, 7.0]


def test_references_are_of_every_training():
    nothing = {
        "explainer": "", "k": "", "prefix": "", "seed": "", "learned_from": "",
        "train_sentences": "",
    }  # fmt: skip
    references = [trained(1.5, n, instantiation="nmt", **nothing) for n in (0, 1)]
    [panel] = panels(Fidelity(), [trained(3.0, 0), trained(5.0, 1), *references])
    assert panel.references == {"nmt": references}


def test_rows_of_some_decisions_are_a_block_of_their_own():
    """Such decisions may be the easy ones."""
    which = {"some": "4 of 9", "others": "4 of 9", "all": "all"}
    rows = [
        scored(FIDELITY | {"explainer": name}, {"ppl": 2.0}, **{SETTINGS: {DECISIONS: text}})
        for name, text in which.items()
    ]
    built = panels(Fidelity(), rows)
    assert sorted(panel.names for panel in built) == [["all"], ["others", "some"]]
    assert {panel.condition[SETTINGS] for panel in built} == {
        "decisions: all",
        "decisions: 4 of 9",
    }


def test_references_stand_beside_every_panel_that_they_know_nothing_against():
    nothing = {"explainer": "", "k": "", "prefix": "", "seed": ""}
    nmt = row(1.5, instantiation="nmt", learned_from="", train_sentences="", **nothing)
    unigram = row(50.0, instantiation="unigram", **nothing)
    rows = [row(), row(k=2), row(train_sentences=90), row(scenario="real"), row(model="m1")]
    built = panels(Fidelity(), [*rows, nmt, unigram])
    references = {
        tuple(p.condition[c] for c in ("k", "train_sentences", "scenario", "model")): set(
            p.references
        )
        for p in built
    }
    usual = "teacher_forcing"
    assert references == {
        (1, 900, usual, "m0"): {"nmt", "unigram"},
        (2, 900, usual, "m0"): {"nmt", "unigram"},
        (1, 90, usual, "m0"): {"nmt"},
        (1, 900, "real", "m0"): set(),
        (1, 900, usual, "m1"): set(),
    }
    assert not any("" in panel.names for panel in built)


def test_systems_are_compared_where_the_metric_compares_systems():
    rows = [scored(SYSTEM | {"nmt": name}, {"bleu": bleu}, model=name)
            for name, bleu in (("a", 20.0), ("b", 30.0), ("c", float("nan")))]  # fmt: skip
    [panel] = panels(Quality(), rows)
    assert panel.condition == {"corpus": "toy", "lang_pair": "en-de", "settings": ""}
    assert list(panel.rows) == [""]
    assert panel.ranked("") == ["b", "a"]  # higher is better


def test_systems_of_one_name_are_told_apart_by_their_fingerprints():
    rows = [scored(SYSTEM, {"bleu": 20.0}, model=m) for m in ("abcdef0123", "fedcba0123")]
    [panel] = panels(Quality(), rows)
    assert panel.names == ["transformer abcdef", "transformer fedcba"]


def test_what_all_share_and_what_tells_them_apart():
    distinguished = distinguish(panels(Fidelity(), [row(), row(k=2), row(k=2, scenario="golden")]))
    assert distinguished.varying == ["k", "scenario"]
    assert distinguished.common == ["toy en-de", "transformer", "900 training sentences"]
    assert distinguished.phrases == ["k = 1", "k = 2, golden", "k = 2"]
    assert distinguished.title("Start") == "Start, toy en-de, transformer, 900 training sentences"
    but = distinguish(panels(Fidelity(), [row(), row(k=2)]), but=["k"])
    assert but.varying == []


def test_baselines_without_a_system_have_a_panel_of_their_own():
    rows = [scored(AER, {"aer": 0.3}),
            scored(AER | {"nmt": "", "explainer": "diagonal"}, {"aer": 0.5}, model="")]  # fmt: skip
    built = panels(AlignmentErrorRate(), rows)
    assert [(p.condition["nmt"], p.names) for p in built] == [
        ("", ["diagonal"]), ("transformer", ["attention"]),
    ]  # fmt: skip


def with_settings(explainer, **settings):
    scored_row = row(explainer=explainer)
    measurement = replace(scored_row.measurement, settings=settings)
    return replace(scored_row, measurement=measurement)


def blind(scored_row):
    measurement = scored_row.measurement
    facts = replace(measurement.facts, blind=True)
    return replace(scored_row, measurement=replace(measurement, facts=facts))


def test_a_blind_row_stands_in_every_block_that_it_fits():
    """One that knows nothing of the training text is measured once for all of them."""
    rows = [
        with_settings("attention", text="a"),
        with_settings("gradient_norm", text="b"),
        blind(with_settings("random")),
        blind(with_settings("nearest", text="b")),
    ]
    first, second = panels(Fidelity(), rows)
    assert {*first.names} == {"attention", "random"}
    assert {*second.names} == {"gradient_norm", "random", "nearest"}
    # Rows of one explainer that differ in another setting are never taken for two seeds.
    sized = [blind(with_settings("random", text=text, size=text)) for text in "ab"]
    [alone] = [p for p in panels(Fidelity(), [*sized, with_settings("alti")]) if "alti" in p.names]
    assert all(len(alone.of("fn", name)) == 1 for name in alone.names)


def test_rows_that_differ_in_a_setting_stand_apart():
    rows = [
        with_settings("a", **{"test sentences": "20", "fn dimension": 8}),
        with_settings("b", **{"test sentences": "60", "fn dimension": 8}),
        with_settings("c", **{"test sentences": "60"}),  # its judge has no dimension
        row(explainer="d", status="failed: no memory"),
    ]
    first, second = panels(Fidelity(), rows)
    assert (first.names, second.names) == (["a", "d"], ["b", "c"])
    distinction = distinguish([first, second])
    # One setting that differs is the heading of its column.
    assert distinction.varying == ["test sentences"]
    assert distinction.texts == [["20"], ["60"]]
    assert distinction.phrases == ["test sentences: 20", "test sentences: 60"]
    assert "settings" not in distinguish([second]).varying


def test_a_row_of_an_earlier_version_without_a_setting_is_told_apart():
    """As in a folder of two bundles: the same row, of which one does not say the beam."""
    rows = [with_settings("a", **{"test sentences": "60"}),
            with_settings("a", **{"test sentences": "60", "beam": 4})]  # fmt: skip
    distinction = distinguish(panels(Fidelity(), rows))
    assert distinction.varying == ["settings"]
    assert sorted(distinction.texts) == [[""], ["beam: 4"]]


def test_a_row_that_nothing_was_learnt_for_stands_beside_every_size():
    base = row(instantiation="base", train_sentences="", learned_from="")
    fn = [row(train_sentences=size) for size in (100, 900)]
    shown = panels(Fidelity(), [base, *fn])
    assert [panel.condition["train_sentences"] for panel in shown] == [100, 900]
    assert [sorted(panel.rows) for panel in shown] == [["base", "fn"]] * 2
    [alone] = panels(Fidelity(), [base])
    assert alone.condition["train_sentences"] == ""


def test_files_of_one_name_are_told_apart_by_their_bytes():
    def of_file(digest):
        scored_row = scored(AER | {"nmt": "", "explainer": "rules"}, {"aer": 0.2}, model="")
        content = {"relevance": digest}
        return replace(scored_row, measurement=replace(scored_row.measurement, content=content))

    [panel] = panels(AlignmentErrorRate(), [of_file("abcdef01"), of_file("123456ab")])
    assert panel.names == ["rules 123456", "rules abcdef"]
    [panel] = panels(AlignmentErrorRate(), [of_file("abcdef01")])
    assert panel.names == ["rules"]


def test_files_that_differ_in_other_ways_are_rows_of_their_own():
    """Two alignments, or two systems' outputs, whose files have one name."""

    def of_files(**content):
        scored_row = scored(AER | {"nmt": "", "explainer": "out.align"}, {"aer": 0.2}, model="")
        return replace(scored_row, measurement=replace(scored_row.measurement, content=content))

    first, second = of_files(gold="g1", hypothesis="aaa"), of_files(gold="g1", hypothesis="bbb")
    [panel] = panels(AlignmentErrorRate(), [first, second])
    assert panel.names == ["out.align aaa", "out.align bbb"]
    [panel] = panels(AlignmentErrorRate(), [first, of_files(gold="g2", hypothesis="bbb")])
    names = panel.names
    assert len(names) == 2 and all(name.startswith("out.align ") for name in names)
    # Another gold that is another test set tells nothing of the file.
    other = replace(second, measurement=replace(
        second.measurement, content={"gold": "g2", "hypothesis": "aaa"},
        identity=second.measurement.identity | {"corpus": "other"}))  # fmt: skip
    shown = panels(AlignmentErrorRate(), [first, other])
    assert {name for panel in shown for name in panel.names} == {"out.align"}
