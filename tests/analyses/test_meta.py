"""The results of metrics for explainers whose relevance is altered."""

import dataclasses

import numpy as np
import pytest

from support.example_rows import AER, FIDELITY, decisions, measured
from xnmt_bench.analyses.meta import Meta
from xnmt_bench.corpora.formats.alignment import Alignment
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.metrics.aer.counts import count_links
from xnmt_bench.metrics.aer.metric import AER as AlignmentErrorRate
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.metrics.robustness import Robustness
from xnmt_bench.report.panels import caveats, panels
from xnmt_bench.report.report import collect

SENTENCES = 40
SENTENCE_N = np.repeat(np.arange(SENTENCES), 3)
MEANS = {"a": -1.0, "b": -1.5, "c": -2.0}


def make_row(folder, name, log_p, alteration="", options="", seed="", model="m0"):
    """A row of an explainer, or of its altered form."""
    shown = f"{alteration}[of={name}{options and ', '}{options}]" if alteration else name
    facts = {"alters": [name, alteration, options]} if alteration else {}
    identity = FIDELITY | {"explainer": shown, "instantiation": "base", "seed": seed}
    measured(Fidelity, folder, identity, decisions(SENTENCE_N, log_p), model, **facts)


def log_p_of(mean, seed=0):
    return mean + 0.3 * np.random.default_rng(seed).standard_normal(len(SENTENCE_N))


def analysed(folder, metric=None):
    metric = metric or Fidelity()
    return panels(metric, collect(metric, folder, Draws(20, 0)))


def make_all(folder, noise=0.01, cost=1.0):
    for name, mean in MEANS.items():
        make_row(folder, name, log_p_of(mean))
        make_row(folder, name, log_p_of(mean - noise), "noisy")
        make_row(folder, name, log_p_of(mean - cost), "exchanged")


def test_changes_are_differences_of_logarithms_of_perplexity(tmp_path):
    make_all(tmp_path)
    result = Meta(samples=100).analyse(analysed(tmp_path))
    rows = {row["explainer"]: row for row in result.rows}
    assert rows.keys() == MEANS.keys()
    for row in rows.values():
        # The same noise on both sides of a difference: paired draws cancel it.
        for end in ("", "_low", "_high"):
            assert row[f"noisy{end}"] == pytest.approx(0.01)
            assert row[f"exchanged{end}"] == pytest.approx(1.0)
        assert row["share"] == pytest.approx(0.01)
    [note] = [n for n in result.summary.notes if n.startswith("Base: ")]
    assert note == (
        "Base: it notices exchanged words of 3 of 3; noise changes at most 1.0 % of that; "
        "Kendall's tau of the order with noise and without is 1.00."
    )
    texts = [[cell.text for cell in line.cells] for line in result.summary.lines]
    assert texts[0][-3:] == ["+0.010 [+0.010, +0.010]", "+1.000 [+1.000, +1.000]", "1.0"]


def test_altered_rows_stand_in_no_table_and_no_ranking(tmp_path):
    make_all(tmp_path)
    [panel] = analysed(tmp_path)
    assert panel.names == ["a", "b", "c"]
    scored = collect(Fidelity(), tmp_path, Draws(20, 0))
    assert caveats(row.measurement for row in scored)[-1] == (
        "In no table, and compared by analysis=[meta]: exchanged[of=a], exchanged[of=b], "
        "exchanged[of=c], noisy[of=a], noisy[of=b], noisy[of=c]."
    )
    assert panel.altered["base"].keys() == {
        (name, alteration, "") for name in MEANS for alteration in ("noisy", "exchanged")
    }


def test_a_metric_that_noise_overturns_and_exchange_does_not_reach(tmp_path):
    for place, (name, mean) in enumerate(MEANS.items()):
        make_row(tmp_path, name, log_p_of(mean))
        make_row(tmp_path, name, log_p_of(-2.0 + place / 2), "noisy")  # in the reverse order
        make_row(tmp_path, name, log_p_of(mean, seed=1 + place), "exchanged")
    notes = Meta(samples=200).analyse(analysed(tmp_path)).summary.notes
    assert any("it notices exchanged words of 0 of 3" in note for note in notes)
    assert any("with noise and without is -1.00" in note for note in notes)


