"""Bootstrap of differences, paired where units are shared, and Holm's correction."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from support.example_rows import FIDELITY, SYSTEM, decisions, lineage, measured
from xnmt_bench.analyses.significance import Significance
from xnmt_bench.analyses.systems import Systems
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.bootstrap import Draws, JointBootstrap
from xnmt_bench.measuring.comparing import compare, holm
from xnmt_bench.measuring.sacre import statistics
from xnmt_bench.measuring.units import Units
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.metrics.quality import Quality
from xnmt_bench.report.panels import panels
from xnmt_bench.report.report import collect
from xnmt_bench.report.summary import to_markdown

SENTENCES = 200
OVERFLOWING = 1e4  # log of a perplexity that no float holds


@pytest.fixture
def write_row(tmp_path):
    """Writes a row of Fidelity with one decision a sentence."""

    def write(log_p, test_set="toy test", **row_keys):
        identity = FIDELITY | {"explainer": f"e{len(list(tmp_path.rglob('*.json')))}"} | row_keys
        return measured(
            Fidelity, tmp_path, identity, decisions(range(len(log_p)), log_p, test_set=test_set)
        )

    return write


def test_a_small_difference_on_the_same_sentences_is_seen(write_row, sentence_log_p):
    noise = 0.05 * np.random.default_rng(1).standard_normal(SENTENCES)
    first, second = write_row(sentence_log_p), write_row(sentence_log_p - 0.05 + noise)
    comparison = compare(Fidelity(), [first], [second], Draws(1000, 0))
    assert comparison.paired
    assert comparison.effect == pytest.approx(np.exp(-0.05), abs=0.01)
    assert comparison.low < comparison.effect < comparison.high < 1
    assert comparison.p == pytest.approx(1 / 1001)  # no exchange of sentences gives as much
    back = compare(Fidelity(), [second], [first], Draws(1000, 0))
    assert back.effect == pytest.approx(1 / comparison.effect)
    assert back.p == comparison.p
    # Drawn independently, how hard the sentences are hides it.
    other = write_row(sentence_log_p - 0.05 + noise, "another test")
    unpaired = compare(Fidelity(), [first], [other], Draws(1000, 0))
    assert not unpaired.paired
    assert unpaired.effect == pytest.approx(comparison.effect)
    assert unpaired.low < 0.9 < 1.1 < unpaired.high
    assert unpaired.p > 0.5


def test_no_difference_is_no_difference(write_row, sentence_log_p):
    noise = np.random.default_rng(2).standard_normal(SENTENCES)
    first, second = write_row(sentence_log_p), write_row(sentence_log_p + noise - noise.mean())
    assert compare(Fidelity(), [first], [second], Draws(1000, 0)).p > 0.5
    comparison = compare(Fidelity(), [first], [first], Draws(100, 0))
    assert (comparison.effect, comparison.p) == (1.0, 1.0)


@pytest.mark.long
@pytest.mark.parametrize("paired", [True, False])
def test_p_values_are_uniform_where_nothing_differs(write_row, paired):
    rng, p_values = np.random.default_rng(3), []
    for number in range(200):
        first, second = rng.standard_normal((2, 100)) - 10
        other = write_row(second, "toy test" if paired else "another test", explainer=f"b{number}")
        first_row = write_row(first, explainer=f"a{number}")
        p_values.append(compare(Fidelity(), [first_row], [other], Draws(200, 0)).p)
    assert 0.01 < np.mean(np.asarray(p_values) < 0.05) < 0.11
    assert 0.4 < np.mean(p_values) < 0.6


def counts(units, samples, seed):
    """How often each unit is drawn, in blocks, as a second implementation has to draw them."""
    rng = np.random.default_rng(seed)
    blocks = [min(64, samples - start) for start in range(0, samples, 64)]
    return np.concatenate(
        [rng.multinomial(units, np.full(units, 1 / units), size=rows) for rows in blocks]
    )


def by_loop(first, second, first_counts, second_counts):
    """Effect, its interval and p of two lists of seeds, one sample after the other."""

    def ppl(seeds, weight):
        return np.mean([np.exp(-(weight * s).sum() / weight.sum()) for s in seeds])

    drawn = np.array([
        np.log(ppl(first, a) / ppl(second, b))
        for a, b in zip(first_counts, second_counts, strict=True)
    ])  # fmt: skip
    unweighted = np.ones(len(first[0])), np.ones(len(second[0]))
    turned = min((drawn <= 0).sum(), (drawn >= 0).sum())
    p = min(1.0, 2 * (turned + 1) / (len(drawn) + 1))
    return ppl(first, unweighted[0]) / ppl(second, unweighted[1]), *np.exp(
        np.percentile(drawn, [2.5, 97.5])
    ), p  # fmt: skip


@pytest.mark.parametrize("paired", [True, False])
def test_the_same_as_one_sample_after_the_other(write_row, sentence_log_p, paired):
    rng = np.random.default_rng(5)
    first = [sentence_log_p + 0.3 * rng.standard_normal(SENTENCES) for _ in range(2)]
    second = [sentence_log_p - 0.02 + 0.3 * rng.standard_normal(SENTENCES) for _ in range(2)]
    other = "toy test" if paired else "another test"
    comparison = compare(
        Fidelity(),
        [write_row(log_p, explainer="a", seed=n) for n, log_p in enumerate(first)],
        [write_row(log_p, other, explainer="b", seed=n) for n, log_p in enumerate(second)],
        Draws(150, 7),
    )
    drawn = counts(SENTENCES, 150, 7)
    second_drawn = drawn if paired else counts(SENTENCES, 150, [7, 1])
    expected = by_loop(first, second, drawn, second_drawn)
    effect, low, high, p = expected
    assert (comparison.effect, comparison.low, comparison.high) == pytest.approx(
        (effect, low, high)
    )
    assert comparison.paired == paired
    if not paired:  # paired p-values are by exchange
        assert comparison.p == pytest.approx(p)


def test_only_units_that_both_have_are_compared(write_row, sentence_log_p):
    other = np.random.default_rng(6).standard_normal(50) + sentence_log_p[:50]
    comparison = compare(Fidelity(), [write_row(sentence_log_p)], [write_row(other)], Draws(50, 0))
    assert comparison.paired
    assert comparison.effect == pytest.approx(np.exp(other.mean() - sentence_log_p[:50].mean()))


def of_systems(write_row, values):
    """Rows of one explainer, one of each system, whose log perplexities are given."""
    name = f"e{len(values)}{sum(values.values()):.3f}"
    return [
        replace(write_row(np.full(30, -log_ppl), explainer=name, nmt=model), model=model)
        for model, log_ppl in values.items()
    ]


def test_systems_that_only_one_has_do_not_count(write_row):
    second = of_systems(write_row, {"x": 2.2, "y": 2.4, "z": 2.5, "w": 5.7})
    first = of_systems(write_row, {"x": 2.0, "y": 2.1, "z": 2.4})
    comparison = compare(Fidelity(), first, second, Draws(50, 0))
    assert comparison.systems == 3
    assert comparison.effect == pytest.approx(np.exp(-0.2))
    assert comparison.p == pytest.approx(stats.ttest_1samp([-0.2, -0.3, -0.1], 0).pvalue)
    first = of_systems(write_row, {"x": 2.0, "v": 0.1})
    comparison = compare(Fidelity(), first, second, Draws(50, 0))
    assert comparison.systems == 1 and comparison.paired
    assert comparison.effect == pytest.approx(np.exp(-0.2))


def test_trainings_of_two_models_are_compared_by_welchs_t(write_row):
    first, second = {"a": 2.0, "b": 2.1, "c": 2.3}, {"x": 2.2, "y": 2.4}
    comparison = compare(
        Fidelity(), of_systems(write_row, first), of_systems(write_row, second), Draws(50, 0)
    )
    expected = stats.ttest_ind([*first.values()], [*second.values()], equal_var=False)
    assert (comparison.systems, comparison.paired) == (2, False)
    assert comparison.effect == pytest.approx(np.exp(6.4 / 3 - 2.3))
    assert comparison.p == pytest.approx(expected.pvalue)
    ends = np.exp(expected.confidence_interval())
    assert (comparison.low, comparison.high) == pytest.approx(tuple(ends))
    equal = {"a": 2.0, "b": 2.0}, {"x": 2.2, "y": 2.2}  # no spread is no evidence
    assert compare(Fidelity(), *(of_systems(write_row, v) for v in equal), Draws(9, 0)).p == 1


def test_a_number_that_is_missing_shows_no_difference(write_row):
    impossible = np.full(30, -OVERFLOWING)
    pair = write_row(impossible), write_row(impossible)
    comparison = compare(Fidelity(), *([row] for row in pair), Draws(50, 0))
    assert np.isnan(comparison.effect) and comparison.p == 1


def test_a_system_without_a_number_does_not_count(write_row):
    first = of_systems(write_row, {"x": 2.0, "y": 2.1, "z": OVERFLOWING})
    second = of_systems(write_row, {"x": 2.2, "y": 2.4, "z": OVERFLOWING})
    comparison = compare(Fidelity(), first, second, Draws(50, 0))
    assert comparison.systems == 2
    assert comparison.p == pytest.approx(stats.ttest_1samp([-0.2, -0.3], 0).pvalue)


def test_holms_correction_by_hand():
    # 0.01 * 4, then 0.02 * 3 = 0.06, then 0.03 * 2 = 0.06, then 0.5 * 1.
    assert holm([0.02, 0.5, 0.01, 0.03]) == pytest.approx([0.06, 0.5, 0.04, 0.06])
    assert holm([0.9, 0.8]) == pytest.approx([1.0, 1.0])
    assert holm([0.04]) == pytest.approx([0.04])


def analysed(metric, results, **options):
    metric_panels = panels(metric, collect(metric, results, Draws(100, 0)))
    return Significance(**options).analyse(metric_panels)


def test_the_spread_of_seeds(write_row, sentence_log_p, tmp_path):
    for seed, shift in enumerate((0.0, -0.1, 0.2)):
        write_row(sentence_log_p + shift, explainer="a", seed=seed)
    write_row(sentence_log_p - 1, explainer="b")
    [row] = analysed(Fidelity(), tmp_path).rows
    assert row["seed_spread"] == pytest.approx(np.exp(0.3))
    assert row["seeds"] == 1  # of the one that has fewer
    write_row(sentence_log_p - 1.5, explainer="c")
    alone = {
        (r["first"], r["second"]): r["seed_spread"] for r in analysed(Fidelity(), tmp_path).rows
    }
    assert alone["b", "c"] == 1


def test_trainings_are_no_seeds(sentence_log_p, tmp_path):
    """A second training, which one of two rows lacks, moves neither number of the first."""

    def write(explainer, log_p, training):
        identity, units = FIDELITY | {"explainer": explainer}, decisions(range(SENTENCES), log_p)
        measured(Fidelity, tmp_path, identity, units, f"m{training}", **lineage(training))

    write("a", sentence_log_p, 0)
    write("b", sentence_log_p - 0.3, 0)
    [alone] = analysed(Fidelity(), tmp_path).rows
    write("a", sentence_log_p + 2, 1)
    [row] = analysed(Fidelity(), tmp_path).rows
    assert row == alone and row["seed_spread"] == 1 and row["verdict"] == "different"


def test_rows_of_different_test_sets_are_not_compared(write_row, sentence_log_p, tmp_path):
    for name, shift in (("a", 0.0), ("b", -0.1), ("c", -1.5)):
        write_row(
            sentence_log_p + shift, "toy test" if name < "c" else "another test", explainer=name
        )
    result = analysed(Fidelity(), tmp_path)
    [row] = result.rows
    assert (row["first"], row["second"], row["paired"]) == ("a", "b", True)


def test_one_alone_is_compared_with_nothing(write_row, sentence_log_p, tmp_path):
    write_row(sentence_log_p)
    with pytest.raises(NotApplicable, match="fewer than two rows can be compared"):
        analysed(Fidelity(), tmp_path)


WORDS = [f"w{n}" for n in range(12)]
REFERENCES = [" ".join(WORDS[n % 5 :][:8]) for n in range(40)]


def translated(results, name, wrong, test_set="toy test"):
    """Translations in which every `wrong`-th word is another one."""
    hypotheses = [
        " ".join("x" if (n + place) % wrong == 0 else word for place, word in enumerate(r.split()))
        for n, r in enumerate(REFERENCES)
    ]
    columns = statistics(hypotheses, REFERENCES) | {"sentences": np.ones(40, dtype=np.int64)}
    units = Units(test_set, np.arange(40), columns)
    return measured(Quality, results, SYSTEM | {"nmt": name}, units, model=name)


def test_systems_are_compared_without_an_explainer(tmp_path):
    row_of = {name: translated(tmp_path, name, wrong) for name, wrong in
           (("weak", 4), ("strong", 12), ("middle", 7))}  # fmt: skip
    scored = collect(Quality(), tmp_path, Draws(50, 0))
    bleu = {s.row["nmt"]: s.values["bleu"] for s in scored}
    assert bleu["strong"] > bleu["middle"] > bleu["weak"]
    result = Significance(samples=60, level=0.5).analyse(panels(Quality(), scored))
    assert [(r["first"], r["second"]) for r in result.rows] == [
        ("strong", "middle"), ("strong", "weak"), ("middle", "weak"),
    ]  # fmt: skip
    assert "difference" in result.measured and "ratio" not in result.measured
    for row in result.rows:
        expected = bleu[row["first"]] - bleu[row["second"]]
        assert row["difference"] == pytest.approx(expected)
        assert 0 < row["difference_low"] < row["difference"] < row["difference_high"]
        assert row["verdict"] == "different"
        assert row["seed_spread"] == 0
        assert row["result"] == ""
        assert {"nmt", "model", "explainer"}.isdisjoint(row)
    back = compare(Quality(), [row_of["weak"]], [row_of["strong"]], Draws(60, 0))
    assert back.effect == pytest.approx(bleu["weak"] - bleu["strong"])
    assert result.summary.headings == ["NMT", "than", "BLEU"]
    note = result.summary.notes[0]
    assert "BLEU of the first NMT less that of the second" in note
    assert "above 0 the first is better" in note
    assert not any("seed=0,1,2" in note for note in result.summary.notes)  # it has no seeds
    assert "| strong | middle |" in to_markdown(result.summary)


def test_a_system_counts_once_however_many_seeds_it_has(tmp_path):
    """As in tables, whose mean is that of the systems' means."""
    names = ("a", "b", "c")
    rows = [
        translated(tmp_path, name, wrong) for name, wrong in zip(names, (4, 7, 12), strict=True)
    ]
    bleu = {s.row["nmt"]: s.values["bleu"] for s in collect(Quality(), tmp_path, Draws(9, 0))}
    first = [replace(row, model=model) for row, model in zip(rows, "xxy", strict=True)]
    together = JointBootstrap([Quality()], [first], Draws(9, 0))
    expected = ((bleu["a"] + bleu["b"]) / 2 + bleu["c"]) / 2
    assert together.values()[0, 0] == pytest.approx(expected)


