"""The trial of judges: on rows made by hand, and planted explanations on a real model."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from support.configurations import configure
from support.example_rows import AER, FIDELITY, measured
from support.systems import batch_of
from xnmt_bench.corpora.sentence import Gold, Planted
from xnmt_bench.errors import NotApplicable
from xnmt_bench.explainers.base import decide
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.measuring.units import Units
from xnmt_bench.metrics.aer import AER as AlignmentError
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.metrics.fidelity.evidence import LIKELIHOOD_OF, PLANTED
from xnmt_bench.metrics.fidelity.trial import Trial
from xnmt_bench.pipeline.job import Job
from xnmt_bench.registry import load_all, load_explainer
from xnmt_bench.report.panels import panels
from xnmt_bench.report.report import collect

SENTENCES = 120
SLOTS = ("opening", "closing")


def write_row(
    folder, twin, name, advantage, nmt_seed=0, judge="base", wrong=(), family=None, right=-2,
    train_sentences=900, **facts,
):  # fmt: skip
    """A row that prefers the link by `advantage`, a number or one a slot, on every decision.

    The log Q of the word that it prefers is `right`, a number or one a slot.
    """
    rights = right if np.ndim(right) else [right] * len(SLOTS)
    advantages = advantage if np.ndim(advantage) else [advantage] * len(SLOTS)
    columns = {"log_likelihood": np.full(SENTENCES, -1.0), "rows": np.ones(SENTENCES)}
    is_right = ~np.isin(np.arange(SENTENCES), wrong)
    named = name.partition("[")[0]
    noise = np.random.default_rng(nmt_seed).normal(0, 0.01, SENTENCES)  # of the sentence
    for slot, of_slot, log_q in zip(SLOTS, advantages, rights, strict=True):
        columns[PLANTED + slot] = is_right.astype(float)
        # Below the preferred word, since no log-likelihood is above 0.
        offset = {"names_link": np.minimum(of_slot, 0), "names_cue": -np.maximum(of_slot, 0)}
        likelihood = log_q + noise + offset.get(named, -3.0)
        columns[LIKELIHOOD_OF + slot] = is_right * likelihood
    units = Units("twins", np.arange(SENTENCES), columns)
    row = FIDELITY | {"nmt": f"small on hides={twin}", "explainer": name, "instantiation": judge}
    row |= {"train_sentences": train_sentences}
    lineage = {
        "family": family or twin,
        "seed": nmt_seed,
        "initial": None,
        "learnt": {"hides": twin},
    }
    facts = {"lineage": lineage, "valid_loss": 1.0} | facts
    if named != "random":  # the planted explanations speak of the target's own words alone
        facts["counted"] = {"gold": "is", "decisions": 2 * SENTENCES, "of": 3 * SENTENCES}
    measured(Fidelity, folder, row, units, model=f"{twin}{nmt_seed}", **facts)


def write_twins(folder, in_l, in_c, options="", **facts):
    for twin, advantage in (("cue", in_l), ("link", in_c)):
        for name in ("names_link", "names_cue"):
            write_row(folder, twin, name + options, advantage, **facts)


def tried(folder, **options):
    scored = collect(Fidelity(), folder, Draws(9, 0))
    return Trial(samples=200, **options).analyse(panels(Fidelity(), scored))


def of_all(result):
    return {row["judge"]: row for row in result.rows if row["slot"] == "all"}


def test_response_bias_and_who_passes(tmp_path):
    write_twins(tmp_path, 1.5, -0.5, judge="base")  # changes its sign with the system
    write_twins(tmp_path, 0.9, 0.9, judge="sa")  # reads the text
    rows = of_all(tried(tmp_path))
    base, sa = rows["base"], rows["sa"]
    assert (base["response"], base["bias"]) == (pytest.approx(1.0), pytest.approx(0.5))
    assert (sa["response"], sa["bias"]) == (pytest.approx(0.0), pytest.approx(0.9))
    assert base["passes"] and not sa["passes"]
    assert base["margin"] == pytest.approx(base["response"] - abs(base["bias"]))
    assert (base["decisions"], base["pairs"]) == (2 * SENTENCES, 1)
    assert "nothing is known of other trainings" in " ".join(tried(tmp_path).summary.notes)


def test_a_weak_pair_takes_no_decisions_from_the_others(tmp_path):
    """Generated pairs share a test set. The systems of seed 1 are right on few decisions."""
    for seed, wrong in enumerate((range(3), range(SENTENCES - 10))):
        for twin, advantage in (("cue", 1.5), ("link", -0.5)):
            for name in ("names_link", "names_cue"):
                write_row(tmp_path, twin, name, advantage, nmt_seed=seed, wrong=wrong)
    result = tried(tmp_path)
    row = of_all(result)["base"]
    assert (row["pairs"], row["decisions"]) == (1, 2 * (SENTENCES - 3))
    [note, *_] = [note for note in result.summary.notes if "left out" in note]
    assert note.startswith("Pair 1 is left out of")


def test_twins_that_were_trained_elsewhere_are_no_pair(tmp_path):
    write_twins(tmp_path, 1.5, -0.5)
    unknown = {"learnt": {"hides": "cue"}}
    write_row(tmp_path, "cue", "names_link", 1.0, nmt_seed=7, lineage=unknown)
    assert of_all(tried(tmp_path))["base"]["pairs"] == 1


def test_slots_stand_apart(tmp_path):
    write_twins(tmp_path, (1.0, 3.0), (1.0, -3.0))
    rows = {row["slot"]: row for row in tried(tmp_path).rows}
    assert not rows["opening"]["passes"] and rows["closing"]["passes"]
    assert rows["all"]["advantage_c"] == pytest.approx(-1.0)


def test_only_decisions_that_all_systems_get_right_count(tmp_path):
    write_twins(tmp_path, 1.0, -1.0)
    write_row(tmp_path, "cue", "names_link", 1.0, wrong=range(7))
    write_row(tmp_path, "cue", "names_cue", 1.0, wrong=range(7))
    write_row(tmp_path, "link", "names_link", -1.0, wrong=range(5, 10))
    assert of_all(tried(tmp_path))["base"]["decisions"] == 2 * (SENTENCES - 10)


def test_both_slots_of_a_sentence_are_drawn_together(tmp_path):
    """Decisions of a sentence depend on each other: two slots alike count as one."""
    rng = np.random.default_rng(0)
    of_sentence = rng.normal(1, 1, SENTENCES)
    for twin, sign in (("cue", 1), ("link", -1)):
        for name in ("names_link", "names_cue"):
            write_row(tmp_path, twin, name, [sign * of_sentence] * 2)
    rows = {row["slot"]: row for row in tried(tmp_path).rows}
    widths = [rows[s]["response_high"] - rows[s]["response_low"] for s in ("all", "opening")]
    assert widths[0] == pytest.approx(widths[1])


def test_explanations_with_other_words_beside_them_are_a_case_of_their_own(tmp_path):
    write_twins(tmp_path, 1.0, -1.0)
    assert "others" not in tried(tmp_path).summary.headings
    write_twins(tmp_path, 2.0, 2.0, options="[others=random]")
    result = tried(tmp_path)
    rows = {row["others"]: row for row in result.rows if row["slot"] == "all"}
    assert rows[""]["passes"] and not rows["random"]["passes"]
    assert rows["random"]["bias"] == pytest.approx(2.0)
    assert "others" in result.summary.headings


def test_what_a_judge_has_learnt_stands_beside(tmp_path):
    write_twins(tmp_path, 1.0, -1.0)
    write_twins(tmp_path, 1.0, 1.0, judge="sa")
    # The link's in L, and the cue's in C: the preferred word of both has -2, the other one -3.
    rows = of_all(tried(tmp_path))
    assert rows["base"]["log_q"] == pytest.approx(-2, abs=0.01)
    assert rows["sa"]["log_q"] == pytest.approx(-2.5, abs=0.01)


def test_a_response_in_spans_compares_judges(tmp_path):
    """Random words have -6 in L and -5 in C, so spans are 4 and 3: A is 1 of 4, and -1 of 3."""
    write_twins(tmp_path, 1.0, -1.0)
    alone = tried(tmp_path)
    assert np.isnan(of_all(alone)["base"]["response_in_spans"])
    assert "s in spans" not in alone.summary.headings
    for twin, right in (("cue", -3), ("link", -2)):
        write_row(tmp_path, twin, "random", 0.0, right=right)
    assert "s in spans" in tried(tmp_path).summary.headings
    row = of_all(tried(tmp_path))["base"]
    assert row["response_in_spans"] == pytest.approx((1 / 4 + 1 / 3) / 2)
    assert row["response"] == pytest.approx(1.0)


def test_what_gains_nothing_by_the_right_words_has_no_response_in_spans(tmp_path):
    """A negative span would turn the sign of its response around."""
    write_twins(tmp_path, 1.0, -1.0)
    for twin in ("cue", "link"):
        write_row(tmp_path, twin, "random", 0.0, right=(3.0, 3.0))
    assert np.isnan(of_all(tried(tmp_path))["base"]["response_in_spans"])


def test_a_margin_is_drawn_as_it_is_measured(tmp_path):
    """Of each pair, before the mean over pairs: two pairs of 0.1 each have no margin of 1."""
    for seed, (in_l, in_c) in enumerate([(2.0, -0.1), (0.1, -2.0)]):
        write_twins(tmp_path, in_l, in_c, nmt_seed=seed)
    row = of_all(tried(tmp_path))["base"]
    assert row["margin"] == pytest.approx(0.1)
    assert row["margin_drawn_low"] <= 0.1 + 1e-9 and row["margin_drawn_high"] < 0.2


def test_systems_of_other_options_are_not_mixed(tmp_path):
    write_twins(tmp_path, 1.0, -1.0)
    write_row(tmp_path, "cue", "names_link", 5.0, nmt_seed=1, family="wider")
    with pytest.raises(
        NotApplicable, match="several systems with different options have the name small"
    ):
        tried(tmp_path)


def test_of_several_pairs_the_pair_is_the_unit(tmp_path):
    for seed, in_l in enumerate((1.0, 2.0, 3.0)):
        write_twins(tmp_path, in_l, -4.0, nmt_seed=seed)
    row = of_all(tried(tmp_path))["base"]
    # The t of two degrees of freedom, over a standard deviation of 1.
    half = 4.302653 / 3**0.5
    assert row["advantage_l"] == pytest.approx(2.0)
    assert row["advantage_l_high"] == pytest.approx(2 + half, abs=1e-4)
    # One-sided: t = 2 / (1 / sqrt 3) = 3.4641 with two degrees of freedom.
    assert row["p"] == pytest.approx(0.03709, abs=1e-4)
    assert row["passes"] and row["pairs"] == 3
    assert row["advantage_l_drawn_low"] < 2 < row["advantage_l_drawn_high"]
    assert not of_all(tried(tmp_path, level=0.03))["base"]["passes"]


def test_the_tests_of_several_judges_are_corrected(tmp_path):
    for judge in ("base", "sa"):
        for seed, in_l in enumerate((1.0, 2.0, 3.0)):
            write_twins(tmp_path, in_l, -4.0, nmt_seed=seed, judge=judge)
    rows = of_all(tried(tmp_path))
    assert [row["p_corrected"] for row in rows.values()] == [
        pytest.approx(2 * 0.03709, abs=1e-4)
    ] * 2
    assert not any(row["passes"] for row in rows.values())


def test_what_it_takes(tmp_path):
    write_row(tmp_path, "cue", "names_link", 1.0)
    with pytest.raises(NotApplicable, match="names_link,names_cue on corpus=toy_twins"):
        tried(tmp_path)


@pytest.fixture(scope="module")
def twins(workplace):
    """A job on twins' text, of a system that has hardly learnt."""
    return Job(configure(
        "corpus=toy_twins", "corpus.train=300", "corpus.valid=20", "corpus.test=20",
        "nmt.corpus={hides:cue}", "nmt=transformer", "nmt.sizes.dimension=16",
        "nmt.sizes.feed_forward=16", "nmt.sizes.layers=1", "nmt.sizes.heads=2",
        "nmt.training.max_epochs=1", "trainer.progress_bar=false", "device=cpu", "threads=1",
        f"store={workplace}/store",
    ))  # fmt: skip


