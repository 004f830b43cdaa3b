"""Concatenation models: segments, positions, loss, forced prefixes, and the whole chain on them."""

import csv
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from support.configurations import SIZES, SMALL, configure
from support.forked_commands import must_run
from xnmt_bench.corpora.passage import Context
from xnmt_bench.corpora.sentence import Sentence
from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit, encode
from xnmt_bench.corpora.vocabulary.subwords import (
    BOS,
    EOS,
    PAD,
    SEPARATOR,
    Tied,
    current_span,
    current_start,
)
from xnmt_bench.errors import XnmtError
from xnmt_bench.explainers.base import decide
from xnmt_bench.judges import RuleSet
from xnmt_bench.metrics.fidelity.hit import hit_at_k
from xnmt_bench.nmt import decoding
from xnmt_bench.nmt.batch import Batch, segments
from xnmt_bench.nmt.decoding import translate
from xnmt_bench.nmt.loading import build_model
from xnmt_bench.nmt.training import NMTTraining
from xnmt_bench.nmt.training_options import NMTTrainingOptions
from xnmt_bench.pipeline.job import Job
from xnmt_bench.registry import load_explainer
from xnmt_bench.words.pieces import count_through

# Longest pair of a batch of concatenations; a short training is enough for most of these tests.
TINY = ["corpus.train=800", "corpus.valid=60", "corpus.test=60", "rules.train_sentences=60",
        "nmt.training.max_epochs=2", "nmt.training.batch_tokens=2000", "nmt.beam=2"]  # fmt: skip


def changes(workplace, *options):
    return [*SMALL, *SIZES["transformer"], *TINY, f"store={workplace}/store", *options]


@pytest.fixture(scope="module")
def sentence_level(workplace):
    """The first of the two steps."""
    return Job(configure("nmt=transformer", *changes(workplace)))


@pytest.fixture(scope="module")
def concat(workplace, sentence_level):
    """The second step, with every option in use."""
    return Job(
        configure(
            "nmt=concat",
            *changes(workplace, f"nmt.initial={sentence_level.system.path}"),
            "nmt.sizes.position_shift=8",
            "nmt.training.context_discount=0.1",
            "explainer=prediction_difference",
        )
    )


# Ids ----------------------------------------------------------------------------------------


class Letters:
    """Stands for subwords: a letter is an id."""

    markers, in_front = frozenset(), ()

    def tie(self, text):
        return Tied([ord(letter) for letter in text], [0] * len(text))


class Documents:
    """Two documents."""

    name, marked, translated = "documents", False, True

    def sentences(self, split):
        for n, (text, document) in enumerate([("a", 0), ("b", 0), ("c", 0), ("d", 0), ("e", 1)]):
            yield Sentence(text, text.upper(), str(document), n)


@pytest.mark.parametrize(
    ("context", "source", "target"),
    [
        (Context(2), ["a", "a|b", "a|b|c", "b|c|d", "e"], ["A", "A|B", "A|B|C", "B|C|D", "E"]),
        (Context(1, target=False), ["a", "a|b", "b|c", "c|d", "e"], list("ABCDE")),
        (Context(0), list("abcde"), list("ABCDE")),
        (
            Context(1, following=2),
            ["a+b+c", "a|b+c+d", "b|c+d", "c|d", "e"],
            ["A", "A|B", "B|C", "C|D", "E"],
        ),
        (Context(following=1), ["a+b", "b+c", "c+d", "d", "e"], list("ABCDE")),
    ],
)
def test_the_same_document_stands_before_a_sentence(tmp_path, context, source, target):
    encode(Documents(), Letters(), Letters(), 9, tmp_path, context)
    split = EncodedSplit.open(tmp_path, "train")

    def texts(side):
        assert all(side[i][-1] == EOS for i in range(len(side)))
        symbols = {SEPARATOR: "|", EOS: "+"}
        return [
            "".join(symbols.get(i) or chr(i) for i in side[n][:-1].tolist())
            for n in range(len(side))
        ]

    assert texts(split.source) == source
    assert texts(split.target) == target


def test_segments_are_counted_from_one():
    ids = torch.tensor([[7, 8, SEPARATOR, 9, EOS], [7, EOS, PAD, PAD, PAD]])
    assert segments(ids).tolist() == [[1, 1, 2, 2, 2], [1, 1, 0, 0, 0]]
    batch = Batch(ids, ids)
    # A decoder's input begins with BOS, which is not a separator.
    assert batch.layout.input_BT.tolist() == [[1, 1, 1, 2, 2], [1, 1, 0, 0, 0]]
    assert batch.current_BT.tolist() == [[False] * 3 + [True] * 2, [True] * 2 + [False] * 3]
    assert [current_start(row) for row in ids.tolist()] == [3, 0]


