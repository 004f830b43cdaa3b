"""Consistency of a system of ours: on its corpus's own chains, on a suite, by relevance's links."""

import csv
from pathlib import Path

import numpy as np
import pytest

from support.configurations import configure, overrides
from support.debug_page_reader import read_listings
from support.forked_commands import command, must_run
from support.paths import DATA
from xnmt_bench.corpora.formats.alignment import to_pharaoh
from xnmt_bench.corpora.suites.consistency.chains import chains
from xnmt_bench.corpora.suites.consistency.corpus import SuiteCorpus
from xnmt_bench.corpora.suites.consistency.reading import read_suite
from xnmt_bench.corpora.suites.consistency.suite import Suite
from xnmt_bench.errors import ConfigError, NotApplicable, XnmtError
from xnmt_bench.measuring.measurement import Evidence, write
from xnmt_bench.measuring.units import Units
from xnmt_bench.metrics.consistency import Consistency
from xnmt_bench.metrics.consistency.judge import Translation, judge
from xnmt_bench.metrics.consistency.mention_links import carried, read_links
from xnmt_bench.metrics.consistency.translation_set import TranslationSet
from xnmt_bench.parquet import read_table
from xnmt_bench.pipeline.job import Job
from xnmt_bench.registry import create
from xnmt_bench.words import Tokens
from xnmt_bench.words.pieces import best_links

PARCORFULL = DATA / "parcorfull"
ITEMS = 1467
EXCHANGED = {"er": "sie", "sie": "er", "ihn": "sie"}


def results(metric, job):
    """What there is to measure, with the results of each that applies."""
    result_of = {}
    for planned in metric.measure(job):
        try:
            evidence = planned.make()
        except NotApplicable as problem:
            result_of[planned.keys["nmt"]] = str(problem)
            continue
        columns = evidence.units.columns
        result_of[planned.keys["nmt"]] = metric.of_sums(
            {name: column.sum(keepdims=True) for name, column in columns.items()}
        ) | {"items": columns["items"].sum(), "numbers": evidence.units.number_U}
    return result_of


def results_of_people(metric, job):
    """The reason for which the references have no result."""
    [_, people] = metric.measure(job)
    with pytest.raises(NotApplicable) as problem:
        people.make()
    return str(problem.value)


def chained(links, **options):
    pytest.importorskip("german_nouns")
    return Consistency(suite="chains", links=links, **options)


def test_an_altered_explainer_does_not_apply(tmp_path):
    """Its row would stand among those of explainers."""
    pytest.importorskip("german_nouns")
    config = configure("corpus=toy_coreference", "explainer=noisy", "explainer.phi.of=attention",
                      f"store={tmp_path}")  # fmt: skip
    metric = Consistency(suite="corpus", links="gold", relevance=True)
    with pytest.raises(NotApplicable, match="altered explainers test judges"):
        next(iter(metric.measure(Job(config))))


def test_references_of_the_generated_corpus_are_consistent_by_gold_links(transformer):
    result_of = results(chained("gold"), transformer)
    assert result_of["transformer"] == "gold word alignment exists for the references only"
    people = result_of["reference"]
    assert people["items"] == len(chains(transformer.corpus).items) > 40
    assert (people["consistency"], people["link_accuracy"]) == (1.0, 1.0)
    assert people["determined"] > 0.6


def test_exchanged_pronouns_are_exactly_what_is_missed(transformer, tmp_path):
    """Each k-th pronoun that a reference is consistent by becomes one of another gender."""
    suite = chains(transformer.corpus)
    texts = [sentence.target.split() for sentence in suite.sentences]
    changed, counted = set(), 0
    genders = {"er": "m", "sie": "f", "es": "n", "ihn": "m"}
    for item in suite.items:
        gold = suite.sentences[item.sentence].gold.sure
        places = [t for s, t in gold if s == item.pronoun]
        forms = [texts[item.sentence][t].lower() for t in places]
        if len(places) == 1 and forms[0] in genders and (item.sentence, *places) not in changed:
            counted += 1
            if counted % 3 == 0:
                changed.add((item.sentence, *places))
                texts[item.sentence][places[0]] = EXCHANGED.get(forms[0], "er")
    outputs, links = tmp_path / "outputs", tmp_path / "links"
    outputs.write_text("".join(" ".join(words) + "\n" for words in texts))
    links.write_text("".join(f"{to_pharaoh(s.gold.sure)}\n" for s in suite.sentences))
    job = transformer.changed({"outputs": {"path": str(outputs), "name": "changed"}})
    before = results(chained("gold"), job)["reference"]
    after = results(chained(str(links)), job)["changed"]
    assert len(changed) >= 5
    # An exchanged pronoun is counted where its entity has a gender, as its form alone did before.
    lost = sum(
        (item.sentence, t) in changed
        for item, verdict in zip(suite.items, judged(suite), strict=True)
        if not verdict.cause
        for t in verdict.pronoun.target
    )
    determined = before["items"] * before["determined"]
    assert after["determined"] == before["determined"]
    assert after["consistency"] == pytest.approx(1 - lost / determined)


