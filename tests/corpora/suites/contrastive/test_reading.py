"""Readers of contrastive sets: published formats, the plain form, and what is wrong with a file."""

import gzip
import json
from dataclasses import replace

import pytest

from xnmt_bench.corpora.suites.contrastive.group import ContrastiveSet, Group, Variant, to_lines
from xnmt_bench.corpora.suites.contrastive.reading import find_sets, read_sets
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.errors import DataError, XnmtError

VOITA = [
    {
        "src": "a b _eos c _eos d ? _eos e",
        "dst": ["A _eos B _eos C _eos D", "A _eos B _eos C _eos E", "A _eos B _eos C _eos F"],
        "true_ind": 2,
        "ctx_dist": 3,
    },
    {"src": "e", "dst": ["D", "E"], "true_ind": 0, "ctx_dist": 1},
]
PRO = {
    "src segment": "it is old .",
    "ref segment": "sie ist alt .",
    "errors": [{"contrastive": "er ist alt ."}, {"contrastive": "es ist alt ."}],
    "ante distance": 1,
    "ref pronoun": "sie",
    "src pronoun": "it",
    "src ante phrase": "the door",
    "corpus": "opensubs1922-ende",
}
# Two groups, of three variants and of two; the context of the second begins its document.
SOURCES, TARGETS = ["s"] * 3 + ["t"] * 2, ["a", "b", "c", "d", "e"]
GROUPS = "group\tfirst_line\tvariants\tpronoun\tdistance\n0\t0\t3\ter\t1\n1\t3\t2\tes\t?\n"


def write(path, content):
    text = content if isinstance(content, str) else json.dumps(content)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("ending", [".json", ".json.gz"])
def test_voita(tmp_path, ending):
    [voita_set] = read_sets("en-ru:" + write(tmp_path / f"deixis{ending}", VOITA))
    assert (voita_set.name, voita_set.lang_pair, voita_set.generated) == ("deixis", "en-ru", False)
    first, second = voita_set.groups
    assert first.source_context == ("a b", "c", "d ?")  # in reading order, the nearest last
    assert (first.source, first.true, first.distance) == ("e", 2, 3)
    assert first.variants == tuple(Variant(t, ("A", "B", "C")) for t in "DEF")
    assert second == Group("e", (Variant("D"), Variant("E")), 0, distance=1)
    assert first.source_unit != second.source_unit


FRENCH = {
    "src segment": "It was sold.",
    "ref segment": "Il a été vendu.",
    "errors": [{"contrastive": "Elle a été vendue."}],
    "ante distance": -1,
    "ref pronoun": "Il",
    "src pronoun": "it",
    "src ante phrase": "the car",
}


@pytest.mark.parametrize("corpus", ["UN-enfr", "opensubs2009enfr"])
def test_a_set_of_lopes_et_al_is_french_and_may_not_know_its_distance(tmp_path, corpus):
    """Both names of a corpus, and -1 as a distance, are as the authors' scripts write them."""
    columns = {"ante distance": 2, "ref pronoun": "elles"}
    records = [record | {"corpus": corpus} for record in (FRENCH, FRENCH | columns)]
    [french] = read_sets(write(tmp_path / "enfr.json", records))
    assert french.lang_pair == "en-fr"
    assert [g.distance for g in french.groups] == [None, 2]
    assert [g.pronoun for g in french.groups] == ["il", "elles"]
    assert [g.antecedent and g.antecedent.distance for g in french.groups] == [None, 2]


@pytest.mark.parametrize("record", [FRENCH, FRENCH | {"corpus": "UN"}, VOITA[1]])
def test_a_file_that_does_not_say_its_languages(tmp_path, record):
    path = write(tmp_path / "set.json", [record])
    with pytest.raises(DataError, match=rf"languages; put them .* en-fr:{path}"):
        read_sets(path)
    [ukrainian] = read_sets(f"en-uk:{path}")
    assert ukrainian.lang_pair == "en-uk"