def test_what_follows_is_a_segment_of_its_own():
    ids = torch.tensor([[7, SEPARATOR, 8, EOS, 9, 9, EOS], [7, EOS, 9, EOS, PAD, PAD, PAD]])
    assert segments(ids).tolist() == [[1, 2, 2, 2, 3, 3, 3], [1, 1, 2, 2, 0, 0, 0]]
    assert [current_span(row) for row in ids.tolist()] == [(2, 4), (0, 2)]


# The model ----------------------------------------------------------------------------------


def model_of(job, **sizes):
    torch.manual_seed(0)
    small = {"dimension": 32, "feed_forward": 32, "layers": 2, "heads": 2, "dropout": 0.0}
    model = build_model("transformer", small | sizes, *job.system.subwords)
    return model.double().eval().requires_grad_(False)


def test_shifted_positions_change_later_segments_only(sentence_level):
    plain, shifted = model_of(sentence_level), model_of(sentence_level, position_shift=9)
    sentence = torch.tensor([[11, 12, 13, EOS]])
    two = torch.tensor([[11, 12, SEPARATOR, 13, EOS]])
    torch.testing.assert_close(
        plain(Batch(sentence, sentence)), shifted(Batch(sentence, sentence)), rtol=0, atol=0
    )
    before, after = (m(Batch(sentence, two)) for m in (plain, shifted))
    torch.testing.assert_close(before[:, :3], after[:, :3], rtol=0, atol=0)
    assert not torch.allclose(before[:, 3:], after[:, 3:])
    # A shift of a segment is a gap of as many positions.
    gap = model_of(sentence_level)
    place = gap.place(torch.zeros(1, 14, 32).double(), torch.ones(1, 14))
    moved = shifted.place(torch.zeros(1, 5, 32).double(), torch.tensor([[1, 1, 2, 2, 2]]))
    torch.testing.assert_close(moved[0], place[0][[0, 1, 11, 12, 13]])


@pytest.mark.parametrize(
    "name", ["attention", "gradient_norm", "weighted_gradient", "prediction_difference"]
)
def test_a_concatenation_does_not_depend_on_its_batch(concat, name):
    split, explainer = concat.texts.split("test"), load_explainer(name)
    model = model_of(concat, position_shift=8)
    order = np.argsort(split.target.lengths())[::12].tolist()
    pairs = [(split.source[i], split.target[i]) for i in order]
    together, _ = decide(model, Batch.collate(pairs))
    batched = explainer.relevance(model, together)
    for row, pair in enumerate(pairs):
        alone, _ = decide(model, Batch.collate([pair]))
        relevance_alone = explainer.relevance(model, alone)
        s, t = alone.source_BS.shape[1], alone.target_BT.shape[1]
        for a, b in (
            (batched.source_BTS[row, :t, :s], relevance_alone.source_BTS[0]),
            (batched.prefix_BTT[row, :t, :t], relevance_alone.prefix_BTT[0]),
        ):
            torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10, equal_nan=True)


def test_self_attention_of_both_sides_is_readable(concat):
    model, split = concat.system.model, concat.texts.split("test")
    index = int(np.argmax(split.source.lengths()))
    batch = Batch.collate([(split.source[index], split.target[index]), (split.source[0],) * 2])
    source = model.embed_source(batch.source_BS)
    weights = model.encoder_attention(source, batch.layout)
    s = batch.source_BS.shape[1]
    assert weights.shape == (2, 2, 4, s, s)
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    assert weights[1, ..., ~batch.source_mask_BS[1]].abs().max() == 0
    # The context is attended to, from behind the separator.
    start = current_start(split.source[index])
    assert start > 0
    assert weights[0, :, :, start:s, :start].sum() > 0
    decoder = model.attention(
        model.encode(source, batch.layout), model.embed_target(batch.input_BT)
    )
    assert decoder.prefix_BLHTT.shape[-1] == batch.target_BT.shape[1]


def test_the_context_is_discounted_in_the_loss(sentence_level):
    model = model_of(sentence_level)
    split = sentence_level.texts.split("valid")
    target = torch.tensor([[11, SEPARATOR, 12, EOS], [13, EOS, PAD, PAD]])
    batch = Batch(torch.tensor([[11, EOS]] * 2), target)
    ce = F.cross_entropy(model(batch).transpose(1, 2), target, reduction="none")
    weight = torch.tensor([[0.25, 0.25, 1, 1], [1, 1, 0, 0]])
    expected = (weight * ce).sum() / weight.sum()
    only_current = (ce[0, 2:].sum() + ce[1, :2].sum()) / 4
    # The cross-entropy is computed in float32 for a model of any precision.
    for discount, loss in ((0.25, expected), (0.0, only_current), (1.0, ce[target != PAD].mean())):
        options = NMTTrainingOptions(label_smoothing=0.0, context_discount=discount)
        discounted = NMTTraining(model, split, split, options).training_step(batch, 0)
        assert float(discounted) == pytest.approx(float(loss), rel=1e-5)