def test_a_system_learns_from_text_of_its_own(twins, unmade):
    assert twins.system.name == "transformer on hides=cue"
    assert twins.system.lineage["learnt"] == {"hides": "cue"}
    clean = twins.changed({"nmt": {"corpus": None}})
    unmade("nmt")
    assert clean.system.trained.fingerprint != twins.system.trained.fingerprint
    assert clean.texts.encoded["test"].fingerprint == twins.texts.encoded["test"].fingerprint


@pytest.mark.parametrize("other_words", ["nearest", "random"])
def test_both_explanations_share_every_word_but_the_one_they_name(twins, other_words):
    model, split = twins.system.model, twins.texts.split("test")
    golds = tuple(twins.texts.gold("test")[n] for n in range(4))
    batch, _ = decide(model, batch_of(split, range(4)))
    sides = ([side.words(n) for n in range(4)] for side in (split.source, split.target))
    batch = replace(batch, gold=golds, words=tuple(zip(*sides, strict=True)))
    link, cue = (
        load_explainer(f"names_{word}", others=other_words).relevance(model, batch)
        for word in ("link", "cue")
    )
    torch.testing.assert_close(link.prefix_BTT, cue.prefix_BTT, equal_nan=True)
    for row, gold in enumerate(golds):
        source = model.source_subwords.words(batch.source_BS[row].tolist())
        target = model.target_subwords.words(batch.target_BT[row].tolist())
        by_word = {planted.word: planted for planted in gold.planted}
        for step, word in enumerate(target):
            best = [
                source[int(r.source_BTS[row, step].nan_to_num(-9).argmax())] for r in (link, cue)
            ]
            if word in by_word:
                assert best == [by_word[word].link, by_word[word].cue]
            else:
                both = link.source_BTS[row, step], cue.source_BTS[row, step]
                torch.testing.assert_close(*both, equal_nan=True)


