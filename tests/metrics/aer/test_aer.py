"""AER against hand-computed numbers and against the figures of other people's files."""

import csv
import itertools

import numpy as np
import pytest

from support.paths import DATA
from xnmt_bench.corpora.formats.alignment import Alignment, AlignmentFile
from xnmt_bench.corpora.gold import read_pairs
from xnmt_bench.errors import StoreError
from xnmt_bench.measuring.bootstrap import Draws, interval, resample
from xnmt_bench.measuring.units import Units
from xnmt_bench.metrics.aer import AER
from xnmt_bench.metrics.aer.alignments import link_diagonal
from xnmt_bench.metrics.aer.counts import count_links, line, skip_unaligned
from xnmt_bench.metrics.aer.symmetrise import (
    METHODS,
    grow_diagonal,
    grow_diagonal_final,
    intersection,
    union,
)

RWTH = DATA / "alignments" / "rwth_deen"


def gold(sure, possible=()):
    return Alignment(frozenset(sure), frozenset({*sure, *possible}))


def counts(*pairs, **options):
    links = [frozenset(a) for a, _ in pairs]
    return count_links("a test set", range(len(pairs)), links, [g for _, g in pairs], **options)


def scores(*pairs, **options):
    """The metric's results of all pairs."""
    units = counts(*pairs, **options)
    score_of = AER().score(units, np.ones((1, len(units))))
    return {name: float(value) for name, [value] in score_of.items()}


def test_by_hand():
    # A = 3 links; 1 of them sure, 1 more possible, 1 wrong; S = 2.
    score_of = scores(({(0, 0), (1, 2), (5, 5)}, gold({(0, 0), (1, 1)}, {(1, 2)})))
    assert score_of["precision"] == pytest.approx(2 / 3)
    assert score_of["recall"] == pytest.approx(1 / 2)
    assert score_of["aer"] == pytest.approx(1 - (1 + 2) / (3 + 2))
    assert line(score_of) == "AER 40.0% (66.7%/50.0%/3)"


def test_what_has_no_number_is_na_in_the_fields_line():
    """No link: no precision; no sure gold link: no recall. A row holds no NaN."""
    for pair, expected in (
        ((set(), gold({(0, 0)})), "AER 100.0% (n/a/0.0%/0)"),
        (({(0, 0)}, gold(set(), {(0, 0)})), "AER 0.0% (100.0%/n/a/1)"),
    ):
        score_of = {name: value for name, value in scores(pair).items() if not np.isnan(value)}
        assert line(score_of) == expected


def test_pairs_are_pooled_not_averaged():
    right = ({(0, 0)}, gold({(0, 0)}))
    wrong = ({(i, i) for i in range(9)}, gold({(9, 9)}))
    assert scores(right, wrong)["aer"] == pytest.approx(1 - 2 / 12)


def test_the_gold_itself_is_without_error():
    links = {(0, 0), (1, 2)}
    assert scores((links, gold(links)))["aer"] == 0
    # A possible link costs nothing, a missing sure one does.
    assert scores(({*links, (1, 1)}, gold(links, {(1, 1)})))["aer"] == 0
    assert scores(({(0, 0)}, gold(links)))["aer"] == pytest.approx(1 / 3)


def test_without_any_link_there_is_no_number():
    empty = scores((set(), gold(())))
    assert np.isnan([empty[name] for name in ("aer", "precision", "recall")]).all()
    assert scores((set(), gold({(0, 0)})))["aer"] == 1


def test_the_interval_holds_the_number_and_is_reproducible():
    rng = np.random.default_rng(0)
    pairs = [
        (
            {(i, int(j)) for i, j in enumerate(rng.integers(0, 3, 5))},
            gold({(i, i) for i in range(3)}),
        )
        for _ in range(80)
    ]
    once, again = (resample(AER(), counts(*pairs), Draws(500, 1))["aer"] for _ in range(2))
    low, high = interval(once[1:])
    assert low < once[0] < high
    assert high - low < 0.2
    assert once.tolist() == again.tolist()


