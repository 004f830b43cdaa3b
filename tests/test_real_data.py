"""The whole chain on real sentences; minutes long, so CI leaves it out (`make test-slow`)."""

import csv

import pytest
from conftest import DATA, command

pytestmark = [pytest.mark.slow, pytest.mark.shared("multi30k")]


def first_lines(folder, count):
    """The beginning of each split, so that the test stays short."""
    for split in ("train", "val", "test_2016_flickr"):
        for language in ("de", "en"):
            with (DATA / "multi30k" / f"{split}.{language}").open(encoding="utf-8") as file:
                lines = [next(file) for _ in range(count if split == "train" else 200)]
            (folder / f"{split}.{language}").write_text("".join(lines), encoding="utf-8")


def test_prediction_difference_beats_random_on_captions(tmp_path):
    first_lines(tmp_path, 6000)
    done = command(
        "train.py",
        "-m",
        "corpus=multi30k",
        f"corpus.root={tmp_path}",
        "corpus.subwords.source_size=1500",
        "corpus.subwords.target_size=1500",
        "nmt=transformer_128",
        "nmt.beam=1",
        "nmt.training.batch_tokens=1000",
        "nmt.training.max_epochs=8",
        "rules.train_sentences=2000",
        "explainer=prediction_difference,random",
        "proxy=fn",
        "proxy.training.max_epochs=8",
        "trainer.progress_bar=false",
        f"store={tmp_path}/store",
        f"results={tmp_path}/results",
        f"hydra.sweep.dir={tmp_path}/sweep",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    shown = command("evaluate.py", f"results={tmp_path}/results", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    with (tmp_path / "results" / "fidelity.csv").open(newline="", encoding="utf-8") as file:
        rows = {(r["explainer"], r["instantiation"]): r for r in csv.DictReader(file)}
    faithful, floor = rows["prediction_difference", "fn"], rows["random", "fn"]
    assert float(faithful["ppl_high"]) < float(floor["ppl_low"])
    assert float(faithful["ppl"]) < float(rows["", "unigram"]["ppl"])