def test_languages_of_texts_and_of_the_plain_form(tmp_path):
    folder = contrapro(tmp_path)
    (tmp_path / "contrapro.text.de").rename(tmp_path / "contrapro.text.fr")
    [french] = read_sets(folder)
    assert (french.lang_pair, french.groups[0].variants[0].text) == ("en-fr", "a")
    (tmp_path / "contrapro.text.cs").write_text("v\nw\nx\ny\nz\n")
    with pytest.raises(DataError, match="there are translations into cs, fr; put the pair"):
        read_sets(folder)
    [czech] = read_sets(f"en-cs:{folder}")
    assert (czech.lang_pair, czech.groups[0].variants[0].text) == ("en-cs", "v")
    plain = write(tmp_path / "a.jsonl", to_lines([ContrastiveSet("a", "en-de", [PLAIN])]))
    with pytest.raises(DataError, match=r"a.jsonl:1: the set is en-de, but the path names en-fr"):
        read_sets(f"en-fr:{plain}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"true_ind": 3}, "group 1: the true variant is number 3, but there are 2"),
        ({"true_ind": -1}, "group 1: the true variant is number -1, but there are 2"),
        ({"true_ind": "0"}, "group 1: true_ind is '0'"),
        ({"dst": ["D _eos E", "F"]}, "group 1: variant 0 has 2 sentences, the source 1"),
        ({"dst": ["D"]}, "group 1: a group needs at least two variants"),
        ({"ctx_dist": -2}, "group 1: ctx_dist is -2"),
        ({"src": None}, "group 1: "),
        ({"dst": "DE"}, "group 1: dst is not a list of variants"),
        ({"dst": ["D", ""]}, "group 1: a sentence is empty"),
        ({"true_ind": True}, "group 1: true_ind is True"),
    ],
)
def test_a_wrong_group_of_voitas_is_named(tmp_path, change, message):
    path = write(tmp_path / "set.json", [VOITA[0], VOITA[1] | change])
    with pytest.raises(DataError) as error:
        read_sets(f"en-ru:{path}")
    assert str(error.value).startswith(f"{path}: {message}")


def test_files_that_are_no_sets(tmp_path):
    wrong = write(tmp_path / "wrong.json", '[\n{"src": 1,\n}]')
    with pytest.raises(DataError, match=r"wrong.json:3: not JSON"):
        read_sets(wrong)
    with pytest.raises(DataError, match="neither `dst`"):
        read_sets(write(tmp_path / "other.json", [{"text": 1}]))
    with pytest.raises(DataError, match="expected a list"):
        read_sets(write(tmp_path / "other.json", {"src": "a"}))
    with pytest.raises(DataError, match="no such file"):
        read_sets(str(tmp_path / "none.json"))
    lacking = {key: value for key, value in VOITA[0].items() if key != "true_ind"}
    with pytest.raises(DataError, match="group 0: the field 'true_ind' is missing"):
        read_sets("en-ru:" + write(tmp_path / "lacking.json", [lacking]))
    with pytest.raises(XnmtError, match="name the folder that holds voita/"):
        read_sets("voita")


def contrapro(folder, sources=SOURCES, targets=TARGETS, groups=GROUPS, context=None):
    for name, lines in {"text.en": sources, "text.de": targets, **(context or {})}.items():
        (folder / f"contrapro.{name}").write_text("".join(f"{line}\n" for line in lines))
    (folder / "groups.tsv").write_text(groups)
    return str(folder)


def test_contrapros_text_files(tmp_path):
    context = {
        "context.en": ["far", "near"] * 3 + ["", "near"] * 2,
        "context.de": [*"AAA", "", ""],
    }
    [contrapro_set] = read_sets(contrapro(tmp_path, context=context))
    first, second = contrapro_set.groups
    assert (contrapro_set.name, contrapro_set.lang_pair) == ("contrapro", "en-de")
    assert first.source_context == ("far", "near")
    assert first.variants == (Variant("a", ("A",)), Variant("b", ("A",)), Variant("c", ("A",)))
    assert (first.pronoun, first.distance, first.true) == ("er", 1, 0)
    # An empty line: nothing precedes.
    assert (second.source_context, second.variants[0].context) == (("near",), ())
    assert second.distance is None


def test_a_pronoun_is_the_same_word_with_a_capital(tmp_path):
    """As in `contrapro.json`, whose pronouns are read in small letters."""
    [small] = read_sets(contrapro(tmp_path))
    [capital] = read_sets(contrapro(tmp_path, groups=GROUPS.replace("\ter\t", "\tEr\t")))
    assert [g.pronoun for g in capital.groups] == [g.pronoun for g in small.groups]
    assert "er" in {g.pronoun for g in small.groups}