AER_OF_TWINS = {**AER, "corpus": "toy_twins"}


def write_links(folder, twin, name, right, nmt_seed=0):
    """A row of alignment error rate whose sentences have `right` of four links."""
    columns = {column: np.full(SENTENCES, 4.0) for column in ("links", "sure")}
    columns |= {f"{kind}_links": np.full(SENTENCES, float(right)) for kind in ("sure", "possible")}
    units = Units("twins", np.arange(SENTENCES), columns)
    row = AER_OF_TWINS | {"nmt": f"small on hides={twin}", "explainer": name}
    lineage = {"family": twin, "seed": nmt_seed, "initial": None, "learnt": {"hides": twin}}
    measured(AlignmentError, folder, row, units, model=f"{twin}{nmt_seed}", **{"lineage": lineage})


def numbers(folder, *metrics):
    """The trial of numbers, by their columns."""
    by_metric = {m.name: panels(m, collect(m, folder, Draws(9, 0))) for m in metrics}
    results = dict(Trial(samples=200).results(by_metric))
    return {row["number"]: row for row in results["trial_of_numbers"].rows}, results


def test_every_number_that_ranks_explanations_is_tried(tmp_path):
    """AER knows the text's links alone: it prefers the link in both systems."""
    for twin in ("cue", "link"):
        write_links(tmp_path, twin, "names_link", 3)
        write_links(tmp_path, twin, "names_cue", 1)
    rows, results = numbers(tmp_path, AlignmentError())
    assert list(results) == ["trial_of_numbers"]  # no judge's log-probability
    # Lower is better: 0.25 in place of 0.75.
    assert rows["aer"]["advantage_l"] == pytest.approx(0.5)
    assert (rows["aer"]["response"], rows["aer"]["bias"]) == (0, pytest.approx(0.5))
    assert not rows["aer"]["passes"]
    shown = dict(zip(rows, results["trial_of_numbers"].summary.lines, strict=True))["aer"]
    assert "+50.0" in [cell.text for cell in shown.cells]


