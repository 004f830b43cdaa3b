"""Rules on disk."""

import numpy as np
import pytest

from xnmt_bench.errors import StoreError, XnmtError
from xnmt_bench.rules.table import (
    RULE_SIDES,
    all_rules,
    is_finished,
    read_columns,
    read_rules,
    relevance,
    shard_path,
    shards,
    write_shard,
)

K = 3


def columns(decisions=40, seed=0):
    """Random rules of `decisions` decisions, five a sentence."""
    rng = np.random.default_rng(seed)
    shard_columns = {
        "sentence": np.arange(decisions) // 5 + 100 * seed,
        "step": (np.arange(decisions) % 5).astype(np.int32),
        "label": rng.integers(0, 99, decisions).astype(np.int32),
        "probability": rng.random(decisions).astype(np.float32),
        "gold": rng.integers(0, 99, decisions).astype(np.int32),
    }
    for side in RULE_SIDES:
        shard_columns[f"{side}_ids"] = rng.integers(-1, 99, (decisions, K)).astype(np.int32)
        shard_columns[f"{side}_positions"] = rng.integers(-1, 9, (decisions, K)).astype(np.int32)
        shard_columns[f"{side}_scores"] = rng.random((decisions, K)).astype(np.float32)
        shard_columns[f"{side}_relevance"] = [
            np.append(rng.random(n % 4), np.nan).astype(np.float32) for n in range(decisions)
        ]
    return shard_columns


@pytest.fixture
def shard(tmp_path):
    path = shard_path(tmp_path, "test", 0)
    write_shard(columns(), path)
    return path


def assert_same(actual, expected):
    assert len(actual) == len(expected)
    for actual_column, other in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(actual_column, other)


@pytest.mark.parametrize("remains", [0, 100])
def test_a_damaged_shard_of_unfinished_work_is_made_again(shard, remains, caplog):
    """A loss of power may keep the name of a shard and lose its bytes."""
    assert is_finished(shard)
    shard.write_bytes(shard.read_bytes()[:remains])
    assert not is_finished(shard)
    assert not shard.exists()
    assert f"{shard}: " in caplog.text and "it is made again" in caplog.text
    assert not is_finished(shard)


def test_columns_come_back(shard):
    expected = columns()
    loaded = read_columns(shard)
    assert set(loaded) == set(expected)
    for name in expected:
        assert loaded[name].dtype == getattr(expected[name], "dtype", object), name
        assert_same(loaded[name], expected[name])
    assert set(read_columns(shard, ["label"])) == {"label"}
    assert [path.name for path in shard.parent.iterdir()] == [shard.name]  # no temporary file


@pytest.mark.parametrize("k", [1, 2, K])
def test_a_smaller_k_is_a_slice(shard, k):
    expected, rules = columns(), read_rules(shard, k)
    assert len(rules) == 40
    assert_same(rules.source_NK, expected["source_ids"][:, :k])
    assert_same(rules.prefix_NK, expected["prefix_ids"][:, :k])
    assert_same(rules.source_position_NK, expected["source_positions"][:, :k])
    assert_same(rules.prefix_position_NK, expected["prefix_positions"][:, :k])
    assert_same(rules.label_N, expected["label"])
    assert_same(rules.probability_N, expected["probability"])


def test_a_larger_k_is_an_error(shard):
    with pytest.raises(XnmtError, match=r"k=4, .* 3 words"):
        read_rules(shard, K + 1)


def test_some_of_the_rules(shard):
    rules = read_rules(shard, 2)
    part = rules.take(np.array([5, 1]))
    assert len(part) == 2
    assert_same(part.prefix_NK, rules.prefix_NK[[5, 1]])


def test_shards_are_read_in_order(tmp_path):
    for number in (2, 0, 10, 1):
        write_shard(columns(5, seed=number), shard_path(tmp_path, "test", number))
    rules = all_rules(tmp_path, "test", 1)
    assert rules.sentence_N.tolist() == [0] * 5 + [100] * 5 + [200] * 5 + [1000] * 5
    assert rules.source_NK.shape == (20, 1)


def test_relevance_comes_back_sentence_by_sentence(tmp_path):
    rng = np.random.default_rng(0)
    relevance_of = {
        7: (0, rng.random((2, 3))),
        9: (4, rng.random((3, 5))),
        12: (0, rng.random((1, 2))),
    }
    for number, sentences in enumerate(((7, 9), (12,))):
        shard_columns = {
            "sentence": np.concatenate([[s] * len(relevance_of[s][1]) for s in sentences]),
            "step": np.concatenate(
                [relevance_of[s][0] + np.arange(len(relevance_of[s][1])) for s in sentences]
            ),
        }
        rows = [row.astype(np.float32) for s in sentences for row in relevance_of[s][1]]
        shard_columns |= {"source_relevance": rows, "prefix_relevance": [-row for row in rows]}
        write_shard(shard_columns, shard_path(tmp_path, "test", number))
    sentences_read = list(relevance(tmp_path, "test"))
    assert [(f.number, f.first) for f in sentences_read] == [(7, 0), (9, 4), (12, 0)]
    for sentence in sentences_read:
        expected = relevance_of[sentence.number][1].astype(np.float32)
        assert_same(sentence.source_TS, expected)
        assert_same(sentence.prefix_TT, -expected)


def test_rules_without_any_decision(tmp_path):
    none = {name: values[:0] for name, values in columns().items()}
    write_shard(none, tmp_path / "none.parquet")
    assert read_rules(tmp_path / "none.parquet", 2).source_NK.shape == (0, 2)


def assert_damaged(path):
    for read in (read_columns, lambda path: read_rules(path, 1)):
        with pytest.raises(StoreError) as error:
            read(path)
        assert str(path) in str(error.value)


@pytest.mark.parametrize("part", [0, 1, 100, -1, -9])
def test_a_truncated_shard_is_named(shard, part):
    shard.write_bytes(shard.read_bytes()[:part])
    assert_damaged(shard)


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 0xFF
    path.write_bytes(content)


def test_an_altered_value_is_named(tmp_path):
    path = tmp_path / "shard.parquet"
    labels = np.arange(4000, dtype=np.int32) * 7919  # enough for a page full of data
    write_shard({**columns(4000), "label": labels}, path)
    content = path.read_bytes()
    for place in np.linspace(100, len(content) * 0.9, 25).astype(int):
        path.write_bytes(content)
        flip(path, place)
        with pytest.raises(StoreError) as error:
            read_columns(path)
        assert str(path) in str(error.value)


@pytest.mark.parametrize("column", [b"label", b"source_ids"])
def test_an_altered_footer_is_named(shard, column):
    flip(shard, shard.read_bytes().index(b"\x18" + bytes([len(column)]) + column) + 3)
    assert_damaged(shard)


def test_an_altered_schema_is_named(shard):
    """The kind of a column is in no checksum of a page."""
    flip(shard, shard.read_bytes().index(b"source_ids\x15\x02") + len(b"source_ids") + 2)
    assert_damaged(shard)


def test_a_missing_column_is_named(tmp_path):
    write_shard({"label": np.arange(3)}, tmp_path / "shard.parquet")
    with pytest.raises(StoreError, match=r"shard\.parquet.*gold"):
        read_columns(tmp_path / "shard.parquet", ["label", "gold"])


def test_a_missing_folder_and_a_missing_shard(tmp_path, shard):
    with pytest.raises(StoreError, match="nowhere/test: no rules"):
        shards(tmp_path / "nowhere", "test")
    with pytest.raises(StoreError, match="no rules"):
        all_rules(tmp_path, "valid", 1)
    shard.unlink()
    assert_damaged(shard)
