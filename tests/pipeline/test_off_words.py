"""The share of attention that lies on no word: by hand, and through the metrics that show it."""

import numpy as np
import pytest

from support.systems import batch_of, small_job
from xnmt_bench.corpora.vocabulary.subwords import SPECIAL
from xnmt_bench.measuring.bootstrap import Draws, score
from xnmt_bench.measuring.measurement import write
from xnmt_bench.measuring.metric import OFF_WORDS
from xnmt_bench.metrics.aer import AER
from xnmt_bench.metrics.confidence import Confidence
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.pipeline.off_words import shares_off_words
from xnmt_bench.report.latex import to_latex
from xnmt_bench.report.table import csv_columns, tables
from xnmt_bench.rules.extract import GOLDEN, REAL, TEACHER_FORCING

FEW = ("rules.test_sentences=8", "judge=[base]")


def job_of(workplace, system, explainer, *changes):
    return small_job(workplace, system, f"explainer={explainer}", *FEW, *changes)


def by_hand(job, scenario=TEACHER_FORCING):
    """Of each sentence alone, step by step: what the last layer's heads give to no word."""
    model, split = job.system.model, job.explained.decisions.split("test", scenario)
    shares = {}
    for index in range(8):
        batch = batch_of(split, [index])
        encoding = model.encode(model.embed_source(batch.source_BS), batch.layout)
        weights = model.attention(encoding, model.embed_target(batch.input_BT))
        sides = [(weights.cross_BLHTS, batch.source_BS)]
        if weights.prefix_BLHTT is not None:
            sides.append((weights.prefix_BLHTT, batch.input_BT))
        on_words = [
            sum(attention[0, -1].mean(0)[:, place] for place, i in enumerate(ids[0].tolist())
                if i not in SPECIAL)
            for attention, ids in sides
        ]  # fmt: skip
        softmaxes = 1 if model.joint_attention else len(sides)
        shares[int(split.number[index])] = (1 - sum(on_words) / softmaxes).detach().numpy()
    return shares


@pytest.mark.parametrize("system", ["decoder_only", "transformer", "rnn_search"])
def test_the_share_is_what_no_word_gets(workplace, system):
    """The input of a step is a word, which its prefix holds; BOS and EOS are none."""
    job = job_of(workplace, system, "attention")
    shares, expected = shares_off_words(job.explained, GOLDEN, source_alone=True), by_hand(job)
    assert shares.keys() == expected.keys()
    for number, share_T in shares.items():
        np.testing.assert_allclose(share_T, expected[number], atol=1e-6)
        assert (share_T > 0).all()


def test_an_opened_folder_says_what_its_attention_is_over(workplace):
    """Whichever architecture is configured."""
    opened = job_of(workplace, "decoder_only", "attention").system.path
    for configured in ("transformer", "decoder_only"):
        assert job_of(
            workplace, configured, "attention", f"nmt.path={opened}"
        ).system.joint_attention


def test_other_shares_and_what_has_none(workplace):
    """Rollout's are of both sides together, in an encoder-decoder too."""
    for system in ("transformer", "decoder_only"):
        job = job_of(workplace, system, "rollout")
        shares = shares_off_words(job.explained, TEACHER_FORCING)
        split = job.texts.split("test")
        for index, relevance in enumerate(job.relevance(TEACHER_FORCING)):
            words = [i for i, x in enumerate(split.source[index].tolist()) if x not in SPECIAL]
            steps = len(relevance.source_TS)
            by_word = [
                sum(relevance.source_TS[t, words]) + sum(relevance.prefix_TT[t, :t])
                for t in range(steps)
            ]
            np.testing.assert_allclose(shares[relevance.number], 1 - np.array(by_word), atol=1e-6)
    for changes in (("gradient_norm",), ("attention", "explainer.phi.heads=max")):
        assert shares_off_words(job_of(workplace, "decoder_only", *changes).explained, REAL) is None


@pytest.fixture
def scored(workplace, tmp_path):
    """Scores the rows of a metric of a job."""

    def rows(metric, *job):
        kept = []
        for planned in metric.measure(job_of(workplace, *job)):
            evidence = planned.make()
            measurement = write(metric.name, planned.identify(), evidence, tmp_path)
            kept.append(score(metric, measurement, Draws(20, 0)))
        return kept

    return rows


def share_of(rows, explainer="attention"):
    [row] = [r for r in rows if r.measurement.identity["explainer"] == explainer]
    return row.values[OFF_WORDS.name]


def test_fidelity_alignment_and_confidence_show_it(workplace, scored):
    job = job_of(workplace, "decoder_only", "attention")
    expected = np.concatenate([*by_hand(job).values()]).mean()
    for metric in (Fidelity(), AER()):
        rows = scored(metric, "decoder_only", "attention")
        assert share_of(rows) == pytest.approx(expected, abs=1e-6)
    of_sentences = [share_T.mean() for share_T in by_hand(job, REAL).values()]
    rows = scored(Confidence(), "decoder_only", "attention")
    assert share_of(rows) == pytest.approx(np.mean(of_sentences), abs=1e-6)


def test_it_depends_neither_on_k_nor_on_the_batch(workplace, scored):
    expected = share_of(scored(Fidelity(), "decoder_only", "attention"))
    for changes in (["k=3"], ["rules.batch_tokens=40", "rules.shard_sentences=3"]):
        rows = scored(Fidelity(), "decoder_only", "attention", *changes)
        assert share_of(rows) == pytest.approx(expected, abs=1e-6)


def test_tables_show_it_beside_attention_over_both_sides_at_once(scored):
    """Of an encoder-decoder it stands in the CSV, and in a table that has both."""
    metric = Fidelity()
    joint, other = (scored(metric, name, "attention") for name in ("decoder_only", "transformer"))
    blind = scored(metric, "decoder_only", "nearest")
    assert OFF_WORDS.name in csv_columns(metric)
    assert OFF_WORDS.name in other[0].row
    for rows, shown in ((other, False), (blind, False), (joint, True), (joint + other, True)):
        [(_, summary)] = tables(metric, rows, [])
        assert (OFF_WORDS.heading in summary.headings) == shown
    [(_, summary)] = tables(metric, joint + blind, [])
    cells = {line.cells[0].text: line.cells[-1].text for line in summary.lines}
    assert cells == {"attention": f"{100 * share_of(joint):.1f}", "nearest (blind)": ""}
    assert f"{100 * share_of(joint):.1f}" in to_latex(summary)
