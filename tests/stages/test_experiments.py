"""An experiment of the paper's from the command line: one line makes it, one line reports it."""

import csv

from conftest import SIZES, SMALL, command

FEW = [*SMALL, *SIZES["transformer"], "corpus.seed=0", "rules.train_sentences=100",
       "rules.test_sentences=40", "proxy.training.max_epochs=1"]  # fmt: skip


def test_figure_1(transformer, workplace, tmp_path):
    given = ["experiment=li2020/figure1", *FEW, f"store={workplace}/store",
             f"results={tmp_path}/results"]  # fmt: skip
    made = command("train.py", "-m", *given, "explainer=gradient_norm,random", "k=1,2",
                   f"hydra.sweep.dir={tmp_path}/sweep")  # fmt: skip
    assert made.returncode == 0, made.stderr
    read = command("evaluate.py", *given, f"hydra.run.dir={tmp_path}/run")
    assert read.returncode == 0, read.stderr
    assert "Perplexity against k" in read.stdout
    with (tmp_path / "results" / "k.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {(r["explainer"], r["k"], r["instantiation"]) for r in rows} == {
        (e, k, i) for e in ("gradient_norm", "random") for k in "12" for i in ("base", "sa")
    }
    for ending in ("svg", "png", "tex", "md", "txt"):
        assert (tmp_path / "results" / f"k.{ending}").stat().st_size > 0