def test_a_number_that_follows_the_system_passes(tmp_path):
    for twin, named in (("cue", "names_link"), ("link", "names_cue")):
        for name in ("names_link", "names_cue"):
            write_links(tmp_path, twin, name, 3 if name == named else 1)
    rows, _ = numbers(tmp_path, AlignmentError())
    assert (rows["aer"]["response"], rows["aer"]["bias"]) == (pytest.approx(0.5), 0)
    assert rows["aer"]["passes"]


def test_judges_perplexity_stands_in_one_table_alone(tmp_path):
    write_twins(tmp_path, 1.0, -1.0)
    scored = collect(Fidelity(), tmp_path, Draws(9, 0))
    results = dict(Trial(samples=200).results({"fidelity": panels(Fidelity(), scored)}))
    assert list(results) == ["fidelity_trial", "fidelity_trial_judges"]


def test_log_q_of_planted_decisions_is_in_the_csv(tmp_path):
    write_row(tmp_path, "cue", "names_link", 0.5, wrong=range(20))
    [row] = collect(Fidelity(), tmp_path, Draws(9, 0))
    assert row.values["planted"] == 2 * (SENTENCES - 20)
    assert row.values["planted_log_q"] == pytest.approx(-2, abs=0.01)


def judges(folder):
    """The lines of which judge is for what, by judge."""
    scored = collect(Fidelity(), folder, Draws(9, 0))
    results = dict(Trial(samples=200).results({"fidelity": panels(Fidelity(), scored)}))
    result = results["fidelity_trial_judges"]
    return {row["judge"]: row for row in result.rows}, result.summary


