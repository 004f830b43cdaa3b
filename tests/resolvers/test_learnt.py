"""The resolver that comes with the package: its parts and its weights."""

import gzip
import json

import numpy as np
import pytest

from benchmarks.resolver.train import save
from xnmt_bench.corpora.sentence import Sentence
from xnmt_bench.errors import DataError
from xnmt_bench.registry import create
from xnmt_bench.resolvers.learnt.lexicon import Lexicon
from xnmt_bench.resolvers.learnt.model import WEIGHTS, Model
from xnmt_bench.resolvers.learnt.passage import FEATURES, Passage
from xnmt_bench.resolvers.learnt.tokens import tokenize


def sentence(source):
    return Sentence(source, "", "made", 0)


def mentions(text):
    passage = Passage(text, Lexicon({}, {}))
    return [
        text[passage.tokens[m.first].start : passage.tokens[m.last].end] for m in passage.mentions
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mr. Smith didn't see J. R. Tolkien's house.",
         "Mr.|Smith|didn't|see|J.|R.|Tolkien|'s|house|."),
        ("He said: well-known cooks don 't eat .", "He|said|:|well-known|cooks|don|'|t|eat|."),
    ],
)  # fmt: skip
def test_tokens(text, expected):
    tokens = tokenize(text)
    assert "|".join(token.form for token in tokens) == expected
    assert all(text[token.start : token.end] == token.form for token in tokens)
    assert {token.sentence for token in tokens} == {0}


def test_sentences_end_before_a_capital():
    tokens = tokenize("He left. She, i.e. the other, stayed!")
    assert [token.form for token in tokens if token.first] == ["He", "She"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The trophy didn't fit in the suitcase because it was too small.",
         ["The trophy", "the suitcase", "it"]),
        ("The old man walked to his house.", ["The old man", "his", "his house"]),
        ("The nurse sends the letter to Anna.", ["The nurse", "the letter", "Anna"]),
        ("Duke Ludwig van Beethoven of York left the US on Monday.",
         ["Duke Ludwig van Beethoven of York", "the US"]),
        ("However, Anna said that Mr. Smith slept.", ["Anna", "Mr. Smith"]),
    ],
)  # fmt: skip
def test_mentions(text, expected):
    assert mentions(text) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("Anna Smith met Tom, and Smith said that she was ill.", {((0, 1), (5, 5), (8, 8))}),
        ("Anna said that she was ill.", {((0, 0), (3, 3))}),
        ("I love my dog.", {((0, 0), (2, 2))}),
        ("The dog barks when the dog is alone.", {((0, 1), (4, 5))}),
        ("It rains, and it is clear that it will.", set()),
        ("Mr. Smith and Mrs. Smith slept.", set()),
        ("", set()),
        ("...", set()),
    ],
)
def test_sentences_whose_clusters_are_plain(source, expected):
    [clusters] = create("resolvers", "learnt").resolve([sentence(source)])
    assert expected <= set(clusters)
    if not expected:
        assert not clusters


def test_names_of_two_genders_decide():
    """The same sentence: only the pronoun differs."""
    he, she = create("resolvers", "learnt").resolve(
        sentence(f"John met Mary, and then {pronoun} went home.") for pronoun in ("he", "she")
    )
    assert he == (((0, 0), (5, 5)),)
    assert she == (((2, 2), (5, 5)),)


def test_every_span_is_in_its_sentence_whatever_the_text():
    rng = np.random.default_rng(0)
    pieces = [
        "he",
        "She",
        "it,",
        "Anna",
        "the",
        "man",
        ".",
        "'s",
        "(",
        "—",
        "Mr.",
        "\u200b",
        "ß",
        "I",
    ]
    texts = [" ".join(rng.choice(pieces, rng.integers(0, 15))) for _ in range(300)]
    for text, clusters in zip(
        texts, create("resolvers", "learnt").resolve(map(sentence, texts)), strict=True
    ):
        for first, last in (span for cluster in clusters for span in cluster):
            assert 0 <= first <= last < len(text.split())


def test_trees_beside_a_walk_from_node_to_node():
    trees = Model.load().trees
    rng = np.random.default_rng(0)
    rows = rng.integers(-2, 12, (20, len(FEATURES))).astype(np.float32)

    def walk(row):
        total = trees.bias
        for node in trees.roots:
            while trees.feature[node] >= 0:
                goes_left = row[trees.feature[node]] <= trees.threshold[node]
                node = (trees.left if goes_left else trees.right)[node]
            total += trees.value[node]
        return total

    assert trees(rows) == pytest.approx([walk(row) for row in rows])


def test_weights_are_small_plain_numbers_and_kept_to_the_byte(tmp_path):
    assert WEIGHTS.stat().st_size < 300_000
    content = json.loads(gzip.decompress(WEIGHTS.read_bytes()))
    assert content["features"] == list(FEATURES)
    again = tmp_path / "again.json.gz"
    save(Model.load(), again)
    assert again.read_bytes() == WEIGHTS.read_bytes()


@pytest.mark.parametrize("damage", ["bytes", "cut", "features", "missing", "text"])
def test_damaged_weights_are_one_line(damage, tmp_path):
    path = tmp_path / "weights.json.gz"
    content = json.loads(gzip.decompress(WEIGHTS.read_bytes()))
    if damage == "features":
        content["features"][0] = "other"
        path.write_bytes(gzip.compress(json.dumps(content).encode()))
    elif damage == "bytes":
        packed = WEIGHTS.read_bytes()
        path.write_bytes(packed[:1000] + bytes(40) + packed[1040:])
    elif damage == "cut":
        path.write_bytes(WEIGHTS.read_bytes()[:1000])
    elif damage == "text":
        path.write_text("weights")
    with pytest.raises(DataError, match=r"weights\.json\.gz: ") as raised:
        create("resolvers", "learnt", path=str(path))
    assert "\n" not in str(raised.value)
