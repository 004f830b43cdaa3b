"""What training stops by beside its loss, beside sacrebleu's own scores."""

from types import SimpleNamespace

import numpy as np
import pytest
import sacrebleu

from support.configurations import configure
from xnmt_bench.corpora import languages
from xnmt_bench.corpora.vocabulary.encoded import EncodedSide, EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import EOS
from xnmt_bench.errors import XnmtError, import_extra
from xnmt_bench.nmt import validation
from xnmt_bench.nmt.validation import ValidationQuality
from xnmt_bench.pipeline.job import Job

TEXTS = {
    "zh": (["这只猫坐在窗台上看着雨。", "他买了两本历史书。"],
           ["这只猫坐在窗台上看雨。", "他买了两本关于历史的书。"]),
    "th": (["ฉันไปโรงเรียนทุกวัน", "วันนี้อากาศดีมาก"],
           ["ฉันไปโรงเรียนทุกๆวัน", "วันนี้อากาศดี"]),
    "de": (["die Katze sitzt am Fenster und schaut .", "er kaufte zwei alte Bücher ."],
           ["die Katze sitzt am Fenster .", "er kaufte zwei Bücher ."]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("language", "name", "fingerprint"),
    [("zh", "bleu", "bleu zh"), ("th", "chrf", "chrf char"), ("de", "bleu", "bleu")],
)
def test_epochs_are_told_apart_by_words_of_the_language(monkeypatch, language, name, fingerprint):
    hypotheses, references = TEXTS[language]
    texts = [*hypotheses, *references]
    # One id stands for a whole text; the system writes the one two before.
    first = EOS + 1
    side = EncodedSide.of([np.array([first + n, EOS]) for n in (2, 3)])
    split = EncodedSplit(side, side, np.arange(2))

    def decode(ids):
        return "".join(texts[i - first] for i in ids if i != EOS)

    def translate(model, sources, prefixes):
        return [[int(source[0]) - 2] for source in sources]

    monkeypatch.setattr(validation, "translate", translate)
    model = SimpleNamespace(target_subwords=SimpleNamespace(decode=decode))
    quality = ValidationQuality(split, language)
    assert (quality.name, quality.fingerprint) == (name, fingerprint)
    if name == "chrf":
        expected = sacrebleu.corpus_chrf(hypotheses, [references]).score
    else:
        tokenize = "zh" if language == "zh" else "13a"
        expected = sacrebleu.corpus_bleu(hypotheses, [references], tokenize=tokenize).score
    assert quality(model) == pytest.approx(expected, rel=1e-12)
    assert 20 < expected < 90


def test_a_missing_tokenizer_stops_a_training_before_anything_is_made(monkeypatch, tmp_path):
    monkeypatch.setattr(
        languages, "import_extra", lambda package, extra: import_extra("no_such_package", extra)
    )
    for split in ("train", "valid", "test"):
        for side in ("en", "ja"):
            (tmp_path / f"{split}.{side}").write_text("a b\n")
    job = Job(configure(
        "corpus=text", f"corpus.root={tmp_path}", "corpus.source_language=en",
        "corpus.target_language=ja", "nmt.training.stop=[bleu]", f"store={tmp_path}/store",
    ))  # fmt: skip
    with pytest.raises(XnmtError, match=r"cuts the words of ja: .* 'xnmt_bench\[asian\]'"):
        _ = job.system.path
    assert not list((tmp_path / "store").glob("*/*"))