def test_side_by_side_each_test_set_has_a_column(tmp_path):
    translated(tmp_path, "strong", 12)
    translated(tmp_path, "weak", 4)
    translated(tmp_path, "weak", 7, "another test")
    built = panels(Quality(), collect(Quality(), tmp_path, Draws(50, 0)))
    result = Systems().analyse(built)
    assert len(result.summary.headings) == 1 + 2
    texts = {line.cells[0].text: [c.text for c in line.cells[1:]] for line in result.summary.lines}
    assert sorted(text == "n/a" for text in texts["strong"]) == [False, True]
    assert "n/a" not in texts["weak"] and len({*texts["weak"]}) == 2
    identities = {tuple(row[c] for c in result.identity) for row in result.rows}
    assert len(identities) == len(result.rows) == 3


def test_a_number_without_an_interval_has_none_side_by_side(tmp_path, monkeypatch):
    columns = tuple(replace(column, interval=False) for column in Quality.columns)
    monkeypatch.setattr(Quality, "columns", columns)
    translated(tmp_path, "strong", 12)
    translated(tmp_path, "weak", 4)
    result = Systems().analyse(panels(Quality(), collect(Quality(), tmp_path, Draws(50, 0))))
    assert {(row["low"], row["high"]) for row in result.rows} == {("", "")}
    assert not any("[" in cell.text for line in result.summary.lines for cell in line.cells)


def test_systems_on_different_test_sets_are_not_compared(tmp_path):
    translated(tmp_path, "strong", 12)
    translated(tmp_path, "weak", 4, "another test")
    with pytest.raises(NotApplicable, match="fewer than two rows can be compared"):
        Significance(samples=60, level=0.5).analyse(
            panels(Quality(), collect(Quality(), tmp_path, Draws(50, 0)))
        )
