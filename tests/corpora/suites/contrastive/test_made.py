"""Sets that are made: mirrored by construction, of toy_discourse and of any documents."""

from collections import defaultdict
from hashlib import sha256

import pytest

from xnmt_bench.corpora.sentence import SPLITS, Sentence
from xnmt_bench.corpora.suites.contrastive.build import ADDRESS, _any, build, exchanges
from xnmt_bench.corpora.suites.contrastive.group import Variant
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.corpora.toy.discourse import TOPICS, ToyDiscourse
from xnmt_bench.errors import DataError, XnmtError

CORPUS = ToyDiscourse(train=600, valid=30, test=60, families=12)


def families(groups):
    by_unit = defaultdict(list)
    for group in groups:
        by_unit[group.source_unit].append(group)
    return by_unit.values()


def test_what_decides_stands_in_the_context_alone():
    sets = CORPUS.contrastive("test")
    assert [contrastive_set.name for contrastive_set in sets] == [
        f"toy_discourse {topic}" for topic in TOPICS
    ]
    for contrastive_set in sets:
        for family in families(contrastive_set.groups):
            # One current sentence, one list of variants, each of them true once.
            assert len({(g.source, tuple(v.text for v in g.variants)) for g in family}) == 1
            assert [g.true for g in family] == list(range(len(family[0].variants)))
            assert len({v.text for v in family[0].variants}) == len(family)
            for place in range(3):
                place_is_constant = len({g.variants[0].context[place] for g in family}) == 1
                assert place_is_constant == (place != 3 - family[0].distance)


def test_address_and_names_are_not_in_the_source():
    for contrastive_set in CORPUS.contrastive("test")[:2]:
        for family in families(contrastive_set.groups):
            assert len({g.source_context for g in family}) == 1


def test_sets_of_the_splits_differ_and_come_again():
    valid, test = CORPUS.contrastive("valid"), CORPUS.contrastive("test")
    assert [s.fingerprint for s in test] == [s.fingerprint for s in CORPUS.contrastive("test")]
    assert not {g.source_unit for s in valid for g in s.groups} & {
        g.source_unit for s in test for g in s.groups
    }
    assert len(test[0].groups) == 3 * 12 * 2


def test_no_test_document_stands_in_training():
    trained = {(s.source, s.target) for s in CORPUS.sentences("train")}
    assert not any((s.source, s.target) in trained for s in CORPUS.sentences("test"))


def test_toys_own_sentences_are_as_they_were():
    corpus = ToyCorpus(train=300, valid=50, test=50)
    pairs = (f"{s.source}\t{s.target}" for split in SPLITS for s in corpus.sentences(split))
    assert sha256("\n".join(pairs).encode()).hexdigest().startswith("900b1491b0e5669a")


class Documents(ToyCorpus):
    """Documents of given target sentences."""

    def __init__(self, *documents, language="de"):
        self.name, self.source_language, self.target_language = "mine", "en", language
        self.documents = documents

    def sentences(self, split):
        for number, document in enumerate(self.documents):
            for position, text in enumerate(document):
                yield Sentence(f"s{number}.{position}", text, str(number), position)


def test_each_version_is_true_behind_its_own_context():
    corpus = Documents(
        ["Du bist spät .", "Ja .", "Wo ist dein Hund ?", "Gut ."],
        ["Hast du Zeit ?", "Sie kommt .", "Ich sehe dich ."],  # she, or you: undecidable
        ["Willst du ?", "Wo wohnst du ?"],  # a verb that the table lacks
        ["Sergej kommt .", "Das ist Sergej ."],
    )
    address, names = build(corpus, "test")
    assert address.name == "mine address"
    informal, formal = address.groups
    assert informal.source == "s0.2"
    assert informal.variants[0] == Variant("Wo ist dein Hund ?", ("Du bist spät .", "Ja ."))
    assert informal.variants[1] == Variant("Wo ist Ihr Hund ?", ("Du bist spät .", "Ja ."))
    assert formal.variants[1] == Variant("Wo ist Ihr Hund ?", ("Sie sind spät .", "Ja ."))
    assert (informal.true, formal.true) == (0, 1)
    assert {g.distance for g in address.groups} == {2}
    assert [g.variants[g.true].text for g in names.groups] == [
        "Das ist Sergej .",
        "Das ist Sergei .",
    ]
    assert [g.variants[0].context for g in names.groups] == [
        ("Sergej kommt .",),
        ("Sergei kommt .",),
    ]
    assert {g.distance for g in names.groups} == {1}


