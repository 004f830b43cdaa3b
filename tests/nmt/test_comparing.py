"""Which groups are right, what is left out, and which parts stand apart."""

import numpy as np
import pytest

from xnmt_bench.corpora.suites.contrastive.group import ContrastiveSet, Group, Variant
from xnmt_bench.errors import XnmtError
from xnmt_bench.nmt.comparing import compare, part_order, parts


def group(*texts, true=0, source="s", **fields):
    return Group(source, tuple(map(Variant, texts)), true, **fields)


def of(*groups):
    return ContrastiveSet("mine", "en-de", groups)


def right(contrastive_set, scores, ties="wrong"):
    return compare(contrastive_set, ties).right_G(np.array(scores, dtype=float), ties).tolist()


def test_the_true_one_has_to_be_strictly_the_best():
    contrastive_set = of(group("a", "b"), group("a", "b", "c", true=2), group("a", "b", true=1))
    assert right(contrastive_set, [-1, -2, -3, -2, -1, -5, -5]) == [True, True, False]
    assert right(contrastive_set, [-2, -1, -1, -2, -1, -5, -4]) == [False, False, True]
    # A constant prefers no variant, so it is never right; numpy's argmin takes the first.
    assert right(contrastive_set, [0] * 7) == [False] * 3
    assert right(contrastive_set, [0] * 7, "first") == [True, False, False]


def test_a_group_with_a_variant_that_has_no_score():
    """A variant that is not compared may lack one."""
    comparison = compare(of(group("a", "b"), group("a", "b", "a"), group("a", "b", true=1)))
    scores = np.array([-1, np.nan, -1, -2, np.nan, -2, -1])
    assert comparison.scored_G(scores).tolist() == [False, True, True]


def test_what_is_written_as_the_true_one_is_left_out_and_counted():
    contrastive_set = of(group("a", "b", "a"), group("a", "a"), group("b", "b", "c", true=2))
    comparison = compare(contrastive_set)
    assert (comparison.left_out, comparison.emptied, comparison.groups_G) == (2, [1], [0, 2])
    assert comparison.kept == [[0, 1], [0, 1, 2]]
    assert comparison.chance_G.tolist() == [1 / 2, 1 / 3]
    # The third variant of the first group would tie.
    assert right(contrastive_set, [-1, -2, -1, -1, -1, -3, -3, -2]) == [True, True]
    first = compare(contrastive_set, "first")
    assert (first.left_out, first.emptied, len(first.groups)) == (0, [], 3)


def test_a_variant_with_another_context_is_another_one():
    variants = (Variant("a", ("x",)), Variant("a", ("y",)))
    assert compare(of(Group("s", variants, 0))).left_out == 0


def test_nothing_to_compare():
    with pytest.raises(
        XnmtError, match="contrastive set mine: no group has two different variants"
    ):
        compare(of(group("a", "a")))


def test_groups_of_one_source_and_context_are_one_unit():
    contrastive_set = of(
        group("a", "b"), group("a", "c"), group("a", "b", source_context=("x",)),
        group("a", "b", unit="u"), group("a", "b", source="t", unit="u"),
    )  # fmt: skip
    assert compare(contrastive_set).units_G.tolist() == [0, 0, 1, 2, 2]


def test_parts_by_distance_and_by_pronoun():
    groups = [
        group("a", "b", distance=0, pronoun="er"),
        group("a", "b", distance=3, pronoun="es"),
        group("a", "b", distance=4, pronoun="er"),
        group("a", "b", distance=17, pronoun="sie"),
        group("a", "b"),
    ]
    members = {name: np.flatnonzero(member).tolist() for name, member in parts(groups)}
    assert members == {
        "all": [0, 1, 2, 3, 4], "distance 0": [0], "distance 3": [1], "distance >3": [2, 3],
        "unknown": [4], "er": [0, 2], "es": [1], "sie": [3],
    }  # fmt: skip
    assert list(members) == sorted(members, key=part_order)
    assert [name for name, _ in parts([group("a", "b")])] == ["all"]
