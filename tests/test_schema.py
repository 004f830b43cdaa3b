"""Every leaf of every configuration, with a wrong type, a value out of range and null."""

import pytest
from omegaconf import OmegaConf

from support.configurations import configure
from support.forked_commands import command
from support.paths import ROOT
from xnmt_bench.errors import ConfigError
from xnmt_bench.schema import check

CONF = ROOT / "conf"
# What is required before a configuration is whole.
GIVEN = {
    "corpus=multi30k": ["corpus.root=somewhere"],
    "corpus=multi30k_twins": ["corpus.data=somewhere"],
    "corpus=multi30k_natural": ["corpus.data=somewhere"],
    "corpus=text": ["corpus.root=x", "corpus.source_language=de", "corpus.target_language=en"],
    "corpus=fairseq_bin": ["corpus.root=x", "corpus.source_language=de",
                           "corpus.target_language=en"],
    "corpus=tsv": ["corpus.path=x", "corpus.test=[a]", "corpus.valid=[b]"],
    "corpus=rwth_deen": ["corpus.data=x"],
    "corpus=enru": ["corpus.path=x"],
    "corpus=hf_dataset": ["corpus.path=x", "corpus.columns=[de,en]"],
    "corpus=tatoeba": ["corpus.path=x"],
    "corpus=ende": ["corpus.path=x"],
    "corpus=parcorfull": ["corpus.data=x"],
    "nmt=huggingface": ["nmt.path=x", "nmt.name=x", "nmt.reader.family=marian"],
    **{f"nmt={name}": ["nmt.path=x"] for name in
       ("causal_lm", "fairseq", "marian", "m2m100", "mbart", "nllb", "t5")},
}  # fmt: skip
LISTS = {"metric", "analysis"}
# Leaves that belong to Hydra's groups of files, or to an experiment, and reach no code of ours.
FREE = ("learning_rate.", "analysis.agreement.fixed.", "nmt.corpus")
# Which have a value today.
NULLABLE = ("explainer.phi.layer", "rules.train_sentences", "doubts.", "sheet.items")


def choices():
    """Every choice of every group, as a command line names it."""
    for folder in sorted(path for path in CONF.iterdir() if path.is_dir()):
        if folder.name in ("launcher", "experiment"):
            continue
        for path in sorted(folder.glob("*.yaml")):
            if not path.stem.startswith("_"):
                name = f"[{path.stem}]" if folder.name in LISTS else path.stem
                yield f"{folder.name}={name}"


def leaves(node, where=()):
    if isinstance(node, dict):
        for key, value in node.items():
            yield from leaves(value, (*where, key))
    else:
        yield where, node


def wrong(value):
    """Values that no leaf with this one takes."""
    if isinstance(value, bool):
        return ["maybe", "no", 3, None]
    if isinstance(value, int):
        return ["abc", 1.5, [1], None]
    if isinstance(value, float):
        return ["abc", [1.0], None]
    if isinstance(value, str):
        return [3, [], True]
    if isinstance(value, list):
        return [{"a": 1}, 3.5]
    return [{"a": 1}, [[]]]  # null today, something else tomorrow


WORD_OR_NUMBER = ("explainer.phi.heads",)


def faulty(config, name, value, bad):
    """The problems of a configuration with a bad value, which is then put back."""
    OmegaConf.update(config, name, bad, merge=False)
    with pytest.raises(ConfigError) as error:
        check(config)
    OmegaConf.update(config, name, value, merge=False)
    return error.value.problems