def test_counts_come_back_and_damage_is_named(tmp_path):
    path = tmp_path / "counts.parquet"
    units = counts(({(0, 0), (1, 2)}, gold({(0, 0)})), (set(), gold({(1, 1)})))
    assert {name: column.tolist() for name, column in units.columns.items()} == {
        "links": [2, 0],
        "unaligned_links": [1, 0],
        "sure": [1, 1],
        "sure_links": [1, 0],
        "possible_links": [1, 0],
    }
    units.save(path)
    loaded = Units.load(path)
    assert loaded.number_U.tolist() == [0, 1]
    for name, column in units.columns.items():
        assert loaded[name].tolist() == column.tolist()
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(StoreError, match=r"counts\.parquet"):
        Units.load(path)


def test_target_words_that_aer_cannot_judge():
    pairs = (set(), gold({(0, 0), (1, 0)}, {(0, 1)})), (set(), gold(()))
    assert counts(*pairs, target_lengths=[3, 2])["target_words"].sum() == 5
    score_of = scores(*pairs, target_lengths=[3, 2])
    assert (score_of["no_link"], score_of["no_sure_link"]) == (3 / 5, 4 / 5)
    assert "no_link" not in scores(*pairs)


# Symmetrisation -----------------------------------------------------------------------------


def test_growing_by_hand():
    forward, backward = frozenset({(0, 0), (1, 1), (3, 0)}), frozenset({(0, 0), (2, 2), (0, 1)})
    assert intersection(forward, backward) == {(0, 0)}
    assert union(forward, backward) == forward | backward
    # (1, 1) is next to (0, 0) and both of its words are free; (2, 2) is next to (1, 1) then.
    assert grow_diagonal(forward, backward) == {(0, 0), (1, 1), (2, 2)}
    # (0, 1) and (3, 0) each have a word that is taken.
    assert grow_diagonal_final(forward, backward) == {(0, 0), (1, 1), (2, 2)}


def test_final_links_words_that_growing_cannot_reach():
    forward, backward = frozenset({(0, 0), (5, 9)}), frozenset({(0, 0), (5, 8)})
    assert grow_diagonal(forward, backward) == {(0, 0)}
    assert grow_diagonal_final(forward, backward) == {(0, 0), (5, 9)}


def test_methods_are_nested():
    rng = np.random.default_rng(0)
    for _ in range(50):
        first, two = (frozenset(map(tuple, rng.integers(0, 6, (9, 2)).tolist())) for _ in range(2))
        by_method = [METHODS[m](first, two) for m in ("intersection", "grow-diagonal")]
        by_method += [METHODS[m](first, two) for m in ("grow-diagonal-final", "union")]
        for small, large in itertools.pairwise(by_method):
            assert small <= large


# Other people's files -----------------------------------------------------------------------


def lengths():
    pairs = read_pairs([RWTH / "test.uc.de", RWTH / "test.uc.en"])
    return [(len(x.split()), len(y.split())) for x, y in pairs]


def baseline(name, **how):
    return [links.sure for links in AlignmentFile(RWTH / "baselines" / name, **how).read(lengths())]


