"""The score between random words and the whole context."""

import numpy as np
import pytest

from support.example_rows import AER, FIDELITY, decisions, measured
from xnmt_bench.analyses.normalised import Normalised
from xnmt_bench.corpora.formats.alignment import Alignment
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.metrics.aer.counts import count_links
from xnmt_bench.metrics.aer.metric import AER as AlignmentErrorRate
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.report.panels import panels
from xnmt_bench.report.report import collect

SENTENCES = 200
NMT = {"explainer": "", "instantiation": "nmt", "k": "", "prefix": "", "seed": "",
       "train_sentences": "", "learned_from": ""}  # fmt: skip


def made(results, log_p, test_set="toy test", **identity):
    units = decisions(range(len(log_p)), log_p, test_set=test_set)
    measured(Fidelity, results, FIDELITY | identity, units)


def scores(results, **options):
    fidelity_panels = panels(Fidelity(), collect(Fidelity(), results, Draws(9, 0)))
    rows = Normalised(**{"samples": 100} | options).analyse(fidelity_panels).rows
    return {row["explainer"]: tuple(row[f"score{e}"] for e in ("", "_low", "_high"))
            for row in rows}  # fmt: skip


def test_the_score_is_0_at_random_and_1_at_the_model(tmp_path, sentence_log_p):
    made(tmp_path, sentence_log_p, **NMT)
    for name, loss in (("random", 4), ("same", 4), ("whole", 0), ("half", 2), ("worse", 6)):
        made(tmp_path, sentence_log_p - loss, explainer=name)
    by_name = scores(tmp_path)
    # The best first; `random` is the floor.
    assert list(by_name) == ["whole", "half", "same", "worse"]
    for name, expected in (("same", 0.0), ("whole", 1.0), ("half", 0.5), ("worse", -0.5)):
        # The same sentences are drawn for all three.
        assert by_name[name] == pytest.approx([expected] * 3)


def test_the_interval_holds_the_score(tmp_path, sentence_log_p):
    made(tmp_path, sentence_log_p, **NMT)
    made(tmp_path, sentence_log_p - 4, explainer="random")
    noise = np.random.default_rng(4).standard_normal(SENTENCES)
    made(tmp_path, sentence_log_p - 2 + noise, explainer="noisy")
    value, low, high = scores(tmp_path, samples=500)["noisy"]
    assert low < value < high
    # The noise of the mean, as a share of four nats.
    expected = noise.std() / np.sqrt(SENTENCES) / 4
    assert (high - low) / (2 * 1.96) == pytest.approx(expected, rel=0.15)


def test_seeds_of_both_sides_are_averaged(tmp_path, sentence_log_p):
    made(tmp_path, sentence_log_p, **NMT)
    for seed, (random, gain) in enumerate(((3, 1), (5, 2))):
        made(tmp_path, sentence_log_p - random, explainer="random", seed=seed)
        made(tmp_path, sentence_log_p - gain, explainer="own", seed=seed)
    worst, value = (np.log(np.mean(np.exp(losses))) for losses in ([3, 5], [1, 2]))
    assert scores(tmp_path)["own"] == pytest.approx([(worst - value) / worst] * 3)


def test_a_floor_alone_has_no_score(tmp_path, sentence_log_p):
    made(tmp_path, sentence_log_p, **NMT)
    made(tmp_path, sentence_log_p - 4, explainer="random")
    with pytest.raises(NotApplicable, match="no row has the trainings of random and nmt"):
        scores(tmp_path)


def test_another_floor(tmp_path, sentence_log_p):
    made(tmp_path, sentence_log_p, **NMT)
    for name, loss in (("random", 4), ("a", 2), ("b", 1)):
        made(tmp_path, sentence_log_p - loss, explainer=name)
    assert {e: s[0] for e, s in scores(tmp_path, floor="a").items()} == pytest.approx(
        {"b": 0.5, "random": -1.0}
    )


def test_both_ends_are_of_the_rows_own_trainings(tmp_path, sentence_log_p):
    """`own` was measured on the first training alone, whose ends are not those of the second."""
    for training, (random, model_loss) in enumerate(((4, 0), (9, 3))):
        lineage = {"family": "f", "seed": training, "initial": None}
        for loss, identity in ((random, {"explainer": "random"}), (model_loss, NMT)):
            units = decisions(range(SENTENCES), sentence_log_p - loss, test_set="toy test")
            measured(
                Fidelity, tmp_path, FIDELITY | identity, units, f"m{training}", lineage=lineage
            )
        if training == 0:
            units = decisions(range(SENTENCES), sentence_log_p - 2, test_set="toy test")
            own_row = FIDELITY | {"explainer": "own"}
            measured(Fidelity, tmp_path, own_row, units, "m0", lineage=lineage)
    assert scores(tmp_path)["own"] == pytest.approx([0.5] * 3)


def test_a_judge_that_cannot_tell_random_words_from_all_gives_no_number(tmp_path, sentence_log_p):
    for identity in (NMT, {"explainer": "random"}, {"explainer": "own"}):
        made(tmp_path, sentence_log_p, **identity)
    result = Normalised(samples=20).analyse(
        panels(Fidelity(), collect(Fidelity(), tmp_path, Draws(9, 0)))
    )
    assert [cell.text for cell in result.summary.lines[0].cells] == ["own", "no number"]


def test_blind_rows_stand_behind_the_others(tmp_path, sentence_log_p):
    made(tmp_path, sentence_log_p, **NMT)
    made(tmp_path, sentence_log_p - 4, explainer="random")
    made(tmp_path, sentence_log_p - 2, explainer="half")
    units = decisions(range(len(sentence_log_p)), sentence_log_p - 1)
    measured(Fidelity, tmp_path, FIDELITY | {"explainer": "lexicon"}, units, **{"blind": True})
    result = Normalised(samples=20).analyse(
        panels(Fidelity(), collect(Fidelity(), tmp_path, Draws(9, 0)))
    )
    assert [line.cells[0].text for line in result.summary.lines] == ["half", "lexicon (blind)"]
    assert [line.cells[-1].rank is None for line in result.summary.lines] == [False, True]
    assert "normalised own FN" in result.figure.axes[0].get_xlabel()


def test_the_figure_is_of_the_last_judge_there_is(tmp_path, sentence_log_p):
    """Not of the last one that the worst explainer has."""
    for judge in ("base", "sa"):
        made(tmp_path, sentence_log_p - 4, explainer="random", instantiation=judge)
        made(tmp_path, sentence_log_p - 1, explainer="best", instantiation=judge)
    made(tmp_path, sentence_log_p - 3, explainer="worst", instantiation="base")
    made(tmp_path, sentence_log_p, **NMT)
    result = Normalised(samples=20).analyse(
        panels(Fidelity(), collect(Fidelity(), tmp_path, Draws(9, 0)))
    )
    assert "normalised own SA" in result.figure.axes[0].get_xlabel()
    _, labels = result.figure.axes[0].get_legend_handles_labels()
    assert labels == ["best"]


def test_a_share_has_no_normalised_score(tmp_path):
    links = [frozenset({(0, 0)})] * 3
    measured(
        AlignmentErrorRate,
        tmp_path,
        AER,
        count_links("t", range(3), links, [Alignment(*links[:2])] * 3),
    )
    aer = AlignmentErrorRate()
    with pytest.raises(NotApplicable, match="needs a metric that is compared by ratios"):
        Normalised().analyse(panels(aer, collect(aer, tmp_path, Draws(9, 0))))
