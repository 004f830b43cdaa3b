"""Attention over coreference links, on a concatenation model of the toy corpus."""

import csv

import numpy as np
import pytest
import torch
from conftest import SIZES, SMALL, command, configure, overrides

from xnmt_bench.corpora.subwords import SEPARATOR
from xnmt_bench.errors import NotApplicable
from xnmt_bench.explainers.base import Explainer, Relevance
from xnmt_bench.nmt.base import Batch
from xnmt_bench.parquet import read_table
from xnmt_bench.stages.coreference import Coreference

SMALL_CONCAT = [
    "nmt=concat", *SMALL, *SIZES["transformer"], "corpus.train=1200", "corpus.valid=60",
    "corpus.test=60", "nmt.training.max_epochs=2", "nmt.training.batch_tokens=2000", "nmt.beam=1",
    "metric=[coref_attention]",
]  # fmt: skip


def stages(workplace, explainer, *more):
    changes = [*SMALL_CONCAT, f"store={workplace}/store", f"explainer={explainer}", *more]
    return Coreference(configure(*changes))


@pytest.fixture(scope="module")
def attention(workplace):
    return stages(workplace, "attention")


def weights(made, index):
    return next(blocks for i, blocks in made.weights() if i == index)


def links(artefact, side):
    table = read_table(artefact.path / f"{side}.parquet")
    return {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}


def test_weights_are_those_of_the_models_self_attention(attention):
    """Recomputed word by word from the pieces' attention."""
    split = attention.split("test")
    index = next(i for i in range(len(split)) if (split.source[i] == SEPARATOR).sum() == 2)
    near, far = weights(attention, index)["source"]
    spoken = attention.spoken["source"]
    assert near.shape == (len(spoken[index].words), len(spoken[index - 1].words))
    assert far.shape == (len(spoken[index].words), len(spoken[index - 2].words))
    model, ids = attention.model, split.source[index]
    batch = Batch.collate([(ids, split.target[index])])
    whole = model.encoder_attention(model.embed_source(batch.source_BS), batch.layout)
    pieces = whole[0, -1].mean(0).double()
    ends = [*np.flatnonzero(ids == SEPARATOR).tolist(), len(ids) - 1]
    starts = [0, *(end + 1 for end in ends[:-1])]
    words = [torch.tensor(attention.subwords[0].words(ids[a:b].tolist()))
             for a, b in zip(starts, ends, strict=True)]  # fmt: skip
    rows = torch.arange(starts[-1], ends[-1])
    for block, place in ((near, 1), (far, 0)):
        columns = torch.arange(starts[place], ends[place])
        for i in range(block.shape[0]):
            for n in range(block.shape[1]):
                part = pieces[rows[words[-1] == i]][:, columns[words[place] == n]]
                assert block[i, n] == pytest.approx(float(part.sum(1).mean()), rel=1e-5)


def test_links_are_those_of_the_gold(attention):
    found = links(attention.coreference, "source")
    expected = 0
    for i, spoken in enumerate(attention.spoken["source"]):
        for distance in range(1, attention.depth("test", i) + 1):
            context = attention.spoken["source"][i - distance].mentions
            expected += sum(m.chain == a.chain for m in spoken.mentions for a in context)
    assert len(found["weight"]) == expected > 30
    assert set(found["distance"]) <= {1, 2, 3}
    assert ((found["weight"] >= 0) & (found["weight"] <= 1)).all()


def test_mentions_of_the_target_stand_on_the_systems_own_output(attention):
    outputs = (attention.translation.path / "test.txt").read_text().split("\n")
    for spoken, output in zip(attention.spoken["target"], outputs, strict=False):
        assert spoken.words == output.split()
        for mention in spoken.mentions:
            assert mention.texts == tuple(spoken.words[w] for w in mention.words)
    assert len(links(attention.coreference, "target")["weight"]) > 10


def test_uniform_attention_has_no_significant_weight(attention):
    for side in ("source", "target"):
        assert links(attention.uniform, side)["weight"].max() == 0


def test_only_the_nearest_antecedent(attention, workplace):
    every = links(attention.coreference, "source")
    nearest = stages(workplace, "attention", "metric.coref_attention.nearest=true").coreference
    fewer = links(nearest, "source")
    assert 0 < len(fewer["weight"]) < len(every["weight"])


def test_any_explainers_relevance_is_scored(workplace):
    for name in ("random", "gradient_norm"):
        made = stages(workplace, name)
        found = links(made.coreference, "source")
        assert found["weight"].max() > 0
        index = next(i for i in range(10) if made.depth("test", i) == 2)
        for side, blocks in weights(made, index).items():
            spoken = made.spoken[side]
            assert len(blocks) == 2
            for distance, block in enumerate(blocks, start=1):
                shape = (len(spoken[index].words), len(spoken[index - distance].words))
                assert block.shape == shape
                assert np.isfinite(block).all()
                assert (block >= 0).all()
                assert (block.sum(1) <= 1 + 1e-9).all()


class OnlyNow(Explainer):
    """The current steps look at the current sentence alone, those of the context at everything."""

    def relevance(self, model, batch):
        now = batch.layout.source_BS == batch.layout.source_BS.amax(1, keepdim=True)
        source = torch.where(batch.current_BT[:, :, None], now[:, None].double(), 1.0)
        return Relevance.of_inputs(batch, source, torch.zeros(batch.target_BT.shape).diag_embed())


def test_steps_of_the_context_say_nothing_of_the_current_sentence(workplace):
    made = stages(workplace, "gradient_norm")
    made.__dict__["explainer"] = OnlyNow()
    index = next(
        i for i in range(10) if made.depth("test", i) == 2 and made.spoken["target"][i].words
    )
    blocks = weights(made, index)["source"]
    assert len(blocks) == 2
    assert all(block.max() == 0 for block in blocks)


def test_a_system_without_context_is_not_applicable(workplace, transformer):
    given = [*overrides("transformer"), "metric=[coref_attention]", "corpus.seed=0"]
    made = Coreference(configure(*given, f"store={workplace}/store"))
    with pytest.raises(NotApplicable, match="reads no context"):
        _ = made.coreference


def test_from_the_command_line(attention, workplace, tmp_path):
    given = [*SMALL_CONCAT, f"store={workplace}/store", f"results={tmp_path}/results"]
    made = command("train.py", "-m", *given, "explainer=attention,random",
                   f"hydra.sweep.dir={tmp_path}/sweep")  # fmt: skip
    assert made.returncode == 0, made.stderr
    read = command("evaluate.py", *given, f"hydra.run.dir={tmp_path}/run")
    assert read.returncode == 0, read.stderr
    assert "Attention over coreference links" in read.stdout
    with (tmp_path / "results" / "coref_attention.csv").open() as file:
        rows = list(csv.DictReader(file))
    kinds = {(r["explainer"], r["side"], r["links_of"]) for r in rows}
    assert {e for e, _, _ in kinds} == {"attention", "random", "uniform"}
    assert {s for _, s, _ in kinds} == {"source", "target"}
    assert "context needed, hard" in {k for _, _, k in kinds}
    uniform = [r for r in rows if r["explainer"] == "uniform" and r["links_of"] == "all"]
    assert all(float(r["nonzero"]) == 0 for r in uniform)
    mine = [r for r in rows if r["explainer"] == "attention" and r["links_of"] == "all"]
    for row in mine:
        assert float(row["nonzero_low"]) <= float(row["nonzero"]) <= float(row["nonzero_high"])