def test_one_alteration_alone_and_few_explainers(tmp_path):
    """As of judges that train, of which `exchanged` alone is run."""
    make_row(tmp_path, "a", log_p_of(-1.0))
    make_row(tmp_path, "a", log_p_of(-2.0), "exchanged")
    result = Meta(samples=50).analyse(analysed(tmp_path))
    [row] = result.rows
    assert row["noisy"] == row["share"] == ""
    [note] = [n for n in result.summary.notes if n.startswith("Base: ")]
    assert note == "Base: it notices exchanged words of 1 of 1."


def test_higher_is_better_where_it_is_and_worse_is_above_0(tmp_path):
    gold = Alignment(*[frozenset((i, i) for i in range(10))] * 2)

    def count(right):
        links = [frozenset((i, i if i < right else i + 20) for i in range(10))] * SENTENCES
        return count_links("toy test", range(SENTENCES), links, [gold] * SENTENCES)

    for right, alteration in ((8, ""), (8, "noisy"), (3, "exchanged")):
        shown = f"{alteration}[of=a]" if alteration else "a"
        facts = {"alters": ["a", alteration, ""]} if alteration else {}
        identity = AER | {"explainer": shown}
        measured(AlignmentErrorRate, tmp_path, identity, count(right), **facts)
    [row] = Meta(samples=20).analyse(analysed(tmp_path, AlignmentErrorRate())).rows
    assert row["exchanged"] == pytest.approx(0.5)
    assert row["noisy"] == 0


def test_nothing_that_is_altered(tmp_path):
    make_row(tmp_path, "a", log_p_of(-1.0))
    with pytest.raises(NotApplicable, match="no altered explainer has rows; add explainer="):
        Meta().analyse(analysed(tmp_path))
    make_row(tmp_path, "b", log_p_of(-1.0), "noisy")
    with pytest.raises(
        NotApplicable, match="have no unaltered row to compare with; measure explainer=b"
    ):
        Meta().analyse(analysed(tmp_path))


def test_each_amount_of_noise_has_a_line(tmp_path):
    make_row(tmp_path, "a", log_p_of(-1.0))
    make_row(tmp_path, "a", log_p_of(-1.01), "noisy")
    make_row(tmp_path, "a", log_p_of(-2.0), "noisy", "amount=5.0")
    make_row(tmp_path, "a", log_p_of(-2.0), "exchanged")
    result = Meta(samples=50).analyse(analysed(tmp_path))
    shares = {row["options"]: row["share"] for row in result.rows}
    assert shares == {"": pytest.approx(0.01), "amount=5.0": pytest.approx(1.0)}
    assert [line.cells[-4].text for line in result.summary.lines] == ["a", "a (amount=5.0)"]
    assert any("exchanged words of 1 of 1" in note for note in result.summary.notes)


def test_rows_of_the_same_seed_and_system_are_compared(tmp_path):
    """Another seed is far worse, and so is another training; neither is the effect of noise."""
    make_row(tmp_path, "a", log_p_of(-1.0), seed=0)
    make_row(tmp_path, "a", log_p_of(-2.0), seed=1)
    make_row(tmp_path, "a", log_p_of(-1.0), "noisy", seed=0)
    make_row(tmp_path, "a", log_p_of(-2.5), "exchanged", seed=0)
    [row] = Meta(samples=50).analyse(analysed(tmp_path)).rows
    assert row["noisy"] == 0
    assert row["exchanged"] == pytest.approx(1.5)


def test_an_exchange_that_costs_nothing_has_no_share(tmp_path):
    make_row(tmp_path, "a", log_p_of(-1.0))
    make_row(tmp_path, "a", log_p_of(-1.5), "noisy")
    make_row(tmp_path, "a", log_p_of(-0.9), "exchanged")
    result = Meta(samples=50).analyse(analysed(tmp_path))
    assert result.rows[0]["share"] == ""
    assert any(note.endswith("exchanged words of 0 of 1.") for note in result.summary.notes)


def test_a_metric_without_a_better_end_is_not_asked(tmp_path, monkeypatch):
    make_all(tmp_path)
    rows = analysed(tmp_path)
    column = dataclasses.replace(rows[0].metric.headline, better=None)
    monkeypatch.setattr(type(rows[0].metric), "headline", column)
    with pytest.raises(NotApplicable, match=r"neither more nor less .* is better"):
        Meta().analyse(rows)


def test_a_metric_of_how_answers_change_is_not_asked(tmp_path):
    """Its numbers stay the same where words are exchanged alike before and after a change."""
    make_all(tmp_path)
    rows = analysed(tmp_path)
    for panel in rows:
        panel.metric = Robustness()
    with pytest.raises(NotApplicable, match="do not depend on which words an explainer names"):
        Meta().analyse(rows)