def test_beyond_three_sentences_nothing_decides():
    far = ["Du bist spät .", "Ja .", "Ja .", "Ja .", "Dein Hund ."]
    with pytest.raises(XnmtError, match="no test passage has a form of"):
        build(Documents(far), "test")


def test_russian_forms_keep_their_prepositions():
    corpus = Documents(["ты знаешь .", "я думаю о тебе .", "я вижу тебя ."], language="ru")
    [address] = build(corpus, "test")
    formal = [g.variants[g.true].text for g in address.groups if g.true == 1]
    assert formal == ["я думаю о вас .", "я вижу вас ."]
    mixed = Documents(["ты был там .", "я вижу тебя ."], language="ru")
    with pytest.raises(XnmtError, match="nothing to compare"):
        build(mixed, "test")  # `был` would have to change, and the table lacks its plural


def test_what_shows_informal_address_and_cannot_be_exchanged():
    corpus = Documents(["Du bist spät .", "Wo wohnst ?", "Wo ist dein Hund ?"])
    with pytest.raises(XnmtError, match="nothing to compare"):
        build(corpus, "test")


class LowerCased(Documents):
    """As a corpus that is read in small letters."""

    def words(self, text, language):
        return text.lower()


def test_forms_are_written_as_the_corpus_is():
    corpus = LowerCased(["фрэнк здесь .", "это фрэнк ."], language="ru")
    [names] = build(corpus, "test")
    assert [g.variants[g.true].text for g in names.groups] == ["это фрэнк .", "это френк ."]


def test_tables(tmp_path):
    with pytest.raises(XnmtError, match="no table of exchanged forms for 'fr'"):
        build(Documents(["a"], language="fr"), "test")
    path = tmp_path / "table.tsv"
    for lines, problem in (
        ("address\tdu\tSie\nadress\tdich\tSie\n", "2: expected a line that begins with address"),
        ("unless\t(\n", "1: not a regular expression"),
        ("address\tdu\t\n", "1: a form is empty"),
        (
            "names\tJohn\tJon\tJohn\nnames\tJohn\tJons\tJohns\tJanes\n",
            "2: John has a different number of spellings",
        ),
    ):
        path.write_text(lines)
        with pytest.raises(DataError, match=f"table.tsv:{problem}"):
            exchanges(path)


def test_each_pattern_has_flags_and_groups_of_its_own(tmp_path):
    path = tmp_path / "table.tsv"
    path.write_text("address\tdu\tSie\ninformal\t(du)\ninformal\t(?i)(.)\\1\n")
    [address] = exchanges(path)[ADDRESS]
    assert [_any(address.informal, [word]) for word in ("du", "aa", "ab")] == [True, True, False]


def test_chains_are_of_one_thing_each():
    """What refers to a thing is a mention of its chain, and nothing else is."""
    words = defaultdict(set)
    for s in CORPUS.sentences("train"):
        for mention in s.gold.source_mentions:
            text = " ".join(s.source.split()[w] for w in mention.words)
            words[s.document, mention.chain].add(text)
    several = [forms for forms in words.values() if len(forms) > 1]
    assert several
    for forms in several:  # a noun phrase and its pronoun
        assert len(forms - {"it"}) == 1
        assert "it" in forms
    assert any(forms == {"you"} for forms in words.values())
