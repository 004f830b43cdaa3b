"""Texts as they were before they were cut into words, and what a corpus's name decides: nothing."""

import pytest

from support.configurations import configure
from support.paths import DATA, ROOT
from xnmt_bench.corpora.formats.fairseq import FairseqBinCorpus
from xnmt_bench.corpora.formats.parcorfull import ParCorFull
from xnmt_bench.corpora.formats.tsv import TsvCorpus
from xnmt_bench.corpora.gold import GoldCorpus
from xnmt_bench.corpora.text import TextCorpus
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.corpora.view import ReversedCorpus
from xnmt_bench.pipeline.job import Job

FIXTURES = ROOT / "tests" / "fixtures" / "fairseq"
SPLITS = {"train": "test", "valid": "test", "test": "test"}  # the one that is kept


def binarised(folder="transformer", **options):
    return FairseqBinCorpus(FIXTURES / folder, SPLITS, "en", "de", **options)


def files(folder):
    """A gold corpus's, and a document of ParCorFull's."""
    for name, text in (("en", "a b\n"), ("de", "x\n"), ("talp", "0-0\n")):
        (folder / f"gold.{name}").write_text(text)
    for language in ("EN", "DE"):
        for part in ("Basedata", "Markables"):
            (folder / "news" / language / part).mkdir(parents=True)
        (folder / "news" / language / "Basedata" / "d_words.xml").write_text("<words></words>")
    return [folder / "gold.en", folder / "gold.de"], folder / "gold.talp"


def around(training, folder, **options):
    """Every corpus that has another one in it."""
    text, links = files(folder)
    return {
        "gold": GoldCorpus(training, text, links, **options),
        "parcorfull": ParCorFull(training, folder, ["news"], tokenizer=None, **options),
    }


@pytest.mark.parametrize("kind", ["gold", "parcorfull", "reversed"])
@pytest.mark.parametrize(
    ("name", "cut", "joined"),
    [
        ("transformer", "the ol@@ d do@@ g sle@@ eps .", "the old dog sleeps ."),
        ("transformer_pre_norm", "▁the ▁ol d ▁do g ▁sle eps ▁.", "the old dog sleeps ."),
    ],
)
def test_subwords_of_a_binarised_corpus_are_joined(tmp_path, kind, name, cut, joined):
    training = binarised(name)
    corpora = around(training, tmp_path) | {"reversed": ReversedCorpus(training)}
    for language in ("en", "de"):
        assert training.raw(cut, language) == joined
        assert corpora[kind].raw(cut, language) == joined
        assert ReversedCorpus(corpora[kind]).raw(cut, language) == joined


@pytest.mark.parametrize("kind", ["gold", "reversed"])
def test_each_side_of_a_tokenised_corpus_is_put_together_in_its_own_language(tmp_path, kind):
    training = TsvCorpus(tmp_path / "x.tsv", ["de", "fr"], "de", "fr", [], [], tokenizer="moses")
    corpora = {"gold": around(training, tmp_path)["gold"], "reversed": ReversedCorpus(training)}
    assert corpora[kind].raw("Ja , gut .", "de") == "Ja, gut."
    # French has blanks before some marks, which German has not.
    assert corpora[kind].raw("Vraiment ?", "fr") == "Vraiment ?"
    assert corpora[kind].raw("Wirklich ?", "de") == "Wirklich?"


def test_parcorfull_is_put_together_once(tmp_path):
    files(tmp_path)
    for inner in (None, "moses"):
        training = TsvCorpus(tmp_path / "x.tsv", ["de", "en"], "en", "de", [], [], tokenizer=inner)
        corpus = ParCorFull(training, tmp_path, ["news"])
        assert corpus.raw("Yes , it &apos;s here .", "en") == "Yes, it's here."