def judged(suite):
    """Its references."""
    translations = {
        n: Translation(s.target.split(), s.gold.sure) for n, s in enumerate(suite.sentences)
    }
    morphology = create("morphologies", "german_nouns")
    return [judge(suite, item, translations, morphology) for item in suite.items]


def test_two_systems_of_one_links_file_are_two_on_the_page(transformer, tmp_path):
    """What was judged of one is not shown as the other's."""
    suite = chains(transformer.corpus)
    (tmp_path / "links").write_text("0-0\n" * len(suite.sentences))
    made_by = []
    for name in ("one", "two"):
        path = tmp_path / name
        path.write_text("".join(f"{name} {s.target}\n" for s in suite.sentences))
        job = transformer.changed({"outputs": {"path": str(path), "name": name}})
        planned = next(iter(chained(f"{tmp_path}/links").measure(job)))
        evidence = planned.make()
        translations = read_table(Path(evidence.files["judged"]))["translation"].to_pylist()
        assert all(text.startswith(name) for text in translations)
        made_by.append(evidence.made_by)
    assert made_by[0] != made_by[1]


@pytest.mark.parametrize("forced", [False, True])
def test_links_by_relevance_are_the_best_source_words(forced, transformer, tmp_path):
    """Of its own translations, and of others' that it is made to say."""
    job = transformer
    if forced:
        targets = [s.target for s in job.corpus.sentences("test")]
        (tmp_path / "outputs").write_text("".join(f"{text}\n" for text in targets))
        job = job.changed({"outputs": {"path": f"{tmp_path}/outputs", "name": "theirs"}})
    suite = chains(job.corpus)
    translation_set = TranslationSet(job, suite, "chains")
    artefact, links_of = translation_set.links("explainer", None)
    weighings = job.weighed_sentences(targets=targets) if forced else job.weighed_sentences()
    expected = {
        w.number: best_links(w.weights_TS, list(w.source.words), list(w.target.words))
        for w in weighings
    }
    assert links_of == expected
    assert read_links(artefact.path / "links.parquet") == expected
    assert len(links_of) == len(suite.sentences)


def test_a_system_from_elsewhere_has_a_row_for_each_way_its_sentences_are_chosen(
    transformer, tmp_path
):
    """Its weights do not hold how a suite is cut into words, and what is too long."""
    metric, path = chained("gold"), {"nmt": {"path": str(transformer.system.path)}}
    units = Units("a suite", np.arange(2), {"items": np.ones(2)})
    evidence = Evidence(units, settings={"beam": 4})
    rows = []
    for length in (40, 40, 50):
        job = transformer.changed(path | {"corpus": {"max_length": length}})
        row = next(metric.measure(job)).identify()
        rows.append(write(metric.name, row, evidence, tmp_path))
    assert rows[0].path == rows[1].path != rows[2].path
    assert len([*(tmp_path / "measurements").rglob("*.json")]) == 2


def test_a_suite_is_translated_by_the_system(transformer, tmp_path):
    """Words that it never saw; what is linked are words of the suite and of raw translations."""
    folder = tmp_path / "winomt"
    folder.mkdir()
    text = ("male\t1\tThe father called the judge because he was late.\tfather\n"
            "female\t4\tThe father called the judge because she was late.\tjudge\n")  # fmt: skip
    (folder / "en.txt").write_text(text)
    suite = read_suite("winomt", tmp_path, "de")
    result_of = results(Consistency(data=str(tmp_path), links="explainer"), transformer)
    assert list(result_of) == ["transformer"]  # it has no human translation
    assert result_of["transformer"]["items"] == 2
    translation_set = TranslationSet(transformer, suite, "winomt")
    assert [source for source, _ in translation_set.pairs.values()] == [
        s.source for s in suite.sentences
    ]
    assert all(translation for _, translation in translation_set.pairs.values())
    _, links = translation_set.links("explainer", None)
    for number, (source, translation) in translation_set.pairs.items():
        assert links[number]
        assert max(s for s, _ in links[number]) < len(source.split())
        assert max(t for _, t in links[number]) < len(translation.split())