@pytest.mark.parametrize("choice", [*choices(), "experiment=demo"])
def test_every_leaf_with_every_fault(choice):
    values = OmegaConf.to_container(configure(choice, *GIVEN.get(choice, [])), resolve=True)
    config = OmegaConf.create(values)
    check(config)
    group, walked, tried = choice.partition("=")[0], 0, 0
    for where, value in leaves(values):
        name = ".".join(where)
        if where[0] not in (group, "experiment") and choice != "nmt=transformer":
            continue  # the rest is walked once
        if name.startswith(FREE):
            continue
        walked += 1
        for bad in wrong(value):
            if bad is None and name.startswith(NULLABLE):
                continue
            if type(bad) is int and name in WORD_OR_NUMBER:
                continue
            problems = faulty(config, name, value, bad)
            assert any(p.startswith((name, ".".join(where[:-1]))) for p in problems), (name, bad)
            assert all("\n" not in p for p in problems)
            tried += 1
    assert OmegaConf.to_container(config) == values
    print(f"{choice}: {walked} leaves, {tried} faults")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (["k=0"], "k=0: should be greater than or equal to 1"),
        (["k=7"], "k=7: should be at most rules.largest_k, 5"),
        (["seed=-1"], "seed=-1: should be greater than or equal to 0"),
        (["seed=1.5"], "seed=1.5: should be a valid integer"),
        (["train_sentences=0"], "train_sentences=0: should be greater than or equal to 1"),
        (["rules.shard_sentences=0"], "rules.shard_sentences=0: should be"),
        (["bootstrap.samples=0"], "bootstrap.samples=0: should be"),
        (["nmt.beam=0"], "nmt.beam=0: should be"),
        (["nmt.sizes.heads=5"], "nmt.sizes.heads=5: should divide the dimension, 256"),
        (["nmt.sizes.layers=0"], "nmt.sizes.layers=0: should be"),
        (["nmt.sizes.dimension=0"], "nmt.sizes.dimension=0: should be"),
        (["nmt.training.learning_rate=-1"], "nmt.training.learning_rate=-1: should be"),
        (["nmt.training.max_epochs=0"], "nmt.training.max_epochs=0: should be"),
        (["proxy.training.validation_share=1.0"], "proxy.training.validation_share=1.0: should be"),
        (["proxy.sizes.dropout=1"], "proxy.sizes.dropout=1: should be less than 1"),
        (["explainer=attention", "explainer.phi.heads=men"], "explainer.phi.heads='men': should"),
        (["explainer=attention", "explainer.phi.layer=99"], "explainer.phi.layer=99: there are 2"),
        (["explainer=attention", "explainer.phi.heads=4"], "explainer.phi.heads=4: there are 4"),
        (
            ["nmt=tatoeba_de_en", "explainer=alti", "explainer.phi.layer=99"],
            "explainer.phi.layer=99: there are",
        ),
        (
            ["nmt=tatoeba_de_en", "explainer=alti", "explainer.phi.heads=99"],
            "explainer.phi.heads=99: there are",
        ),
        (
            ["explainer=gradient_norm", "explainer.phi.foil=999999"],
            "explainer.phi.foil=999999: the",
        ),
        (["explainer=integrated_gradients", "explainer.phi.points=0"], "explainer.phi.points=0"),
        (["explainer=shapley", "explainer.phi.permutations=0"], "explainer.phi.permutations=0"),
        (
            ["explainer=prediction_difference", "explainer.phi.removal=x"],
            "explainer.phi.removal='x'",
        ),
        (["explainer=gradient_norm", "explainer.phi.foil=x"], "explainer.phi.foil='x'"),
        (["trainer.precision=int3"], "trainer.precision='int3': should be"),
        (["corpus.reversed=maybe"], "corpus.reversed='maybe': should be a valid boolean"),
        (["rules.admit_special='no'"], "rules.admit_special='no': should be a valid boolean"),
        (["store="], "store=: should not be empty"),
        (["corpus.train=-5"], "corpus.train=-5: should be"),
        (["corpus=multi30k"], "corpus.root: has no value yet; give corpus.root=..."),
        (["prefix=all"], "prefix='all': should be 'chosen', 'none' or 'previous'"),
        (["prefix=none", "metric=[fidelity,causes]"], "prefix=none: metric=[causes] is of the"),
        (["explain_target=x"], "explain_target: needs explain=..."),
        (["explain_foil=x"], "explain_foil: needs explain=..."),
        (["metric=[aer]", "metric.aer.gold_base=3"], "metric.aer.gold_base=3: should be 0 or 1"),
        (["proxy.sizes=64"], "proxy.sizes=64: should be a group of options"),
        (["sheet.path=a.csv"], "sheet.path='a.csv': should be a list, such as [a.csv]"),
        (["bundle=x.tgz"], "bundle='x.tgz': should be a file whose name ends in .zip"),
        (["corpus.name=a/b"], "corpus.name='a/b': should be a name without /"),
    ],
)
def test_a_fault_is_one_line(changes, line):
    with pytest.raises(ConfigError) as error:
        check(configure(*changes))
    problem, *copies = error.value.problems
    assert problem.startswith(line)
    # A proxy's size follows the system's.
    assert all(copy.startswith("proxy.sizes.") for copy in copies)


def test_all_faults_of_a_command_come_at_once(tmp_path):
    done = command("train.py", "k=abc", "nmt.beam=0", "proxy.sizes.heads=3",
                   f"hydra.run.dir={tmp_path}/run", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 2
    assert sorted(done.stderr.strip().splitlines()) == [
        "error: k='abc': should be a valid integer",
        "error: nmt.beam=0: should be greater than or equal to 1",
        "error: proxy.sizes.heads=3: should divide the dimension, 256",
    ]
    assert not (tmp_path / "outputs").exists()


@pytest.mark.parametrize(
    ("script", "change", "line"),
    [
        ("train.py", "explain=Ein Hund .", "explain= works with evaluate.py only"),
        ("evaluate.py", "explain=", "explain=: should not be empty"),
        ("train.py", "metric=null", "no metric 'null'; there are aer"),
        ("train.py", "proxy=", "proxy=: should be a choice of proxy"),
        ("train.py", "+explainer.phi.layr=1", "explainer.phi.layr: no such option"),
        ("train.py", "+metric.fidelity.browse=1", "no such option; did you mean browsed?"),
        ("evaluate.py", "repair=true", "repair= works with train.py only"),
        ("evaluate.py", "dry_run=true", "dry_run= works with train.py only"),
        ("evaluate.py", "until=rules", "until= works with train.py only"),
    ],
)
def test_slips_on_the_command_line(tmp_path, script, change, line):
    done = command(script, change, f"hydra.run.dir={tmp_path}/run", cwd=tmp_path)
    assert done.returncode == 2
    assert line in done.stderr
    assert "Traceback" not in done.stderr
