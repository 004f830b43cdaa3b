"""A resolver beside translations: a file of clusters, or a plug-in by its name."""

import json

import pytest

from xnmt_bench.corpora.suites.consistency.suite import Entity, Item, Suite
from xnmt_bench.errors import DataError, XnmtError
from xnmt_bench.metrics.consistency import Consistency

SOURCES = ["Anna said that she was ill .", "Tom saw Anna when he was ill ."]
ITEMS = [Item(0, 3, Entity((0,))), Item(1, 4, Entity((0,)), Entity((2,)))]


def right(resolver):
    suite = Suite.of("made", SOURCES, ITEMS)
    resolution = Consistency(resolver=resolver).resolve_suite(suite)
    return resolution and [resolution.right(item) for item in suite.items]


def test_a_plug_in_by_its_name():
    assert right("learnt") == [True, True]
    assert right(None) is None


def test_a_file_is_taken_before_a_plug_in_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    row = {"tokens": SOURCES[0].split(), "clusters": []}
    (tmp_path / "learnt").write_text(json.dumps(row) + "\n")
    assert right("learnt") == [False, None]


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("gold", XnmtError, "resolver 'gold' has clusters for no sentence of made"),
        ("file", XnmtError, "resolver 'file': "),
        ("no/such.jsonl", DataError, "no/such.jsonl: no such file"),
    ],
)
def test_a_resolver_that_cannot_be_used(name, error, message):
    with pytest.raises(error, match=message):
        right(name)


def test_other_references_are_another_suite():
    alone, with_resolver, with_other = (
        Suite.of("made", SOURCES, ITEMS, targets).fingerprint
        for targets in ((), ["eins"] * len(SOURCES), ["zwei"] * len(SOURCES))
    )
    assert len({alone, with_resolver, with_other}) == 3