def test_words_of_two_cuts_find_each_other():
    tokens = Tokens.of(["the", "developer", "'", "s", "cat", ",", "asleep"], eos=True)
    assert carried(tokens, ["the", "developer's", "cat,", "asleep"]) == {
        0: [0], 1: [1], 2: [1], 3: [1], 4: [2], 5: [2], 6: [3]
    }  # fmt: skip
    other = Tokens.of(["the", "cat", "<unk>", "asleep"], eos=True)
    assert carried(other, ["the", "cat", "was", "asleep"]) == {0: [0], 1: [1], 2: [2], 3: [3]}


def test_a_corpus_of_a_suite_is_its_sentences(transformer):
    suite = Suite.of("made", ["A cat .", "Dogs ."], [], ["Eine Katze .", ""])
    corpus = SuiteCorpus(suite, transformer.corpus)
    assert [(s.source, s.target) for s in corpus.sentences("test")] == [
        ("A cat .", "Eine Katze ."), ("Dogs .", ""),
    ]  # fmt: skip
    assert list(corpus.sentences("train")) == []
    other = SuiteCorpus(Suite.of("made", ["A dog ."], []), transformer.corpus)
    assert other.recipe() != corpus.recipe()


def test_what_does_not_fit_the_system_is_told(transformer, tmp_path):
    (tmp_path / "outputs").write_text("")
    other_outputs = transformer.changed(
        {"outputs": {"path": f"{tmp_path}/outputs", "name": "reference"}}
    )
    with pytest.raises(ConfigError, match="reference: this name is kept for people"):
        list(chained("eflomal").measure(other_outputs))
    with pytest.raises(ConfigError, match="learn_from needs links=eflomal; links=gold"):
        list(chained("gold", learn_from="train").measure(transformer))
    (tmp_path / "links").write_text("0-0\n")
    result = results_of_people(chained(f"{tmp_path}/links"), transformer)
    assert result == "the links of links belong to other translations"
    with pytest.raises(ConfigError, match=r"metric\.consistency\.data: has no value yet"):
        list(Consistency().measure(transformer))
    with pytest.raises(XnmtError, match="language=ru, but the corpus's target language"):
        list(Consistency(data="x", language="ru").measure(transformer))
    turned = transformer.changed({"corpus": {"reversed": True}})
    with pytest.raises(XnmtError, match="are English, but the system translates from de"):
        list(Consistency(data="x").measure(turned))


def test_from_the_command_line_on_a_system_that_is_there(transformer, tmp_path):
    """`train.py` makes nothing but translations; rows of people stand below, on the page too."""
    pytest.importorskip("eflomal")
    changes = [*overrides("transformer"), f"store={transformer.store.root}", "metric=[consistency]",
            "metric.consistency.suite=chains", "metric.consistency.learn_from=train",
            f"results={tmp_path}/results", f"hydra.run.dir={tmp_path}/run"]  # fmt: skip
    done = must_run("train.py", *changes)
    assert "making nmt" not in done.stdout
    done = command("evaluate.py", *changes)
    assert "reference (blind)" in done.stdout
    with (tmp_path / "results" / "consistency.csv").open() as file:
        rows = {row["nmt"]: row for row in csv.DictReader(file)}
    assert 0 < float(rows["reference"]["consistency"]) <= 1  # eflomal errs
    listings = read_listings(tmp_path / "results" / "debug.html")
    assert {listing["name"] for listing in listings} >= {"transformer", "reference"}


@pytest.mark.long
@pytest.mark.shared("parcorfull")
def test_chains_of_real_documents():
    """ParCorFull's English side: DiscoMT and news."""
    suite = chains(Job(configure("corpus=parcorfull", f"corpus.data={DATA}")).corpus)
    assert len(suite.sentences) == 2298
    assert len(suite.items) == ITEMS
    for item in suite.items:
        if item.other and item.other.back == 0 == item.entity.back:
            assert not set(item.other.words) & set(item.entity.words)