# Two steps ----------------------------------------------------------------------------------


def test_training_starts_from_the_first_step(sentence_level, workplace):
    first = configure("nmt=transformer", *changes(workplace)).nmt.training.max_epochs
    assert first == 2
    again = Job(
        configure("nmt=concat", *changes(workplace), f"nmt.initial={sentence_level.system.path}",
                  "nmt.training.max_updates=1", "nmt.training.learning_rate=1e-12")
    )  # fmt: skip
    for initial_tensor, two in zip(
        sentence_level.system.model.parameters(), again.system.model.parameters(), strict=True
    ):
        torch.testing.assert_close(initial_tensor, two, rtol=0, atol=1e-6)
    assert again.system.subwords[0].path == sentence_level.system.path / "source.model"
    of_both = [job.texts.encoded["train"].fingerprint for job in (again, sentence_level)]
    assert of_both[0] != of_both[1]


def test_another_size_is_refused(sentence_level, workplace):
    initial = f"nmt.initial={sentence_level.system.path}"
    other = configure("nmt=concat", *changes(workplace), initial,
                      "nmt.sizes.dimension=32")  # fmt: skip
    with pytest.raises(XnmtError, match=r"nmt\.initial=.*: weight .* has shape .*, expected"):
        _ = Job(other).system.trained.artefact


# Translation --------------------------------------------------------------------------------


def test_a_forced_prefix_is_gone_on_from(concat):
    """Greedy search behind prefixes of unlike lengths is step-by-step argmax on each alone."""
    model, split = concat.system.model, concat.texts.split("test")
    sources = [split.source[i] for i in (3, 0, 9)]
    prefixes = [[20, 21, SEPARATOR], [], [22, 23, 24, 25, SEPARATOR]]
    outputs = translate(model, sources, beam=1, prefixes=prefixes)
    for source, prefix, output in zip(sources, prefixes, outputs, strict=True):
        ids: list[int] = []
        while len(ids) < len(output):
            target = torch.tensor([[*prefix, *ids, EOS]])
            logits = model(Batch(torch.as_tensor(source)[None].long(), target))[0, -1]
            logits[[PAD, BOS]] = -torch.inf
            ids.append(int(logits.argmax()))
        assert ids == output


@pytest.mark.parametrize("beam", [1, 2])
def test_the_limit_of_a_translation_is_that_of_the_current_sentence(concat, monkeypatch, beam):
    """A context may be many times as long as the sentence that is translated."""
    log_probability_of = decoding._log_probability

    def never_end(*asked):
        log_p_RV = log_probability_of(*asked)
        log_p_RV[:, EOS] = -torch.inf
        return log_p_RV

    monkeypatch.setattr(decoding, "_log_probability", never_end)
    sources = [[20, 21, 22, 23, SEPARATOR, 24, EOS], [25, 26, EOS], [25, EOS, 27, 28, 29]]
    outputs = translate(concat.system.model, sources, beam)
    assert [*map(len, outputs)] == [2 * 2 + 10, 2 * 3 + 10, 2 * 2 + 10]


def test_documents_are_translated_in_order_with_their_own_translations(
    concat, monkeypatch, tmp_path
):
    requests = []

    def spy(model, sources, beam, prefixes):
        requests.extend(zip(map(tuple, sources), prefixes, strict=True))
        return [[40 + len(ids), EOS] for ids in sources]

    monkeypatch.setattr("xnmt_bench.pipeline.outputs.translate", spy)
    split = concat.texts.split("test")
    concat.translations()._translate("test", len(split), tmp_path)
    prefix_of = dict(requests)
    assert len(requests) == len(split)
    for i in range(len(split)):
        source = tuple(split.source[i])
        depth = source.count(SEPARATOR)
        context = [[40 + len(split.source[j]), SEPARATOR] for j in range(i - depth, i)]
        assert prefix_of[source] == [t for y in context for t in y]


# The chain ----------------------------------------------------------------------------------


