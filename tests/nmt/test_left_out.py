"""One sentence that cannot be read is left out and counted; the others keep their numbers."""

import json

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, MarianConfig, MarianMTModel

from support.configurations import configure
from support.huggingface_models import build
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.corpora.vocabulary.subwords import EOS
from xnmt_bench.errors import XnmtError
from xnmt_bench.judges import RuleSet
from xnmt_bench.metrics.confidence.metric import Confidence
from xnmt_bench.metrics.contrastive import Contrastive
from xnmt_bench.nmt.huggingface import open_huggingface
from xnmt_bench.nmt.scoring import log_probability
from xnmt_bench.pipeline.job import Job
from xnmt_bench.rules.extract import REAL

POSITIONS = 29
TEST = 20
SMALL = ["nmt=marian", "nmt.beam=1", "corpus.train=60", "corpus.valid=5", f"corpus.test={TEST}",
         "explainer=attention", "rules.train_sentences=30", "device=cpu", "threads=1",
         "trainer.progress_bar=false"]  # fmt: skip


@pytest.fixture(scope="module")
def short_marian(tmp_path_factory, texts):
    """The folder of a Marian of few positions, whose random translations are long ones."""
    folder = tmp_path_factory.mktemp("few_positions")
    build("marian", folder, tuple(side[:1000] for side in texts))
    weights = MarianMTModel.from_pretrained(folder).state_dict()
    config = MarianConfig.from_pretrained(folder)
    config.max_position_embeddings = POSITIONS
    model = MarianMTModel(config)
    kept = {name: w for name, w in weights.items() if "embed_positions" not in name}
    assert not model.load_state_dict(kept, strict=False).unexpected_keys
    model.generation_config.bad_words_ids = [[config.pad_token_id]]
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def lengths(short_marian):
    """The subwords of each test sentence, EOS included, as the tokenizer alone counts them."""
    tokenizer = AutoTokenizer.from_pretrained(short_marian)
    return np.array([
        [len(tokenizer(s.source).input_ids), len(tokenizer(text_target=s.target).input_ids)]
        for s in ToyCorpus(train=60, valid=5, test=TEST).sentences("test")
    ])  # fmt: skip


@pytest.fixture
def short_marian_job(short_marian, tmp_path):
    return Job(configure(*SMALL, f"nmt.path={short_marian}", f"store={tmp_path}"))


def changed(job, *options):
    return Job(configure(*SMALL, f"nmt.path={job.settings.nmt.path}", f"store={job.settings.store}",
                         *options))  # fmt: skip


def test_pairs_that_are_longer_than_the_systems_positions(short_marian_job, lengths):
    """The longest that is left is explained."""
    expected = np.flatnonzero((lengths <= POSITIONS).all(1))
    assert 0 < len(expected) < TEST
    assert short_marian_job.texts.split("test").number.tolist() == expected.tolist()
    lost = TEST - len(expected)
    assert f"{lost} of {TEST} test pairs have no word" in "\n".join(short_marian_job.doubts)
    assert [s.number for s in short_marian_job.relevance(source_alone=True)] == expected.tolist()


@pytest.fixture
def readable(short_marian_job, short_marian):
    """The numbers of the test sentences whose own translations can be read again."""
    tokenizer, outputs = AutoTokenizer.from_pretrained(short_marian), short_marian_job.outputs()
    return [
        number
        for number, text in zip(outputs.number_N.tolist(), outputs.texts, strict=True)
        if 1 < len(tokenizer(text_target=text).input_ids) <= POSITIONS
    ]


def test_own_translations_that_cannot_be_read_again(short_marian_job, readable):
    """Everything that is made of them has the others, under their own numbers."""
    every = len(short_marian_job.texts.split("test"))
    assert 0 < len(readable) < every
    assert short_marian_job.decisions().split("test", REAL).number.tolist() == readable
    assert [w.number for w in short_marian_job.weighed_sentences()] == readable
    [row] = Confidence().measure(short_marian_job)
    evidence = row.make()
    assert evidence.units.number_U.tolist() == readable
    assert evidence.facts["left_out"] == TEST - len(readable)
    # Translations are all there for metrics that read text.
    assert len(short_marian_job.outputs().texts) == every


