"""Recipes of splits: what is learnt from one is learnt once for all test sets."""

from itertools import combinations

import pytest

from xnmt_bench.corpora.formats.tsv import TsvCorpus
from xnmt_bench.corpora.gold import GoldCorpus
from xnmt_bench.corpora.planted.catalogue import Catalogue
from xnmt_bench.corpora.planted.twins import ToyTwins
from xnmt_bench.corpora.sentence import SPLITS
from xnmt_bench.corpora.suites.consistency.corpus import SuiteCorpus
from xnmt_bench.corpora.suites.consistency.suite import Suite
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.corpora.toy.coreference import ToyCoreference
from xnmt_bench.corpora.toy.discourse import ToyDiscourse
from xnmt_bench.corpora.view import ReversedCorpus
from xnmt_bench.nmt.context.divided import DividedCorpus
from xnmt_bench.registry import create
from xnmt_bench.resolvers.examples import ExamplesCorpus
from xnmt_bench.resolvers.markers import MarkedCorpus

SIZES = ({}, {"test": 9}, {"valid": 4}, {"train": 30})
REMEMBERED = {"train": 4000, "test": 60}  # so many that a test document is among them


def of_sizes(build, **options):
    """The same corpus by sizes of its splits."""
    return [build(**({"train": 20, "valid": 6, "test": 6} | options | sizes)) for sizes in SIZES]


def tsv(folder, **options):
    lines = (f"{portion}\td\t{n}\tx{n}\ty{n}\n" for n, portion in enumerate("aabcdd"))
    (folder / "docs.tsv").write_text("".join(lines), encoding="utf-8")
    path, columns = folder / "docs.tsv", ["de", "en"]
    for train in (["a"], None):
        for test in ("c", "d"):
            yield TsvCorpus(path, columns, "de", "en", ["b"], [test], train, **options)


def gold(folder):
    [corpus, *_] = of_sizes(ToyCorpus)
    repeated = next(corpus.sentences("train"))
    texts = ("a b", "x"), ("c", "y z"), (repeated.source, repeated.target)
    for number, links in (([0, 1]), "1-1\n\n"), ([0, 1], "2-1\n\n"), ([0, 2], "1-1\n\n"):
        names = [folder / f"{number}.{side}" for side in ("en", "de")]
        for side, name in enumerate(names):
            name.write_text("".join(f"{texts[n][side]}\n" for n in number), encoding="utf-8")
        path = folder / f"{number} {links[:1]}.talp"
        path.write_text(links, encoding="utf-8")
        yield GoldCorpus(corpus, names, path, base=1)


def viewed(view):
    return [view(corpus) for corpus in of_sizes(ToyCoreference, far=0.5)]


CORPORA = {
    "toy": lambda _: [*of_sizes(ToyCorpus), ToyCorpus(**REMEMBERED), ToyCorpus(train=20, test=60)],
    "toy_discourse": lambda _: of_sizes(ToyDiscourse),
    "toy_coreference": lambda _: of_sizes(ToyCoreference),
    "catalogue": lambda _: of_sizes(Catalogue),
    "twins": lambda _: [*of_sizes(ToyTwins), *of_sizes(ToyTwins, hides="cue")],
    "reversed": lambda _: viewed(ReversedCorpus),
    "marked": lambda _: viewed(lambda corpus: MarkedCorpus(corpus, create("resolvers", "gold"))),
    "examples": lambda _: [
        ExamplesCorpus(corpus, create("resolvers", "gold"), kind)
        for corpus in of_sizes(ToyCoreference, far=0.5)
        for kind in ("coref", "gender")
    ],
    "divided": lambda _: [
        *viewed(lambda corpus: DividedCorpus(corpus, "middle")),
        *viewed(lambda corpus: corpus),
    ],
    "tsv": tsv,
    "gold": gold,
}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", CORPORA)
def test_splits_of_one_recipe_have_the_same_sentences(tmp_path, name, split):
    variants = [(c.recipe(split), list(c.sentences(split))) for c in CORPORA[name](tmp_path)]
    for (recipe, sentences), (other_recipe, other_sentences) in combinations(variants, 2):
        assert recipe != other_recipe or sentences == other_sentences


@pytest.mark.parametrize("name", sorted(CORPORA.keys() - {"tsv", "gold"}))
def test_another_test_set_leaves_the_training_split_as_it_is(tmp_path, name):
    corpora = CORPORA[name](tmp_path)
    step = len(corpora) // len(SIZES) if name == "examples" else 1
    before, other_test, other_valid, other_train = corpora[: step * len(SIZES) : step]
    assert before.recipe("train") == other_test.recipe("train") == other_valid.recipe("train")
    assert before.recipe("valid") == other_test.recipe("valid") == other_train.recipe("valid")
    assert before.recipe("test") != other_test.recipe("test")
    assert len({str(c.recipe()) for c in corpora}) == len(corpora)


def test_what_training_reads_of_files_decides_its_recipe(tmp_path):
    named, other_test, rest, other_rest = tsv(tmp_path)
    assert named.recipe("train") == other_test.recipe("train")
    assert named.recipe("valid") == rest.recipe("valid") == other_rest.recipe("valid")
    assert rest.recipe("train") != other_rest.recipe("train")  # it reads what is not named
    first, other_links, other_texts = gold(tmp_path)
    assert first.recipe("train") == other_links.recipe("train") != other_texts.recipe("train")
    assert first.recipe("valid") == other_texts.recipe("valid")


def test_what_cuts_words_stays_in_the_recipe_of_another_test_set(tmp_path):
    """A suite or a file of annotated translations is read as the training corpus cuts words."""
    next(gold(tmp_path))
    texts = [tmp_path / f"[0, 1].{side}" for side in ("en", "de")]
    recipes = []
    for lowercase in (False, True):
        [training, *_] = tsv(tmp_path, lowercase=lowercase)
        corpus = GoldCorpus(training, texts, tmp_path / "[0, 1] 1.talp", base=1)
        recipes.append(
            [corpus.recipe("test"), SuiteCorpus(Suite("made", [], []), corpus).recipe("test")]
        )
    (plain, plain_suite), (lower, lower_suite) = recipes
    assert plain != lower and plain_suite != lower_suite