def test_a_sentence_for_each_judge(tmp_path):
    write_twins(tmp_path, 1.5, -0.5, judge="base", right=-0.1)
    write_twins(tmp_path, (2.0, 0.5), (-1.0, 0.4), judge="base_tuned", right=-0.1)
    write_twins(tmp_path, 0.9, 0.9, judge="sa", right=-0.1)
    write_twins(tmp_path, 0.9, 0.1, judge="fn", right=-0.1)
    write_twins(tmp_path, -0.7, 0.3, judge="rn", right=-0.1)
    # A guess between four marks has -1.39, and between two -0.69.
    write_twins(tmp_path, 0.0, 0.0, judge="evalx_sa", right=(-1.0, -0.8))
    write_twins(tmp_path, 0.0, 0.0, judge="kl_sa", right=(-1.5, -0.8))
    rows, summary = judges(tmp_path)
    assert {
        judge: (row["verdict"], row["text"].partition(". ")[0]) for judge, row in rows.items()
    } == {
        "base": ("follows", "it follows the system, with a bias of 50 % of its response"),
        # A is 1.25 in L and -0.3 in C.
        "base_tuned": (
            "follows",
            "it follows the system, with a bias of 61 % of its response, and not at the closing "
            "slot",
        ),
        "sa": ("the same", "it says the same of both systems"),
        "fn": (
            "responds",
            "it responds to the system, and its bias is too great or too uncertain to pass",
        ),
        "rn": ("opposite", "it prefers in each system the word that the other one uses"),
        "evalx_sa": (
            "the same",
            "it says the same of both systems; it has not learnt the closing words",
        ),
        "kl_sa": (
            "not learnt",
            "it has not learnt the planted words, so its numbers say nothing",
        ),
    }
    assert "reads a code off the choice of words" in rows["sa"]["cannot_see"]
    assert "never met in training" in rows["base"]["cannot_see"]
    [note] = [note for note in summary.notes if note.startswith("own SA (toy): it says the same")]
    assert "It cannot see the system: it learns labels from text" in note


def test_what_a_judge_costs_stands_beside(tmp_path):
    costs = {"learning_passes": 3200, "learning_seconds": 20.0, "judging_seconds": 1.0}
    for twin, name in (("cue", "names_link"), ("cue", "names_cue"), ("link", "names_link")):
        write_row(tmp_path, twin, name, 1.0, judge="sa", **costs)
        write_row(tmp_path, twin, name, 1.0, judge="base", judging_seconds=1.0)
    write_row(tmp_path, "link", "names_cue", 1.0, judge="sa", **costs | {"learning_seconds": 40.0})
    # A killed run does not know how long the whole took.
    write_row(tmp_path, "link", "names_cue", 1.0, judge="base", judging_seconds=None)
    rows, summary = judges(tmp_path)
    assert [rows["sa"][name] for name in costs] == [3200, 25.0, 1.0]
    assert [rows["base"][name] for name in list(costs)[:2]] == [0, 0]
    assert np.isnan(rows["base"]["judging_seconds"])
    shown = {line.cells[1].text: [c.text for c in line.cells[-3:]] for line in summary.lines}
    assert shown == {"own SA": ["3,200", "25", "1.0"], "Base": ["0", "0", ""]}


def test_every_judge_says_what_it_cannot_see():
    """A judge of this package that is added later has to say it too."""
    for name, judge in load_all("judges").items():
        if judge.__module__.startswith("xnmt_bench."):
            assert judge.cannot_see, name


