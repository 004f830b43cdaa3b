"""Suites of coreference consistency, read from their files: BUG, Wino-X, a corpus's own chains."""

import json
import logging

import pytest

from support.paths import DATA
from xnmt_bench.corpora.sentence import Corpus, Gold, Mention, Sentence
from xnmt_bench.corpora.suites.consistency.chains import chains
from xnmt_bench.corpora.suites.consistency.reading import read_suite
from xnmt_bench.corpora.suites.consistency.resolver import Resolver
from xnmt_bench.corpora.suites.consistency.suite import Entity, Item, Suite
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.errors import DataError, NotApplicable

SUITES = DATA / "consistency"
BUG = (
    "uid,predicted gender,sentence_text,profession,g,"
    "g_first_index,profession_first_index,stereotype\n"
    '0,Male,"The nurse , who was late , lost his keys .",nurse,his,8,1,-1\n'
    '1,Female,"Our chef burnt\nher hand .",chef,her,3,1,0\n'
    '2,Male,"His guard slept .",guard,his,5,1,1\n'
    '3,Male,"Her guard slept .",guard,her,0,1,1\n'
)
WINO_X = {
    "qID": "1", "sentence": "The red bag did not fit on the shelf because it was too big.",
    "translation1": "Die rote Tasche passte nicht, weil sie zu groß war.",
    "translation2": "Die rote Tasche passte nicht, weil es zu groß war.",
    "answer": 1, "pronoun1": "sie", "pronoun2": "es",
    "referent1_en": "red bag", "referent2_en": "shelf",
}  # fmt: skip


def bug(folder, text=BUG):
    (folder / "bug").mkdir()
    (folder / "bug" / "gold_BUG.csv").write_text(text)
    return read_suite("bug", folder, "de")


def test_rows_of_bug_whose_places_are_off_are_sentences_without_a_pronoun(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        suite = bug(tmp_path)
    assert [s.source for s in suite.sentences][1] == "Our chef burnt her hand ."
    assert list(suite.items) == [
        Item(0, 8, Entity((1,)), None, "m", ("anti",)),
        Item(1, 3, Entity((1,)), None, "f", ()),
    ]
    assert "gold_BUG.csv:5: left out: word 5 is 'nothing', not 'his'" in caplog.text
    assert "gold_BUG.csv:6: left out: 'her' is not a Male pronoun" in caplog.text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [("Female", "Woman", "gold_BUG.csv:4: not readable: 'Woman'"),
     ("uid,pred", "uid,x", ":1: no column"),
     ("chef,her,3", "chef,her,third", "gold_BUG.csv:4: not readable")],
)  # fmt: skip
def test_what_is_no_row_of_bug_is_named(old, new, message, tmp_path):
    with pytest.raises(DataError, match=message):
        bug(tmp_path, BUG.replace(old, new))


@pytest.mark.shared("consistency")
def test_bug_as_it_is_published(caplog):
    with caplog.at_level(logging.WARNING):
        suite = read_suite("bug", SUITES, "de")
    assert (len(suite.sentences), len(suite.items)) == (1720, 1688)
    assert "27 more are left out" in caplog.text
    assert not any(item.other for item in suite.items)


def wino_x(folder, **fields):
    (folder / "wino_x").mkdir(exist_ok=True)
    (folder / "wino_x" / "mt_en_de.jsonl").write_text(json.dumps(WINO_X | fields) + "\n")
    return read_suite("wino_x", folder, "de")


def test_a_line_of_wino_x(tmp_path):
    suite = wino_x(tmp_path)
    [item] = suite.items
    assert (item.pronoun, item.entity, item.other) == (10, Entity((1, 2)), Entity((8,)))
    assert (item.expected, item.gender, suite.personal(item)) == ("sie", None, False)
    [other] = wino_x(tmp_path, answer="2").items
    assert (other.entity, other.expected) == (Entity((8,)), "es")
    assert suite.has_references


def test_of_several_pronouns_the_one_behind_both_things_is_meant(tmp_path):
    text = "It was late and the red bag did not fit on the shelf, so it tore as it was old."
    [item] = wino_x(tmp_path, sentence=text).items
    assert item.pronoun == 14


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"answer": 3}, ":1: answer 3 is neither 1 nor 2"),
        ({"pronoun1": 7}, ":1: pronoun1 is not text"),
    ],
)
def test_what_is_no_line_of_wino_x_is_named(fields, message, tmp_path):
    with pytest.raises(DataError, match=message):
        wino_x(tmp_path, **fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"referent1_en": "box"}, "the sentence lacks 'box'"),
     ({"referent1_en": "shelf"}, "'shelf' and 'shelf' are the same words"),
     ({"pronoun1": " "}, "pronoun1 is empty"),
     ({"sentence": "The red bag fell off the shelf."}, "the sentence has none of it, its, itself")],
)  # fmt: skip
def test_a_line_that_cannot_be_used_is_said(fields, message, tmp_path, caplog):
    with pytest.raises(DataError, match="no sentences"):
        wino_x(tmp_path, **fields)
    assert f"mt_en_de.jsonl:1: left out: {message}" in caplog.text


