"""Tables of decisions: shards that are there stay, and all that was computed is read back."""

import numpy as np
import pytest

from support.dispatched import sizes_of_gpu
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.sentence_sums import sum_by_sentence
from xnmt_bench.parquet import read_table
from xnmt_bench.pipeline.decision_table import load_decisions, store_decisions


def test_a_killed_table_goes_on_and_a_finished_one_is_not_made_again(transformer):
    job, computed = transformer.changed({}), []

    def compute(numbers):
        computed.extend(numbers)
        if computed == [0, 1, 2, 3]:
            raise KeyboardInterrupt
        columns = [
            {
                "sentence": np.repeat(number, 2),
                "step": np.arange(2),
                "draws": [np.array([number, x]) for x in (0.5, 1.5)],
            }
            for number in numbers
        ]
        for of_sentence in columns[: 2 * (numbers[0] < 2)]:
            of_sentence["curve"] = np.array([0.25, 0.75])
        return columns

    def make(parts):
        return store_decisions(
            job, "numbers", "numbers", parts, compute, shard=2, sentences=5, version=1
        )  # fmt: skip

    with pytest.raises(KeyboardInterrupt):
        _ = make(lambda: range(5)).artefact
    columns = load_decisions(make(lambda: range(5)))
    # The first of three shards was whole.
    assert computed == [0, 1, 2, 3, 2, 3, 4]
    assert columns["sentence"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert columns["draws"].shape == (10, 2) and columns["draws"][7].tolist() == [3, 1.5]
    np.testing.assert_array_equal(columns["curve"], [0.25, 0.75] * 2 + [np.nan] * 6)

    def read_again():
        raise AssertionError

    table = make(read_again)
    assert [*load_decisions(table, ("step",))] == ["step"]


def test_a_gpu_computes_several_shards_at_once_and_writes_the_same_files(transformer):
    def make(name, asked):
        def compute(numbers):
            asked.append(numbers)
            return [{"sentence": np.full(n % 3, n), "half": np.full(n % 3, n / 2)} for n in numbers]

        return store_decisions(
            transformer.changed({}), name, name, lambda: range(5), compute, shard=2, sentences=5,
            version=1,
        )  # fmt: skip

    asked_on_cpu, asked_on_gpu = [], []
    on_cpu = make("on_cpu", asked_on_cpu).artefact
    with sizes_of_gpu():
        on_gpu = make("on_gpu", asked_on_gpu).artefact
    assert asked_on_cpu == [[0, 1], [2, 3], [4]] and asked_on_gpu == [[0, 1, 2, 3, 4]]
    files = [sorted((made.path / "test").iterdir()) for made in (on_cpu, on_gpu)]
    assert [read_table(path)["sentence"].to_pylist() for path in files[0]] == [[1], [2, 2], [4]]
    for path, other in zip(*files, strict=True):
        assert path.name == other.name and path.read_bytes() == other.read_bytes()


def test_a_split_finds_its_sentences_by_number(transformer):
    split = transformer.texts.split("test")
    order = np.array([7, 2, 5])
    taken = split.taken(order)
    for index, number in enumerate(split.number[order].tolist()):
        assert taken.index_of[number] == index
        for side, ids in zip((split.source, split.target), taken.ids(number), strict=True):
            np.testing.assert_array_equal(ids, side[order[index]])


def test_sums_are_over_the_decisions_of_each_sentence():
    parts = [
        (4, {"x": np.array([1.0, 2]), "y": np.array([True, False])}),
        (1, {"x": np.ones(1), "y": np.ones(1)}),
    ]
    number_U, sums = sum_by_sentence(parts)
    assert number_U.tolist() == [1, 4]
    assert {name: values.tolist() for name, values in sums.items()} == {
        "x": [1, 3], "y": [1, 1], "rows": [1, 2]
    }  # fmt: skip
    with pytest.raises(NotApplicable, match="none of the test sentences is explained"):
        sum_by_sentence([])
