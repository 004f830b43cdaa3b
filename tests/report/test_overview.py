"""What a page says of its systems, and which words it explains."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from support.example_rows import FIDELITY, SYSTEM, scored
from xnmt_bench.metrics.aer import AER
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.metrics.quality import Quality
from xnmt_bench.pipeline.system import System
from xnmt_bench.report.overview import UNMEASURED, overview

LINEAGE = {"family": "f", "initial": None}
QUALITY = {"bleu": 21.5, "chrf": 40.0, "ter": 61.0}


def judged(explainer="attention", judge="fn", decisions=12, model="m0", **facts):
    identity = FIDELITY | {"explainer": explainer, "instantiation": judge}
    values = {"ppl": 3.0, "decisions": decisions}
    return scored(identity, values, model=model, **facts)


def test_one_opened_model():
    settings = {"test sentences": "1,200 (3fa2c1)"}
    rows = [judged(opened="hub/opus", settings=settings), judged(judge="base", opened="hub/opus"),
            judged("random", blind=True, opened="hub/opus")]  # fmt: skip
    quality = [scored(SYSTEM, QUALITY)]
    about = overview([(Fidelity(), rows), (Quality(), quality)])
    assert about.systems == [
        {
            "model": "transformer, opened from hub/opus, fingerprint m0",
            "test set": "toy, en-de, 1,200 sentences",
            "decisions": "12",
            "translation quality": "BLEU 21.50, chrF 40.00, TER 61.00",
        }
    ]
    here = {word: text.partition("Here: ")[2] for word, text in about.words.items()}
    assert here == {"decision": "", "explainer": "attention", "rule": "", "judge": "Base, own FN",
                    "blind row": "random"}  # fmt: skip
    assert "1 of the source and 1 of the translation" in about.words["rule"]


def test_several_trainings_are_one_system_and_other_test_sentences_are_named():
    rows = [
        judged(model=f"m{seed}", decisions=seed, lineage=LINEAGE | {"seed": seed},
               settings={"test sentences": f"{1000 * seed:,} (3fa2c1)"})
        for seed in (2, 1)
    ]  # fmt: skip
    [system] = overview([(Fidelity(), rows)]).systems
    assert system == {
        "model": "transformer, trained here with nmt.seed=1,2, fingerprint m1 and m2",
        "test set": "toy, en-de, 1,000 or 2,000 sentences",
        "decisions": "2",
        "translation quality": UNMEASURED,
    }


def test_a_system_that_was_trained_further_names_its_start():
    row = judged(lineage={"family": "f", "seed": 0, "initial": "0123456789abcdef"})
    [system] = overview([(Fidelity(), [row])]).systems
    assert "nmt.seed=0, from the weights of 012345," in system["model"]


def test_files_have_no_model_and_no_way_to_measure_it():
    row = scored(SYSTEM | {"explainer": "attention"}, {"aer": 0.5}, model="")
    about = overview([(AER(), [row])])
    assert about.systems == [
        {"model": "transformer, known from files; no model was opened", "test set": "toy, en-de"}
    ]
    assert [*about.words] == ["explainer"]


def test_systems_of_one_name_are_kept_apart():
    about = overview([(Fidelity(), [judged(model="m0"), judged(model="m1")])])
    assert [s["model"][-2:] for s in about.systems] == ["m0", "m1"]


@pytest.mark.parametrize(
    ("path", "opened"),
    [(None, ""), ("tatoeba_de_en", "tatoeba_de_en"), ("hub/opus-mt", "hub/opus-mt"),
     ("{here}/mine", "mine"), ("/not/there/mine.pt", "mine.pt"), ("deep/mine", "mine")],
)  # fmt: skip
def test_a_row_keeps_a_models_name_and_not_where_it_lay(path, opened, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("deep/mine").mkdir(parents=True)
    path = path and path.format(here=tmp_path / "deep")
    system = SimpleNamespace(_nmt=SimpleNamespace(path=path))
    assert System.opened.fget(system) == opened
