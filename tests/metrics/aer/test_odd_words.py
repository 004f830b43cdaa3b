"""AER of sentences with characters that tokenizers drop, split at or join."""

import sentencepiece as spm
from omegaconf import OmegaConf

from support.configurations import configure
from xnmt_bench.corpora.passage import ALONE
from xnmt_bench.corpora.vocabulary.subwords import UNK, SentencePiece
from xnmt_bench.metrics.aer import AER
from xnmt_bench.nmt.loading import build_model, save_model
from xnmt_bench.pipeline.job import Job

# Source, target, and the source word of each target word, by hand.
PAIRS = [
    ("\ufffd Wie geht´s dir ?", "Hi how are you ?", [0, 1, 2, 3, 4]),
    ("Das\u00a0ist ein\u200c\u00adHaus .", "That house . \u200b", [0, 1, 2, 0]),
    ("Ich \u2028 sehe\u3000dich …", "\ufeff I see…you .", [0, 0, 2, 3]),
    ("Ein Hund schläft .", "A dog sleeps .", [0, 1, 2, 3]),
]
TRAIN = [
    ("New York schläft .", "New York sleeps ."),
    ("Ein Hund sieht New York .", "A dog sees New York ."),
]


def job_of(folder, pairs, *changes, **subwords):
    for split, texts in (("train", TRAIN * 20), ("valid", TRAIN), ("test", TRAIN)):
        for side, language in enumerate(("de", "en")):
            lines = "".join(f"{pair[side]}\n" for pair in texts)
            (folder / f"{split}.{language}").write_text(lines)
    for side, name in enumerate(("source", "target")):
        (folder / name).write_text("".join(f"{pair[side]}\n" for pair in pairs))
    links = [" ".join(f"{i}-{j}" for j, i in enumerate(pair[2])) for pair in pairs]
    (folder / "links").write_text("".join(f"{line}\n" for line in links))
    config = configure(
        "corpus=text", f"corpus.root={folder}", "corpus.source_language=de", "metric=[aer]",
        "corpus.target_language=en", f"store={folder}/store", "explainer=gold_alignment",
        "trainer.progress_bar=false", *changes,
    )  # fmt: skip
    OmegaConf.set_struct(config, False)
    beside = {key: config.corpus.pop(key) for key in ("reversed", "subwords", "max_length")}
    beside["subwords"] = {**beside["subwords"], **subwords}
    config.corpus = {
        "_target_": "xnmt_bench.corpora.gold.GoldCorpus",
        "name": "odd",
        "training": config.corpus,
        "text": [str(folder / "source"), str(folder / "target")],
        "links": str(folder / "links"),
        **beside,
    }
    return Job(config)


def measured(job):
    row, *_ = AER().measure(job)
    return row.make()


def test_links_are_those_of_the_words_between_blanks(tmp_path):
    evidence = measured(job_of(tmp_path, PAIRS, "nmt=tatoeba_de_en"))
    counts = {name: column.sum() for name, column in evidence.units.columns.items()}
    # Of 17 links two are of target words that have no piece, one of a source word without any.
    assert counts["sure"] == sum(len(links) for _, _, links in PAIRS) == 17
    assert evidence.units["links"].tolist() == [5, 3, 3, 4]
    assert evidence.units["sure_links"].tolist() == [4, 3, 3, 4]
    assert evidence.facts["left_out"] == 0


def test_a_sentence_that_cannot_be_tied_is_left_out_and_counted(tmp_path, caplog):
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter([source for source, _ in TRAIN] * 20), model_type="bpe",
        model_prefix=str(tmp_path / "crossing"), vocab_size=60, hard_vocab_limit=False,
        split_by_whitespace=False, minloglevel=2, num_threads=1,
        pad_id=0, unk_id=1, bos_id=2, eos_id=3,
    )  # fmt: skip
    subwords = SentencePiece(tmp_path / "crossing.model")
    sizes = {"layers": 1, "heads": 2, "dimension": 8, "feed_forward": 8}
    model = build_model("transformer", sizes, subwords, subwords)
    (tmp_path / "system").mkdir()
    save_model(model, "transformer", sizes, tmp_path / "system", ALONE, ("de", "en"))
    pairs = [("New York schläft .", "dog", [0]), ("Hund", "dog", [0])]
    assert any("▁" in piece[1:] for piece in subwords.pieces(subwords.encode(pairs[0][0])))
    evidence = measured(job_of(tmp_path, pairs, f"nmt.path={tmp_path}/system"))
    assert evidence.units.number_U.tolist() == [1]
    assert evidence.facts["left_out"] == 1
    assert "left out: test sentence 0: a source subword may be a part of two words" in caplog.text


def test_normalization_decides_vocabularies(tmp_path):
    jobs = [
        job_of(tmp_path, PAIRS, "nmt=transformer", source_size=60, target_size=60, **options)
        for options in ({}, {"normalization": "nmt_nfkc"}, {"normalization": "identity"})
    ]
    default, nfkc, identity = (job.system.subwords[0] for job in jobs)
    assert default.path == nfkc.path != identity.path
    text = "New\u00a0York"
    assert default.encode(text) == default.encode("New York")
    assert UNK in identity.encode(text)
