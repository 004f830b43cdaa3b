"""Published sets and score files, and what they give by construction. Real data."""

from collections import Counter
from hashlib import sha256

import numpy as np
import pytest

from support.paths import DATA
from xnmt_bench.corpora.passage import Context
from xnmt_bench.corpora.suites.contrastive.published import read_groups
from xnmt_bench.corpora.suites.contrastive.reading import read_sets
from xnmt_bench.nmt.comparing import compare, parts
from xnmt_bench.pipeline.inputs import READERS

SETS = DATA / "contrastive"
pytestmark = pytest.mark.shared("contrastive")


def read(name):
    return {contrastive_set.name: contrastive_set for contrastive_set in read_sets(name, str(SETS))}


@pytest.fixture(scope="module")
def voita():
    return read("voita")


@pytest.fixture(scope="module")
def contrapro():
    return read("contrapro")["contrapro"]


def right_in_parts(contrastive_set, scores, ties="wrong"):
    """Right groups and all groups, by part."""
    comparison = compare(contrastive_set, ties)
    right_G = comparison.right_G(scores, ties)
    return {name: (int(right_G[m].sum()), int(m.sum())) for name, m in parts(comparison.groups)}


def hashed(contrastive_set, context):
    """Scores of a system that reads some context and knows nothing."""
    passages = [p.read(context) for group in contrastive_set.groups for p in group.passages()]
    return np.array([float(int(sha256(repr(p).encode()).hexdigest()[:12], 16)) for p in passages])


def test_counts(voita, contrapro):
    assert [len(voita_set.groups) for voita_set in voita.values()] == [2500, 1500, 500, 500]
    assert [sum(len(g.variants) for g in s.groups) for s in voita.values()] == [
        5000,
        3428,
        2520,
        5203,
    ]
    by_distance = Counter(group.distance for group in voita["deixis_test"].groups)
    assert by_distance == {1: 820, 2: 846, 3: 834}
    assert {len(g.source_context) for voita_set in voita.values() for g in voita_set.groups} == {3}
    assert Counter(len(group.variants) for group in contrapro.groups) == {3: 11969, 4: 31}
    assert Counter(group.pronoun for group in contrapro.groups) == dict.fromkeys(
        ("er", "es", "sie"), 4000
    )


def test_groups_without_another_variant(voita):
    comparison_of = {name: compare(voita_set) for name, voita_set in voita.items()}
    assert {name: comparison.emptied for name, comparison in comparison_of.items()} == {
        "deixis_test": [], "lex_cohesion_test": [], "ellipsis_infl": [401], "ellipsis_vp": [],
    }  # fmt: skip
    twice = {
        name: comparison.left_out
        for name, comparison in comparison_of.items()
        if comparison.left_out
    }
    assert set(twice) == {"ellipsis_infl", "ellipsis_vp"}
    assert twice["ellipsis_infl"] >= 2 + 3  # group 254, and all but one of 401
    assert twice["ellipsis_vp"] >= 11


@pytest.mark.parametrize("target", [True, False])
def test_who_reads_no_target_context_is_at_the_papers_baseline(voita, target):
    """Voita et al. 2019, Table 7: 50.0 and 45.9 (46.1, 45.9, 45.4)."""
    context = Context(0) if target else Context(3, target=False)
    deixis = right_in_parts(voita["deixis_test"], hashed(voita["deixis_test"], context))
    assert deixis == {
        "all": (1250, 2500), "distance 1": (410, 820), "distance 2": (423, 846),
        "distance 3": (417, 834),
    }  # fmt: skip
    names = right_in_parts(voita["lex_cohesion_test"], hashed(voita["lex_cohesion_test"], context))
    assert names == {
        "all": (688, 1500), "distance 1": (303, 657), "distance 2": (211, 460),
        "distance 3": (174, 383),
    }  # fmt: skip


def test_one_previous_sentence_decides_nothing_three_sentences_back(voita):
    expected = {"deixis_test": (417, 834), "lex_cohesion_test": (174, 383)}
    for name, counts in expected.items():
        by_part = right_in_parts(voita[name], hashed(voita[name], Context(1)))
        assert by_part["distance 3"] == counts


@pytest.mark.parametrize(
    ("name", "ties", "right"),
    [
        ("opensubs.concat22", "wrong", 9043),
        ("opensubs.concat22", "first", 9077),
        ("ted.concat22", "wrong", 7543),
        ("ted.concat22", "first", 7582),
        ("ted.baseline", "wrong", 5185),
        ("ted.baseline", "first", 5205),
    ],
)
def test_published_scores_of_contrapro(contrapro, name, ties, right):
    path = SETS / "contrapro" / "scores" / f"{name}.scores.gz"
    right_in = right_in_parts(contrapro, -READERS["scores"]["text"](path), ties)
    assert right_in["all"] == (right, 12000)
    evaluation = path.with_name(f"{name}.evaluation.txt")
    if ties == "wrong":
        for line in evaluation.read_text().splitlines():
            if line.startswith("it:") and line.count(":") == 2:
                pronoun, counts = line.removeprefix("it:").split(" : ")
                assert right_in[pronoun] == tuple(map(int, counts.split()[:2]))


def test_published_scores_of_a_part_of_contrapro(contrapro):
    folder = SETS / "contrapro" / "scores"
    chosen = contrapro.taken(read_groups(folder / "opensubs.concat22.possessive.groups"))
    scores = -READERS["scores"]["text"](folder / "opensubs.concat22.possessive.scores.gz")
    right_in = right_in_parts(chosen, scores)
    assert right_in["distance 0"] == (652, 957)
    assert right_in["distance 1"] == (1675, 2882)


def test_the_subset_in_json_has_its_context_and_its_antecedents(contrapro):
    [subset] = read_sets(str(SETS / "contrapro" / "contrapro.subset.json.gz"))
    assert len(subset.groups) == 3848
    assert Counter(group.distance for group in subset.groups) == {0: 960, 1: 2888}
    assert all(group.antecedent for group in subset.groups)
    for index in (0, 1000, 3847):
        group, full_group = subset.groups[index], contrapro.groups[subset.number(index)]
        assert group.source_context == full_group.source_context
        assert (group.pronoun, group.distance) == (full_group.pronoun, full_group.distance)