@pytest.mark.parametrize(
    ("change", "where", "message"),
    [
        ({"targets": TARGETS[:-1]}, "contrapro.text.en", "5 lines, but"),
        ({"targets": TARGETS * 2, "sources": SOURCES * 2}, "contrapro.text.de", "ends at line 5"),
        (
            {"groups": GROUPS.replace("3\t2\tes", "3\t3\tes")},
            "groups.tsv:3",
            "ends at line 6, but there are 5",
        ),
        ({"groups": GROUPS.replace("?", "x")}, "groups.tsv:3", "distance 'x' is not a number"),
        ({"groups": GROUPS.replace("\t?", "")}, "groups.tsv:3", "4 fields; expected 5"),
        ({"groups": GROUPS.replace("0\t3\ter", "0\t1\ter")}, "groups.tsv:2", "two variants"),
        (
            {"groups": GROUPS.replace("1\t3\t2", "1\t2\t3")},
            "groups.tsv:3",
            "begins at line 2; expected",
        ),
        (
            {"context": {"context.en": ["x"] * 7}},
            "contrapro.context.en",
            "expected a multiple of the 5",
        ),
    ],
)
def test_files_of_contrapro_that_do_not_belong_together(tmp_path, change, where, message):
    with pytest.raises(DataError) as error:
        read_sets(contrapro(tmp_path, **change))
    assert where in str(error.value)
    assert message in str(error.value)


def test_contrapros_json_takes_its_context_from_the_files_beside_it(tmp_path):
    path = write(tmp_path / "contrapro.subset.json", [PRO])
    [alone] = read_sets(path)
    [group] = alone.groups
    assert [v.text for v in group.variants] == ["sie ist alt .", "er ist alt .", "es ist alt ."]
    assert (group.distance, group.pronoun, group.true, group.source_context) == (1, "sie", 0, ())
    assert group.antecedent.words == ("the", "door")
    sources = [*SOURCES[:3], *["it is old."] * 2]  # files differ in blanks
    contrapro(tmp_path, sources, context={"context.en": ["far"] * 5, "context.de": ["fern"] * 5})
    with pytest.raises(
        DataError, match=r"1 groups, but the text files .* have 2; list their numbers in contrapro"
    ):
        read_sets(path)  # it does not say which of the two it is
    (tmp_path / "contrapro.subset.groups").write_text("1\n")
    [contrapro_set] = read_sets(path)
    assert contrapro_set.groups[0].source_context == ("far",)
    assert {v.context for v in contrapro_set.groups[0].variants} == {("fern",)}
    assert contrapro_set.number(0) == contrapro_set.taken([0]).number(0) == 1
    (tmp_path / "contrapro.subset.groups").write_text("0\n1\n")
    with pytest.raises(DataError, match="2 groups, but"):
        read_sets(path)


def test_a_context_of_another_group_is_refused(tmp_path):
    """The order alone said whose it is."""
    context = {"context.en": ["far"] * 5, "context.de": ["fern"] * 5}
    contrapro(tmp_path, ["somebody else ."] * 5, context=context)
    path = write(tmp_path / "contrapro.subset.json", [PRO])
    (tmp_path / "contrapro.subset.groups").write_text("1\n")
    problem = r"subset\.json: group 1 has another source in the text files next to it"
    with pytest.raises(DataError, match=problem):
        read_sets(path)


def test_contrapros_json_says_where_its_lines_belong(tmp_path):
    folder = contrapro(tmp_path, sources=["it is old ."] * 3, targets=["a", "b", "c"])
    (tmp_path / "groups.tsv").unlink()
    write(tmp_path / "contrapro.json.gz", [PRO])
    [contrapro_set] = read_sets(folder)
    assert [v.text for v in contrapro_set.groups[0].variants] == ["a", "b", "c"]
    assert (contrapro_set.groups[0].pronoun, contrapro_set.groups[0].distance) == ("sie", 1)
    assert contrapro_set.groups[0].antecedent.words == ("the", "door")
    # By the path of the file the texts are its own, and the context is that of the files.
    (tmp_path / "contrapro.context.en").write_text("before\n" * 3)
    [by_file] = read_sets(str(tmp_path / "contrapro.json.gz"))
    assert by_file.groups[0].source_context == ("before",)
    assert by_file.groups[0].variants[0].text == "sie ist alt ."