def test_following_sentences_are_read_and_are_no_words_of_the_current_one(workplace):
    options = ["nmt.context.sentences=1", "nmt.context.following=1", "nmt.training.max_updates=1",
            "rules.test_sentences=4"]  # fmt: skip
    small = [c for c in changes(workplace) if not c.startswith("nmt.training.max_epochs")]
    job = Job(configure("nmt=concat", *small, *options))
    split, (source, _), sentences = (
        job.texts.split("test"),
        job.texts.subwords,
        job.texts.sentences("test"),
    )
    index = next(
        n for n in range(4) if (split.source[n] == EOS).sum() == 2 and SEPARATOR in split.source[n]
    )
    ids, target = split.source[index], split.target[index]
    start, end = current_span(ids)
    words = split.source.current_words(index)
    assert {*words[:start], *words[end:]} == {-1}
    assert max(words) + 1 == len(sentences[index].source.split())
    assert source.decode(ids[end:].tolist()) == sentences[index + 1].source
    sizes = [len(sentences[n].source.split()) for n in (index - 1, index)]
    counted = count_through(ids, split.source.words(index), sizes)
    # By the marks of pieces: each begins a word or goes on.
    begins = [piece.startswith("▁") for piece in source.pieces(ids[:end].tolist())]
    expected = np.where(np.isin(ids[:end], (SEPARATOR, EOS)), -1, np.cumsum(begins) - 1)
    assert counted[:end].tolist() == expected.tolist()
    assert set(counted[end:]) == {-1}
    model, other = job.system.model, ids.copy()
    other[end:-1] = ids[end:-1][::-1]
    logits = [model(Batch.collate([(x, target)])) for x in (ids, other)]
    assert not torch.allclose(*logits)
    relevance = list(job.relevance())
    words_read = [explained.source_TS.shape[1] for explained in relevance]
    assert words_read == split.source.lengths()[:4].tolist()


def test_attention_to_following_sentences_leaves_no_shares(workplace):
    """Of the current sentence's columns alone a row sums to less than 1."""
    options = ["nmt.context.sentences=0", "nmt.context.following=1", "nmt.training.max_updates=1",
               "explainer=attention", "rules.test_sentences=4"]  # fmt: skip
    small = [c for c in changes(workplace) if not c.startswith("nmt.training.max_epochs")]
    weighed = Job(configure("nmt=concat", *small, *options)).weighed_sentences()
    assert not weighed.shares
    assert any(sentence.weights_TS.sum(1).min() < 0.999 for sentence in weighed)


def test_only_the_current_sentence_is_decided(concat):
    split, rules = concat.texts.split("test"), RuleSet(concat).test
    for i in range(len(split)):
        sentence_rules = rules.take(rules.sentence_N == split.number[i])
        start, end = current_start(split.target[i]), len(split.target[i])
        assert sentence_rules.step_N.tolist() == list(range(start, end))
    depths = [int((split.target[i] == SEPARATOR).sum()) for i in range(len(split))]
    assert max(depths) == 3
    # Words of a rule may stand in the context; separators are not words.
    words = rules.source_NK[rules.source_NK >= 0]
    assert not np.isin(words, [PAD, BOS, EOS]).any()


def test_gold_words_are_those_of_the_current_sentence(concat):
    """An explainer that names a deciding source word scores 100 %, behind a context too."""
    split = concat.texts.split("test")
    rules = RuleSet(concat).test
    gold = concat.texts.gold("test")
    positions = np.full_like(rules.source_position_NK, -1)
    for row in range(len(rules)):
        index = int(np.searchsorted(split.number, rules.sentence_N[row]))
        word = split.target.current_words(index)[rules.step_N[row]]
        deciding_words = gold[int(rules.sentence_N[row])].deciding_source[word] if word >= 0 else ()
        if deciding_words:
            words = split.source.current_words(index).tolist()
            positions[row, 0] = words.index(min(deciding_words))
    named = replace(rules, source_position_NK=positions)
    sentences = list(concat.corpus.sentences("test"))
    hits, counted, *_ = hit_at_k(sentences, split, named).sum(0)
    assert hits == counted > 0


@pytest.mark.slow
def test_both_metrics_run_on_it_from_the_command_line(concat, workplace, tmp_path):
    options = ["nmt=concat", *changes(workplace), f"nmt.initial={concat.settings.nmt.initial}",
             "nmt.sizes.position_shift=8", "nmt.training.context_discount=0.1",
             "metric=[fidelity,aer]", "proxy=fn", f"results={tmp_path}/results",
             f"hydra.run.dir={tmp_path}/run"]  # fmt: skip
    must_run("train.py", *options, "explainer=prediction_difference")
    must_run("evaluate.py", *options)
    with (tmp_path / "results" / "aer.csv").open() as file:
        rows = {row["explainer"]: row for row in csv.DictReader(file)}
    assert 0 <= float(rows["prediction_difference"]["aer"]) <= 1