@pytest.mark.shared("alignments/rwth_deen")
def test_every_published_baseline_scores_as_published():
    reference = AlignmentFile(RWTH / "alignment.talp", base=1).read(lengths())
    with (RWTH / "baselines" / "scores.tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert len(rows) == 8
    for row in rows:
        english_first = row["order"] == "english-german"
        links = baseline(row["file"], reverse=english_first)
        score_of = scores(*zip(links, reference, strict=True))
        expected = "AER {aer}% ({precision}%/{recall}%/{links})".format(**row)
        assert line(score_of) == expected, row["file"]


@pytest.mark.shared("alignments/rwth_deen")
@pytest.mark.parametrize("method", METHODS)
def test_symmetrised_baselines_come_out_link_for_link(method):
    forward = baseline("giza.forward.talp")
    backward = baseline("giza.reverse.talp", reverse=True)
    links_of_sentences = [METHODS[method](f, b) for f, b in zip(forward, backward, strict=True)]
    assert links_of_sentences == baseline(f"giza.{method}.talp")


# Words that no annotator linked --------------------------------------------------------------


def error_rate(pairs):
    """Och and Ney's formula link by link, with nothing of the project in it."""
    right = [(link in g.sure) + (link in g.possible) for a, g in pairs for link in a]
    return 1 - sum(right) / (len(right) + sum(len(g.sure) for _, g in pairs))


def without_unaligned(pairs, side):
    """The links of words that the gold links to something, be it possibly."""
    return [
        ([link for link in a if any(link[side] == other[side] for other in g.possible)], g)
        for a, g in pairs
    ]


def judged(pairs, **options):
    """What the metric says without the words that have no gold link."""
    units = skip_unaligned(counts(*pairs, **options))
    return {n: float(v) for n, [v] in AER().score(units, np.ones((1, len(units)))).items()}


def test_words_without_a_gold_link_are_skipped():
    # Target word 2 has no gold link, target word 1 a possible one alone.
    pair = ({(0, 0), (1, 1), (1, 2)}, gold({(0, 0)}, {(1, 1)}))
    assert scores(pair)["aer"] == pytest.approx(1 - 3 / 4)
    assert judged([pair]) == pytest.approx({"aer": 0, "precision": 1, "recall": 1, "links": 2})
    # A wrong link of a word that has a gold link stays wrong, wherever it points.
    pair = ({(5, 0), (1, 2)}, gold({(0, 0)}))
    assert judged([pair])["aer"] == scores(({(5, 0)}, gold({(0, 0)})))["aer"] == 1
    # Without any gold link nothing is judged.
    assert np.isnan(judged([({(0, 0)}, gold(()))])["aer"])


@pytest.mark.parametrize("side", [0, 1])
def test_skipping_is_scoring_the_other_links_alone(side):
    rng = np.random.default_rng(side)
    links = [[{tuple(link) for link in rng.integers(0, 6, (n, 2)).tolist()} for n in (6, 3, 4)]
             for _ in range(200)]  # fmt: skip
    pairs = [(a, gold(sure, possible)) for a, sure, possible in links]
    linked_pairs = without_unaligned(pairs, side)
    assert sum(len(a) for a, _ in linked_pairs) < sum(len(a) for a, _ in pairs)
    score_of = judged(pairs, linked=side)
    assert score_of["aer"] == pytest.approx(error_rate(linked_pairs))
    assert score_of == scores(*linked_pairs)
    assert scores(*pairs)["aer"] == pytest.approx(error_rate(pairs))


@pytest.mark.shared("alignments/rwth_deen")
def test_the_unaligned_words_of_the_real_gold():
    """From the bytes of the files, by other code: one link a word, so as many links as words."""
    written = (RWTH / "alignment.talp").read_text().splitlines()
    linked = [{int(link.replace("p", "-").split("-")[1]) for link in x.split()} for x in written]
    words = [len(x.split()) for x in (RWTH / "test.uc.en").read_text("utf-8").splitlines()]
    unaligned = sum(n - len(j) for n, j in zip(words, linked, strict=True))
    assert (unaligned, sum(words)) == (858, 10413)
    reference = AlignmentFile(RWTH / "alignment.talp", base=1).read(lengths())
    pairs = [(link_diagonal(*n), g) for n, g in zip(lengths(), reference, strict=True)]
    assert scores(*pairs)["links"] == sum(words)
    score_of = judged(pairs)
    assert score_of["links"] == sum(words) - unaligned
    assert score_of["aer"] == pytest.approx(error_rate(without_unaligned(pairs, 1)))
    assert score_of["aer"] < scores(*pairs)["aer"] == pytest.approx(error_rate(pairs))