def test_twins_of_which_one_has_a_further_setting_are_paired(tmp_path):
    """Its rows of that setting have a panel of their own."""
    write_twins(tmp_path, 1.0, -1.0, settings={"max_epochs": 6})
    for name in ("names_link", "names_cue"):
        write_row(tmp_path, "cue", name, 5.0, settings={"max_epochs": 30})
    rows = [row for row in tried(tmp_path).rows if row["slot"] == "all"]
    assert [row["response"] for row in rows] == [pytest.approx(1.0)]


def test_judges_of_two_sizes_are_told_apart_and_corrected_apart(tmp_path):
    for size in (200, 400):
        for seed in range(3):
            write_twins(tmp_path, 1.0 + seed, -4.0, nmt_seed=seed, judge="sa", train_sentences=size)
    result = tried(tmp_path)
    assert "train_sentences" in result.summary.headings
    rows = [row for row in result.rows if row["slot"] == "all"]
    assert [row["train_sentences"] for row in rows] == [200, 400]
    # One judge a text, so that nothing is corrected.
    assert all(row["p_corrected"] == pytest.approx(row["p"]) for row in rows)


SYSTEMS = ("f" * 16, "5" * 16)  # of a pair of natural twins, the first and the second


def write_natural(folder, pair, advantages, judge="base", names=("small", "small"), test_set=None):
    """Rows of both systems of a natural pair, whose decisions are a test set of their own.

    Args:
        advantages: of the link, by system, where the link is the first system's cause and where it
            is the second one's.
    """
    systems = [f"{pair}{system}" for system in SYSTEMS]
    of_first_U = np.arange(SENTENCES) % 2 == 0
    for system, name_of_system, of_slots in zip(systems, names, advantages, strict=True):
        for name in ("names_link", "names_cue"):
            columns = {"log_likelihood": np.full(SENTENCES, -1.0), "rows": np.ones(SENTENCES)}
            for slot, advantage in zip(("first", "second"), of_slots, strict=True):
                chosen_U = of_first_U if slot == "first" else ~of_first_U
                columns[PLANTED + slot] = chosen_U.astype(float)
                log_q = -3 + (advantage if name == "names_link" else 0)
                columns[LIKELIHOOD_OF + slot] = chosen_U * float(log_q)
            row = FIDELITY | {"nmt": name_of_system, "explainer": name, "instantiation": judge}
            lineage = {"family": name_of_system, "seed": 0, "initial": None}
            of_pair = dict.fromkeys(("test set", "test sentences", "annotation"), test_set or pair)
            measured(
                Fidelity, folder, row | {"train_sentences": 900},
                Units(test_set or pair, np.arange(SENTENCES), columns), model=system,
                lineage=lineage, twin_systems=systems, settings=of_pair,
            )  # fmt: skip


def test_natural_twins_are_tried_by_role(tmp_path):
    """The first system is L in one half of the decisions, and C in the other."""
    write_natural(tmp_path, "a", [(1.0, -2.0), (-0.5, 0.5)])
    [row] = tried(tmp_path).rows
    # L: the first system on its own causes, the second one on its own; C: each on the other's.
    assert row["advantage_l"] == pytest.approx((1.0 + 0.5) / 2)
    assert row["advantage_c"] == pytest.approx((-2.0 - 0.5) / 2)
    assert (row["slot"], row["pairs"], row["decisions"]) == ("all", 1, SENTENCES)
    assert (row["system"], row["by_pair"][:8]) == ("small", "pair aff")
    assert "Which system is L is drawn" in " ".join(tried(tmp_path).summary.notes)


def test_a_judge_that_sees_nothing_has_no_bias_on_natural_twins(tmp_path):
    """It prefers the first system's cause, in both systems; roles are drawn."""
    write_natural(tmp_path, "a", [(0.7, -0.7), (0.7, -0.7)])
    [row] = tried(tmp_path).rows
    assert (row["response"], row["bias"]) == (pytest.approx(0), pytest.approx(0))
    assert not row["passes"]