def test_possessive_endings_are_no_part_of_a_name(tmp_path):
    text = "The red bag's strap hit the shelf itself because it's long."
    [item] = wino_x(tmp_path, sentence=text).items
    assert (item.entity, item.pronoun) == (Entity((1, 2)), 9)


@pytest.mark.parametrize("line", ["5", "null", '"sentence"', "[1]"])
def test_a_line_that_is_no_object_is_named(line, tmp_path):
    (tmp_path / "wino_x").mkdir()
    (tmp_path / "wino_x" / "mt_en_de.jsonl").write_text(line + "\n")
    with pytest.raises(DataError, match=r"mt_en_de.jsonl:1: not a JSON object"):
        read_suite("wino_x", tmp_path, "de")


class Distinction(Corpus):
    """Two documents with chains."""

    name, source_language, target_language = "told", "en", "de"

    def sentences(self, split):
        for document, position, source, mentions in (
            ("a", 0, "the man who lives here calls Ann 's brother .",
             [("x", (0, 1, 2, 3, 4)), ("y", (6,)), ("z", (6, 7, 8))]),
            ("a", 1, "he likes him and they sleep .", [("x", (0,)), ("z", (2,)), ("w", (4,))]),
            ("b", 0, "he sees the dog and its tail .", [("x", (0,)), ("d", (2, 3)), ("d", (5,)),
                                                        ("t", (5, 6))]),
            # `his cat` lies as close to `his` as the cook does, but holds the pronoun.
            ("c", 0, "the cook slept .", [("c", (0, 1))]),
            ("c", 1, "then he saw his cat .", [("c", (1,)), ("v", (2, 3, 4), "vp"), ("c", (3,)),
                                               ("k", (3, 4), "np")]),
            # Of two names of the same words, one is enough.
            ("d", 0, "the people of the town went as they liked .",
             [("p", (0, 1)), ("q", (0, 1, 2, 3, 4)), ("p", (7,))]),
            ("e", 0, "this great , cheap kind of tool broke .", [("t", (0, 1, 2, 3, 4, 5, 6))]),
            ("e", 1, "11 red parents ' houses saw it .", [("h", (0, 1, 2, 3, 4)), ("t", (6,))]),
        ):  # fmt: skip
            gold = Gold(
                source_mentions=tuple(
                    Mention(chain, words, kind="".join(kind)) for chain, words, *kind in mentions
                )
            )
            yield Sentence(source, "", document, position, gold)

    def recipe(self, split=None):
        return {}


def test_chains_give_pronouns_their_nearest_earlier_noun():
    suite = chains(Distinction())
    pronoun_places = [
        (
            suite.pronoun(i),
            suite.named(i, i.entity),
            i.entity.back,
            i.other and suite.named(i, i.other),
        )
        for i in suite.items
    ]
    # No antecedent for `they`, nor, in another document, for `he`: Ann's brother is not Ann.
    assert pronoun_places == [
        ("he", "man", 1, "brother"),
        ("him", "brother", 1, "ann"),
        ("its", "dog", 0, None),
        ("he", "cook", 1, None),
        ("his", "cook", 1, None),
        ("they", "people", 0, None),
        ("it", "tool", 1, "houses"),
    ]
    assert not any(i.gender for i in suite.items)  # a person's, not the noun's
    assert (suite.personal(suite.items[0]), suite.personal(suite.items[2])) == (True, False)


def test_generated_documents_have_chains_and_plain_text_has_none():
    suite = chains(ToyCorpus(test=200))
    assert len(suite.items) > 50
    assert {i.entity.back for i in suite.items} >= {0, 1, 2}

    class Plain(Distinction):
        def sentences(self, split):
            return (Sentence(s.source, "", s.document, 0) for s in super().sentences(split))

    with pytest.raises(NotApplicable, match="no pronoun with an antecedent"):
        chains(Plain())