def test_own_translations_as_decisions(short_marian_job, readable):
    """Shards of two sentences: what is left out empties the last of them."""
    real = changed(
        short_marian_job, "scenario=real", "learned_from=real", "rules.shard_sentences=2"
    )
    rules = RuleSet(real)
    assert np.unique(rules.test.sentence_N).tolist() == readable
    [doubt] = real.decisions().describe_left_out("test", REAL)
    every = len(short_marian_job.texts.split("test"))
    assert doubt.startswith(f"{every - len(readable)} of {every} of the system's own translations")
    # The same training sentences, where fewer are learnt from than are explained.
    few = RuleSet(
        changed(short_marian_job, "scenario=real", "learned_from=real", "train_sentences=15")
    )
    first = few.decisions.split("train", REAL, 15).number.tolist()
    learnt = np.concatenate([shard.sentence_N for shard in few.training()])
    assert sorted({*learnt.tolist()}) == sorted(first)
    assert len(few.decisions.visible_words(REAL, 15).label_N) == len(learnt)


@pytest.mark.parametrize("line", ["", "  ", "der Hund " * 40])
def test_a_line_of_a_file_of_translations(short_marian_job, lengths, tmp_path, line):
    short = np.flatnonzero((lengths <= POSITIONS).all(1)).tolist()
    targets = [s.target for s in short_marian_job.corpus.sentences("test")]
    targets[short[1]] = line
    (tmp_path / "outputs").write_text("".join(f"{text}\n" for text in targets))
    [row] = Confidence().measure(changed(short_marian_job, f"outputs.path={tmp_path}/outputs"))
    evidence = row.make()
    assert evidence.units.number_U.tolist() == [short[0], *short[2:]]
    assert evidence.facts["left_out"] == TEST - len(short) + 1


def test_a_file_without_any_translation(short_marian_job, tmp_path):
    (tmp_path / "outputs").write_text("\n" * TEST)
    [row] = Confidence().measure(changed(short_marian_job, f"outputs.path={tmp_path}/outputs"))
    with pytest.raises(XnmtError, match=f"no sentence pair: {TEST} of {TEST} pairs have no word"):
        row.make()


def test_pairs_that_are_too_long_to_be_scored_have_no_number(short_marian):
    model = open_huggingface(str(short_marian), "marian")
    short, long = [5, 6, EOS], [*[7] * POSITIONS, EOS]
    pairs = [(short, short), (long, short), (short, long), (short, [8, *short])]
    scores, ids = log_probability(model, pairs, 1000)
    assert np.isnan(scores).tolist() == [False, True, True, False]
    assert ids.tolist() == [3, 0, 0, 4]
    alone, _ = log_probability(model, pairs[3:], 1000)
    torch.testing.assert_close(scores[3], alone[0], rtol=1e-5, atol=0)


def test_a_contrastive_group_with_a_variant_that_is_too_long(short_marian_job, tmp_path):
    long = " ".join(["sie"] * POSITIONS)
    groups = [("it is old .", ["er ist alt .", long]), ("it sleeps .", ["er schläft .", "sie ."])]
    lines = [{"lang_pair": "en-de"}, *({"source": x, "variants": y} for x, y in groups)]
    (tmp_path / "set.jsonl").write_text("\n".join(map(json.dumps, lines)))
    row, _ = Contrastive([str(tmp_path / "set.jsonl")]).measure(short_marian_job)
    evidence = row.make()
    assert evidence.units.number_U.tolist() == [1]
    assert evidence.facts["told"][0].startswith("1 of 2 groups have a variant longer")