def test_natural_pairs_are_replicates_though_their_test_sets_differ(tmp_path):
    for pair, of_pair in zip("abc", (1.0, 2.0, 3.0), strict=True):
        write_natural(tmp_path, pair, [(of_pair, -4.0), (-4.0, of_pair)])
    [row] = tried(tmp_path).rows
    assert row["pairs"] == 3 and row["passes"]
    assert row["advantage_l"] == pytest.approx(2.0)
    assert row["p"] == pytest.approx(0.03709, abs=1e-4)  # as of the generated pairs above


def test_a_pair_with_few_decisions_leaves_the_others_in(tmp_path, monkeypatch):
    for pair, of_pair in zip("abc", (1.0, 2.0, 3.0), strict=True):
        with monkeypatch.context() as context:
            if pair == "b":
                context.setitem(globals(), "SENTENCES", 60)
            write_natural(tmp_path, pair, [(of_pair, -4.0), (-4.0, of_pair)])
    result = tried(tmp_path)
    [row] = result.rows
    assert row["pairs"] == 2 and row["advantage_l"] == pytest.approx(2.0)
    [note] = [note for note in result.summary.notes if "left out" in note]
    assert note.startswith("Pair bfffff+b55555 is left out of Base, all: 60 decisions")


def test_one_pair_on_two_files_is_refused(tmp_path):
    write_natural(tmp_path, "a", [(1.0, -1.0), (-1.0, 1.0)])
    write_natural(tmp_path, "a", [(1.0, -1.0), (-1.0, 1.0)], test_set="wider")
    with pytest.raises(NotApplicable, match=r"pair afffff\+a55555 was judged on several files"):
        tried(tmp_path)


def test_natural_pairs_of_another_kind_stand_apart(tmp_path):
    write_natural(tmp_path, "a", [(1.0, -1.0), (-1.0, 1.0)])
    write_natural(tmp_path, "b", [(2.0, -2.0), (-2.0, 2.0)], names=("small", "recurrent"))
    rows = {row["system"]: row for row in tried(tmp_path).rows}
    assert {name: row["response"] for name, row in rows.items()} == pytest.approx(
        {"small": 1.0, "recurrent and small": 2.0}
    )


def test_other_numbers_leave_natural_twins_out(tmp_path):
    write_natural(tmp_path, "a", [(1.0, -1.0), (-1.0, 1.0)])
    scored = collect(Fidelity(), tmp_path, Draws(9, 0))
    results = dict(Trial(samples=200).results({"fidelity": panels(Fidelity(), scored)}))
    assert list(results) == ["fidelity_trial", "fidelity_trial_judges"]


def test_a_planted_word_may_be_in_the_prefix(transformer):
    """The cue is the target's second word, and the link a source word."""
    model, split = transformer.system.model, transformer.texts.split("test")
    batch, _ = decide(model, batch_of(split, [0]))
    source_S, target_T = split.source.words(0), split.target.words(0)
    planted = Planted("first", 3, 0, 1, cue_in_prefix=True)
    batch = replace(batch, gold=(Gold(planted=(planted,)),), words=((source_S, target_T),))
    link, cue = (
        load_explainer(f"names_{word}").relevance(model, batch) for word in ("link", "cue")
    )
    step, other = (int((target_T == word).argmax()) for word in (3, 2))
    assert source_S[link.source_BTS[0, step].argmax()] == 0
    assert source_S[cue.source_BTS[0, step].argmin()] == 0
    named = cue.prefix_BTT[0, step].nan_to_num(-9), link.prefix_BTT[0, step].nan_to_num(9)
    assert target_T[named[0].argmax()] == target_T[named[1].argmin()] == 1
    for name in ("source_BTS", "prefix_BTT"):
        both = (getattr(r, name)[0, other] for r in (link, cue))
        torch.testing.assert_close(*both, equal_nan=True)


def test_a_note_says_what_each_judge_was_shown_to_see(tmp_path):
    write_twins(tmp_path, 1.5, -0.5, judge="base")
    write_twins(tmp_path, 0.9, 0.9, judge="sa")
    notes = Fidelity().notes(collect(Fidelity(), tmp_path, Draws(9, 0)))
    assert notes[0] == (
        "Followed which words a system uses (one pair in four by chance), pairs of generated "
        "twins: Base in 10 of 10; own SA in 0 of 10. In pairs of natural twins: Base in 7 of 10; "
        "own SA in 0 of 5. In pairs of natural twins of two architectures: Base in 14 of 15; "
        "own SA in 0 of 5."
    )