def test_text_that_nobody_cut_stays(tmp_path):
    text = "Yes , the  dog ."
    for corpus in (ToyCorpus(), TextCorpus(tmp_path, SPLITS, "en", "de"),
                   TsvCorpus(tmp_path / "x.tsv", ["de", "en"], "en", "de", [], []),
                   *around(ToyCorpus(), tmp_path).values()):  # fmt: skip
        assert corpus.raw(text, "en") == text


def test_a_file_of_translations_is_cut_and_cased_as_the_references_are(tmp_path):
    """People and other tools write raw text; a tokenised file says the same."""
    (tmp_path / "x.tsv").write_text(
        "".join(f"{p}\td{p}\t0\tEin Hund.\tA Dog's bone.\n" for p in "abc")
    )
    for name, text in (("raw", "A Dog's bone.\n"), ("cut", "a dog 's bone .\n")):
        (tmp_path / name).write_text(text)
        job = Job(configure(
            "corpus=tsv", f"corpus.path={tmp_path}/x.tsv", "corpus.columns=[de,en]",
            "corpus.source_language=de", "corpus.target_language=en", "corpus.valid=b",
            "corpus.test=c", "corpus.tokenizer=moses", "corpus.lowercase=true",
            f"outputs.path={tmp_path}/{name}",
        ), may_make=False)  # fmt: skip
        outputs = job.outputs()
        assert outputs.texts == [s.target for s in outputs.sentences] == ["a dog 's bone ."]
        _, hypotheses, references = outputs.raw()
        assert hypotheses == references == ["a dog's bone."]


@pytest.mark.parametrize("name", ["text", "tsv", "fairseq", "gold", "parcorfull", "toy"])
def test_the_name_is_in_no_recipe(tmp_path, name):
    (tmp_path / "x.tsv").write_text("a\td\t0\tx\ty\n")
    for language in ("en", "de"):
        (tmp_path / f"test.{language}").write_text("x\n")
    text, links = files(tmp_path)
    make_corpus = {
        "text": lambda **options: TextCorpus(tmp_path, SPLITS, "en", "de", **options),
        "tsv": lambda **options: TsvCorpus(
            tmp_path / "x.tsv", ["de", "en"], "en", "de", [], [], **options
        ),
        "fairseq": lambda **options: binarised(**options),
        "gold": lambda **options: GoldCorpus(ToyCorpus(**options), text, links, **options),
        "parcorfull": lambda **options: ParCorFull(
            ToyCorpus(**options), tmp_path, ["news"], **options
        ),
        "toy": lambda **options: ToyCorpus(**options),
    }[name]
    named, other = make_corpus(), make_corpus(name="another")
    assert named.name != other.name
    assert named.recipe() == other.recipe()
    assert ReversedCorpus(named).recipe() == ReversedCorpus(other).recipe() != named.recipe()


def test_a_corpus_of_another_name_shares_every_artefact(transformer, tmp_path):
    changed = transformer.changed({"corpus": {"name": "another"}})
    assert changed.system_identity()["corpus"] == "another"
    for stage, same in (
        (changed.texts.encoded["train"], transformer.texts.encoded["train"]),
        (changed.system.trained, transformer.system.trained),
        (changed.translations().made("test"), transformer.translations().made("test")),
    ):
        assert stage.folder == same.folder
    assert changed.texts.test_set == transformer.texts.test_set


@pytest.mark.shared("alignments/rwth_deen", "parcorfull")
def test_configured_gold_and_documents_are_put_together():
    """As the metrics ask for it: the test set's own sentences."""
    for name in ("rwth_deen", "parcorfull"):
        corpus = Job(configure(f"corpus={name}", f"corpus.data={DATA}")).corpus
        sentence = next(s for s in corpus.sentences("test") if " , " in s.source)
        raw = corpus.raw(sentence.source, corpus.source_language)
        assert " , " not in raw
        assert ", " in raw


def test_sentences_of_a_binarised_corpus_are_cut():
    """Or nothing above would say anything."""
    assert any("@@" in s.source for s in binarised().sentences("test"))
