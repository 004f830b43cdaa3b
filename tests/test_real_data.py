"""The whole chain on real sentences, with the shipped system."""

import csv

import pytest

from support.forked_commands import must_run
from support.paths import DATA

pytestmark = [pytest.mark.long, pytest.mark.shared("multi30k")]


def test_prediction_difference_beats_random_on_captions(tmp_path):
    """By Base, so that nothing is trained and the weights are those of every machine."""
    folders = [f"store={tmp_path}/store", f"results={tmp_path}/results"]
    must_run(
        "train.py", "-m", "corpus=multi30k", f"corpus.root={DATA}/multi30k", "nmt=tatoeba_de_en",
        "rules.test_sentences=60", "explainer=prediction_difference,random", "metric=[fidelity]",
        "judge=[base]", "trainer.progress_bar=false", f"hydra.sweep.dir={tmp_path}/sweep",
        *folders, cwd=tmp_path,
    )  # fmt: skip
    must_run("evaluate.py", *folders, cwd=tmp_path)
    with (tmp_path / "results" / "fidelity.csv").open(newline="", encoding="utf-8") as file:
        rows = {(r["explainer"], r["instantiation"]): r for r in csv.DictReader(file)}
    faithful, floor = rows["prediction_difference", "base"], rows["random", "base"]
    assert float(faithful["ppl_high"]) < float(floor["ppl_low"])
    assert float(faithful["ppl"]) < float(rows["", "unigram"]["ppl"])