def resolver(folder, *rows):
    path = folder / "clusters.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_resolvers_tokens_may_be_cut_otherwise(tmp_path, caplog):
    """`guard's` is two tokens, the final period is none."""
    source = "The guard's dog bit the well-known cook because he slept."
    item = Item(0, 8, Entity((1,)), Entity((6,)))
    suite = Suite.of("made", [source, source + " Twice."], [item, Item(1, 8, Entity((1,)))])
    cut = "The guard 's dog bit the well - known cook because he slept"
    prediction = {"tokens": cut.split(), "clusters": [[[0, 1], [11, 11]]]}
    allennlp = {"document" if key == "tokens" else key: value for key, value in prediction.items()}
    assert Resolver(resolver(tmp_path, allennlp), suite).right(item)
    elsewhere = {"tokens": ["Nobody", "came"], "clusters": []}
    resolved = Resolver(resolver(tmp_path, prediction, elsewhere), suite)
    assert [resolved.right(suite_item) for suite_item in suite.items] == [True, None]
    assert "clusters.jsonl:2: left out: the suite has no such sentence: 'Nobody" in caplog.text
    for clusters, right in (
        ([[[5, 9], [11, 11]]], False),
        ([[[0, 1], [3, 3]], [[11, 11]]], False),
        ([[[0, 3], [11, 12]]], False),  # a longer mention than the pronoun
        ([], False),
    ):
        path = resolver(tmp_path, prediction | {"clusters": clusters})
        assert Resolver(path, suite).right(item) is right


@pytest.mark.parametrize(
    ("row", "message"),
    [({"tokens": ["A"]}, ":1: expected tokens"),
     ({"tokens": ["A"], "clusters": [[[0, 5]]]}, ":1: expected tokens"),
     ({"tokens": ["A"], "clusters": [[[-1, -1]]]}, ":1: expected tokens"),
     ({"tokens": "A", "clusters": [[[0, 0]]]}, ":1: expected tokens"),
     ({"tokens": ["B"], "clusters": []}, "no line is a sentence of made")],
)  # fmt: skip
def test_what_is_no_resolvers_line_is_named(row, message, tmp_path):
    suite = Suite.of("made", ["A"], [Item(0, 0, Entity((0,)))])
    with pytest.raises(DataError, match=message):
        Resolver(resolver(tmp_path, row), suite)


@pytest.mark.shared("consistency")
@pytest.mark.parametrize(("name", "least", "most"), [("winomt", 0.83, 0.84), ("bug", 0.70, 0.71)])
def test_the_resolver_s2e(name, least, most):
    """Of all rows, those without a pronoun too (Yehudai et al. 2023, Table 2: 81.7 and 72.2)."""
    suite = read_suite(name, SUITES, "de")
    resolved = Resolver(SUITES / "resolver" / f"{name}.s2e.jsonl", suite)
    right = [r for item in suite.items if (r := resolved.right(item)) is not None]
    assert len(right) > 0.99 * len(suite.items)
    assert least < sum(right) / len(suite.sentences) < most


def test_clusters_of_a_plug_in_by_words(tmp_path):
    source = "The guard's dog bit the cook, because he slept."
    item = Item(0, 7, Entity((1,)), Entity((5,)))
    suite = Suite.of("made", [source, source + " Twice."], [item, Item(1, 7, Entity((1,)))])
    resolved = Resolver.of_clusters(suite, [(((4, 5), (7, 7)), ((0, 1), (8, 8))), None], "made")
    assert [resolved.right(suite_item) for suite_item in suite.items] == [False, None]
    resolved = Resolver.of_clusters(suite, [(((0, 1), (7, 7)),), ()], "made")
    assert [resolved.right(suite_item) for suite_item in suite.items] == [True, False]


@pytest.mark.parametrize("last", [4, 5])  # resolvers split `it's` in two tokens, or not
def test_a_pronoun_with_a_clitic_is_the_pronoun(tmp_path, last):
    source = "The trophy is big, it's red ."
    item = Item(0, 4, Entity((1,)))
    suite = Suite.of("made", [source], [item])
    assert suite.pronoun(item) == "it" and not suite.personal(item)
    tokens = ["The", "trophy", "is", "big", ",", "it", "'s", "red", "."]
    row = {"tokens": tokens, "clusters": [[[0, 1], [5, last + 1]]]}
    assert Resolver(resolver(tmp_path, row), suite).right(item)


def test_an_entity_of_an_earlier_sentence_is_in_no_resolvers_sentence():
    source = "Anna saw that it shone ."
    earlier = Item(0, 3, Entity((3,), back=1))  # word 3 of this sentence is the pronoun itself
    suite = Suite.of("made", [source], [earlier])
    assert Resolver.of_clusters(suite, [(((0, 0), (3, 3)),)], "made").right(earlier) is None