PLAIN = Group(
    "s", (Variant("a", ("A", "B")), Variant("b", ("A", "C"))), 1, ("x", "y"), ("z",), 2, "er", "u"
)


def test_the_plain_form_says_all_that_a_group_says(tmp_path):
    groups = [PLAIN, replace(PLAIN, variants=(Variant("a", ("A", "B")), Variant("b", ("A", "B"))))]
    sets = [
        ContrastiveSet("mine one", "en-de", groups),
        ContrastiveSet("mine two", "en-de", groups),
    ]
    path = tmp_path / "mine.jsonl.gz"
    write(path, to_lines(sets).replace('"mine ', '"'))
    assert read_sets(str(path)) == sets
    [alone] = read_sets(
        write(tmp_path / "mine.jsonl", to_lines([ContrastiveSet("mine", "en-de", groups, True)]))
    )
    assert (alone.name, alone.generated, list(alone.groups)) == ("mine", True, groups)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"source": "a", "variants": ["b", "c"], "true": 2}', ":2: the true variant is number 2"),
        ('{"source": "a", "variants": ["b", "c"], "ture": 1}', ":2: ture: Extra inputs"),
        ('{"source": "a", "variants": ["b"]}', ":2: a group needs at least two variants"),
        ('{"source": "", "variants": ["b", "c"]}', ":2: source: "),
        ('{"source": "a", "variants": [[], "c"]}', ":2: variants"),
        (
            '{"source": "a", "variants": ["b", "c"], "target_context": ["d"]}',
            ":2: the source has 0 sentences of context, a variant 1",
        ),
        (
            '{"source": "a", "variants": [["x", "b"], "c"]}',
            ":2: the variants have contexts of different",
        ),
        ("{", ":2: not JSON"),
        ("", ": the file has no group"),
    ],
)
def test_a_wrong_line_of_the_plain_form_is_named(tmp_path, line, message):
    path = write(tmp_path / "set.jsonl", '{"lang_pair": "en-de"}\n' + line)
    with pytest.raises(DataError) as error:
        read_sets(path)
    assert str(error.value).startswith(f"{path}{message}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ante distance": "1"}, "ante distance is '1'"),
        ({"ante distance": -2}, "ante distance is -2"),
        ({"ref segment": None}, "a segment is not text"),
        ({"src segment": 5}, "a segment is not text"),
        ({"errors": []}, "a group needs at least two variants"),
        ({"errors": None}, ""),
    ],
)
def test_a_wrong_record_of_contrapros_json_is_named(tmp_path, change, message):
    path = write(tmp_path / "contrapro.json", [PRO, PRO | change])
    with pytest.raises(DataError) as error:
        read_sets(path)
    assert str(error.value).startswith(f"{path}: group 1: {message}")


def test_phenomena_are_not_mixed(tmp_path):
    """Scores of others are in the order of the lines."""
    lines = ['{"lang_pair": "en-de"}']
    lines += [
        json.dumps({"source": "s", "variants": ["a", "b"], "phenomenon": name}) for name in "xyx"
    ]
    with pytest.raises(
        DataError, match=r":4: the groups of phenomenon 'x' are not next to each other"
    ):
        read_sets(write(tmp_path / "set.jsonl", "\n".join(lines)))


def test_training_does_not_look_at_test_sets(tmp_path):
    (tmp_path / "voita").mkdir()
    for name in ("deixis_dev", "lex_cohesion_dev", "deixis_test"):
        write(tmp_path / "voita" / f"{name}.json", VOITA)
    valid_sets = find_sets(["voita"], ToyCorpus(), "valid", str(tmp_path))
    assert [valid_set.name for valid_set in valid_sets] == ["deixis_dev", "lex_cohesion_dev"]
    with pytest.raises(XnmtError, match="contrapro has no validation set"):
        find_sets(["contrapro"], ToyCorpus(), "valid", str(tmp_path))
