"""Fine-tuning for coreference (Yehudai et al. 2023, section 4): examples, markers, updates."""

import json
from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from support.configurations import configure
from xnmt_bench.corpora.passage import Passage
from xnmt_bench.corpora.sentence import Sentence
from xnmt_bench.corpora.toy.coreference import ToyCoreference, link_far_words
from xnmt_bench.corpora.vocabulary.encoded import EncodedSide, EncodedSplit, encode
from xnmt_bench.corpora.vocabulary.subwords import (
    EOS,
    MARKER,
    WORDS,
    SentencePiece,
    marker_symbols,
    train_subwords,
)
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.judges import rule_set
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.metrics.quality import Quality
from xnmt_bench.nmt.batching import PairBatches, equal_batches
from xnmt_bench.nmt.loading import load_model
from xnmt_bench.nmt.scoring import log_probability
from xnmt_bench.nmt.training import smoothed_cross_entropy
from xnmt_bench.nmt.vocabulary import fit_vocabularies
from xnmt_bench.pipeline.clusters import StoredClusters
from xnmt_bench.pipeline.job import Job
from xnmt_bench.registry import create
from xnmt_bench.resolvers.base import Resolver
from xnmt_bench.resolvers.markers import MarkedCorpus
from xnmt_bench.store import Store
from xnmt_bench.words import Weighed
from xnmt_bench.words.weighed import Tokens

SMALL = [
    "corpus=toy_coreference", "corpus.train=300", "corpus.valid=20", "corpus.test=20",
    "corpus.suite=20", "corpus.far=0.1", "nmt=transformer", "nmt.sizes.dimension=16",
    "nmt.sizes.feed_forward=16", "nmt.sizes.layers=1", "nmt.sizes.heads=2", "nmt.beam=1",
    "trainer.progress_bar=false", "device=cpu", "threads=1", "nmt.coreference.resolver=gold",
]  # fmt: skip
TUNED = ["nmt.training.max_updates=3", "nmt.training.batch_sentences=8"]
MARKED = "the <ENT1> guard </ENT1> <ENT2> sleeps </ENT2> because <ENT1> he </ENT1> is tired ."
PLAIN = "the guard sleeps because he is tired ."


@pytest.fixture(scope="module")
def initial(workplace):
    """A small system that fine-tuning starts from."""
    return Job(configure(*SMALL, "nmt.training.max_epochs=1", f"store={workplace}/store"))


def tuned(initial, examples, markers, *changes):
    cell = [f"nmt.training.examples={examples}", f"nmt.training.markers={markers}"]
    start = [f"nmt.initial={initial.system.path}", f"store={initial.settings.store}"]
    return Job(configure(*SMALL, *TUNED, *start, *cell, *changes))


@pytest.fixture(scope="module")
def marked(initial):
    """The system that learns from gender examples with markers."""
    return tuned(initial, "gender", "inline")


# Markers in a vocabulary -----------------------------------------------------------------------


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def vocabulary(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("subwords") / "a.model"
    texts = [s.source for s in ToyCoreference(train=200).sentences("train")]
    train_subwords(texts, path, request.param, 120)
    return SentencePiece(path), SentencePiece(path, 8)


def test_markers_are_whole_symbols_and_no_other_piece_changes(vocabulary):
    plain, with_markers = vocabulary
    assert len(with_markers) == len(plain) + 16
    for text in (MARKED, "<ENT1> a </ENT1> <ENT1> b </ENT1>", "  <ENT8>  the   guard </ENT8> "):
        pieces = with_markers.pieces(with_markers.encode(text))
        words = [word for word in text.split() if not MARKER.fullmatch(word)]
        expected = plain.pieces(plain.encode(" ".join(words)))
        assert [piece for piece in pieces if not MARKER.fullmatch(piece)] == expected
        assert [p for p in pieces if MARKER.fullmatch(p)] == MARKER.findall(text)
    assert with_markers.encode(PLAIN) == plain.encode(PLAIN)


def test_a_marker_is_a_piece_of_no_word(vocabulary):
    plain, with_markers = vocabulary
    ids = with_markers.encode(MARKED)
    words = with_markers.words(ids)
    assert [word for word in words if word >= 0] == plain.words(plain.encode(PLAIN))
    assert {words[n] for n, i in enumerate(ids) if i in with_markers.markers} == {-1}
    assert with_markers.decode(ids) == plain.decode(plain.encode(PLAIN))
    assert plain.fingerprint != with_markers.fingerprint


def test_markers_stand_alone_in_the_sentence_in_words():
    source = Tokens(("▁the", "<ENT1>", "▁gu", "ard", "</ENT1>", "</s>"), (0, -1, 1, 1, -1, -1), "")
    weights_TS = np.arange(12.0).reshape(2, 6)
    target = Tokens(("▁die", "</s>"), (0, -1), "die")
    in_words = Weighed(0, source, target, weights_TS).whole()
    assert in_words.source.pieces == ("the", "<ENT1>", "guard", "</ENT1>", "</s>")
    assert in_words.source.words == (0, -1, 1, -1, -1)
    assert in_words.source.text == "the guard"
    np.testing.assert_allclose(in_words.weights_TS, [[0, 1, 5, 4, 5], [6, 7, 17, 10, 11]])


# Which pairs a batch has -----------------------------------------------------------------------


def split_of(source, target):
    rows = [[WORDS] * n for n in source], [[WORDS] * n for n in target]
    return EncodedSplit(*map(EncodedSide.of, rows), np.arange(len(source)))


def test_batches_of_so_many_pairs_are_the_same_with_and_without_markers():
    rng = np.random.default_rng(0)
    target = rng.integers(2, 12, 103)
    sources = target + 1, target + 1 + 4 * rng.integers(0, 3, 103)
    batches = [PairBatches(split_of(s, target), 1, 5, 2, rows=8).indices for s in sources]
    for first, second in zip(*batches, strict=True):
        np.testing.assert_array_equal(first, second)
    assert sorted(np.concatenate(batches[0])) == list(range(103))
    assert sorted(map(len, batches[0])) == [7, *[8] * 12]


def test_pairs_of_like_length_share_a_batch():
    lengths = np.array([9, 1, 8, 2, 7, 3])
    batches = equal_batches(lengths, np.arange(6), 2)
    assert [lengths[b].tolist() for b in batches] == [[1, 2], [3, 7], [8, 9]]


def test_sentences_that_markers_lengthen_are_kept(tmp_path, vocabulary):
    plain, with_markers = vocabulary
    corpus = ToyCoreference(train=60, valid=5, test=5, far=0.5)
    longest = 12
    counts = []
    for number, (read, source) in enumerate(
        ((corpus, plain), (MarkedCorpus(corpus, create("resolvers", "gold")), with_markers))
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        counts.append(encode(read, source, plain, longest, folder))
    assert counts[0] == counts[1]
    assert counts[0]["train"]["too_long"] > 0


# Weights ---------------------------------------------------------------------------------------


def test_rows_of_shared_pieces_are_kept_and_new_ones_are_means(vocabulary):
    plain, with_markers = vocabulary
    weights = {
        "source_embedding.weight": torch.randn(len(plain), 3),
        "encoder.weight": torch.randn(len(plain), 3),
    }
    fitted = fit_vocabularies(weights, (plain, plain), (with_markers, plain))
    rows = fitted["source_embedding.weight"]
    assert torch.equal(rows[: len(plain)], weights["source_embedding.weight"])
    mean = weights["source_embedding.weight"][WORDS:].mean(0)
    torch.testing.assert_close(rows[len(plain) :], mean.expand(16, 3))
    assert fitted["encoder.weight"] is weights["encoder.weight"]


def test_training_begins_with_the_initial_systems_numbers(initial, marked):
    """With no learning rate to speak of, sentences without markers have the same distributions."""
    still = tuned(initial, "all", "inline", "nmt.training.learning_rate=1e-12")
    before, after = initial.system.model, still.system.model
    source, target = before.vocabularies
    pair = ([*source.encode(PLAIN), EOS], [*target.encode("die"), EOS])
    logits = [model(model.collate([pair])) for model in (before, after)]
    torch.testing.assert_close(*logits, rtol=0, atol=1e-5)
    assert len(after.source_subwords) == len(before.source_subwords) + 16
    assert len(after.target_subwords) == len(before.target_subwords)


def test_smoothing_leaves_impossible_words_out():
    logits = torch.randn(5, 7, requires_grad=True)
    holed = logits.clone()
    holed[:, [2, 4]] = -torch.inf
    labels = torch.tensor([0, 1, 3, 5, 6])
    places = torch.tensor([0, 1, 2, 3, 4])
    expected = F.cross_entropy(logits[:, [0, 1, 3, 5, 6]], places, label_smoothing=0.1)
    loss = smoothed_cross_entropy(holed, labels, 0.1, "mean")
    torch.testing.assert_close(loss, expected)
    [gradient] = torch.autograd.grad(loss, logits)
    assert gradient.isfinite().all()
    loss_BT = smoothed_cross_entropy(logits, labels, 0.1, "none")
    expected = F.cross_entropy(logits, labels, label_smoothing=0.1, reduction="none")
    assert torch.equal(loss_BT, expected)


def test_all_cells_take_the_same_updates_and_none_is_capped(initial):
    names = set()
    for examples, markers in product(("all", "coref", "gender"), ("none", "inline")):
        job = tuned(initial, examples, markers)
        facts = job.system.trained.facts
        assert not facts["capped"]
        names.add(job.system.name)
    assert names == {
        "transformer on all", "transformer on coref", "transformer on gender",
        *(f"transformer on {e} with predicted markers" for e in ("all", "coref", "gender")),
    }  # fmt: skip


def test_examples_are_fewer_and_markers_do_not_change_their_number(initial):
    counts = {
        (examples, markers): tuned(initial, examples, markers).system.trained.facts[
            "train_sentences"
        ]
        for examples, markers in product(("all", "coref", "gender"), ("none", "inline"))
    }
    assert counts["all", "none"] == 300 > counts["coref", "none"] > counts["gender", "none"] > 0
    for examples in ("all", "coref", "gender"):
        assert counts[examples, "none"] == counts[examples, "inline"]


def test_a_system_knows_its_replicates_and_where_it_started(initial):
    cell = ["nmt.training.max_epochs=1", f"store={initial.settings.store}"]
    other_facts = {
        name: Job(configure(*SMALL, *cell, *change))
        for name, change in {
            "replicate": ["nmt.seed=1"],
            "wider": ["nmt.sizes.feed_forward=24"],
        }.items()
    }
    family = initial.system.lineage["family"]
    assert initial.system.lineage == {"family": family, "seed": 0, "initial": None}
    assert other_facts["replicate"].system.lineage == {"family": family, "seed": 1, "initial": None}
    assert other_facts["wider"].system.lineage["family"] != family
    # Each of two replicates starts from its own, and both still count as replicates.
    first, second = (tuned(start, "gender", "none", f"nmt.seed={seed}")
                     for seed, start in enumerate((initial, other_facts["replicate"])))  # fmt: skip
    assert first.system.lineage["initial"] == initial.system.fingerprint
    assert second.system.lineage["initial"] == other_facts["replicate"].system.fingerprint
    assert first.system.lineage["family"] == second.system.lineage["family"] != family
    # A folder says the same as the configuration that trained it.
    opened = Job(configure(*SMALL, f"nmt.path={first.system.path}", cell[1]))
    assert opened.system.lineage == first.system.lineage


# Reading ---------------------------------------------------------------------------------------


def test_predicted_gold_and_no_markers_are_read_by_one_system(initial, marked):
    read = {
        how: tuned(initial, "gender", "inline", f"nmt.coreference.read={how}")
        for how in ("predicted", "gold", "none")
    }
    paths = {job.system.path for job in read.values()}
    assert paths == {marked.system.path}
    sources = {how: job.texts.split("test").source for how, job in read.items()}
    markers = marked.system.subwords[0].markers
    marked_sentences = {
        how: sum(bool(markers & set(side[n].tolist())) for n in range(len(side)))
        for how, side in sources.items()
    }
    # The resolver of this test is `gold`, so both find the same.
    assert marked_sentences["gold"] == marked_sentences["predicted"] > 0
    assert marked_sentences["none"] == 0
    assert read["gold"].system.name == "transformer on gender with gold markers"
    assert read["none"].system.name == "transformer on gender with markers, reading none"
    assert {job.outputs().test_set for job in read.values()} == {initial.outputs().test_set}


def test_a_slow_resolver_reads_each_training_sentence_once(tmp_path):
    class Counting(Resolver):
        fingerprint, slow, read = "counting", True, 0

        def resolve(self, sentences):
            for sentence in sentences:
                self.read += 1
                words = sentence.source.split()
                yield (((0, 0), (len(words) - 1, len(words) - 1)),) if len(words) % 2 else ()

    corpus, resolver = ToyCoreference(train=40, valid=5, test=5), Counting()
    expected = [list(Counting().resolve(corpus.sentences(split))) for split in ("train", "test")]
    for _ in range(2):
        stored = StoredClusters(Store(tmp_path), corpus, resolver)
        assert list(stored.resolve(corpus.sentences("train"))) == expected[0]
    assert resolver.read == 40
    # Sentences of other splits stand among stored ones, in their order.
    mixed = [s for pair in zip(corpus.sentences("test"), corpus.sentences("train"), strict=False)
             for s in pair]  # fmt: skip
    assert list(stored.resolve(mixed)) == list(Counting().resolve(mixed))
    assert resolver.read == 45


def test_a_saved_system_knows_its_markers(marked):
    model = load_model(marked.system.path)
    assert model.source_subwords.clusters == 8
    assert not model.target_subwords.markers
    description = json.loads((marked.system.path / "model.json").read_text())
    assert description["marked_clusters"] == 8
    opened = Job(configure("nmt=transformer", *SMALL[:6], f"nmt.path={marked.system.path}",
                           "nmt.coreference.resolver=gold", f"store={marked.settings.store}",
                           "device=cpu", "nmt.beam=1", "trainer.progress_bar=false"))  # fmt: skip
    assert opened.outputs().texts == marked.outputs().texts
    # Rows of an opened system say whose markers it reads; its weights and its name do not.
    default = Job(configure("nmt=transformer", *SMALL[:6], f"nmt.path={marked.system.path}",
                            f"store={marked.settings.store}", "device=cpu"))  # fmt: skip
    [by_gold, by_default, trained_here] = (
        next(Quality().measure(job)).identify() for job in (opened, default, marked)
    )
    assert by_gold.columns == by_default.columns
    assert by_gold.settings["markers of"].startswith("gold (")
    assert by_default.settings["markers of"].startswith("learnt (")
    assert not trained_here.settings
    # Beside the metric's own settings.
    [base, *_] = Fidelity().measure(opened)
    assert base.identify().settings.keys() > by_gold.settings.keys()


def test_explaining_a_sentence_marks_it(marked):
    """Bare text has no annotation, so the resolver is one that reads text."""
    job = Job(configure("nmt=transformer", *SMALL[:6], f"nmt.path={marked.system.path}",
                        f"store={marked.settings.store}", "device=cpu"))  # fmt: skip
    text = "John sold the car because he needed money ."
    marked_text = job.system.markers.mark(text)
    assert marked_text.count("<ENT1>") == marked_text.count("</ENT1>") == 2
    [explanation] = create("explainers", "attention")(job.system.model, [(marked_text, "er ist")])
    assert explanation.source_tokens.count("<ENT1>") == 2
    with pytest.raises(XnmtError, match="the text holds a marker"):
        job.system.markers.mark("<ENT1> John </ENT1> sleeps .")


def test_pairs_are_scored_with_the_markers_that_are_read(marked):
    def job(*changes):
        path = f"nmt.path={marked.system.path}"
        store = f"store={marked.settings.store}"
        return Job(configure("nmt=transformer", *SMALL[:6], path, store, "device=cpu", *changes))

    text = "John sold the car because he needed money ."
    context = Passage(text, "er ist", (text,))
    reading, bare = job(), job("nmt.coreference.read=none")
    marked_text = reading.system.markers.mark(text)
    [marked_passage] = reading.system.markers.mark_passages([context])
    assert marked_passage.source_context == (marked_text,)
    expected, _ = log_probability(
        reading.system.model,
        [Passage(t, "er ist").encode(*reading.system.subwords) for t in (marked_text, text)],
        batch_tokens=500,
    )
    assert expected[0] != expected[1]
    assert reading.log_probability([(text, "er ist")]) == pytest.approx(expected[:1])
    assert bare.log_probability([(text, "er ist")]) == pytest.approx(expected[1:])
    with pytest.raises(NotApplicable, match="these texts have no annotated coreference"):
        job("nmt.coreference.read=gold").log_probability([(text, "er ist")])


# The corpus ------------------------------------------------------------------------------------


def test_the_pronoun_follows_its_noun_and_nothing_else():
    corpus = ToyCoreference(train=500, suite=120)
    suite = corpus.suite()
    genders = {"er": set(), "sie": set(), "es": set()}
    english = {"er": set(), "sie": set(), "es": set()}
    trained = {(s.source, s.target) for s in corpus.sentences("train")}
    for sentence, item in zip(suite.sentences, suite.items, strict=True):
        words = sentence.source.split()
        assert words[item.pronoun] in ("he", "she")
        genders[item.expected].add(words[item.entity.words[0]])
        english[item.expected].add(words[item.pronoun])
        assert (sentence.source, sentence.target) not in trained
        start, *_ = item.other.words
        assert words[start - 1] == "the"
        # Links by rule are the gold ones, as far as they go.
        links = link_far_words(sentence.source, sentence.target)
        assert {(i, j) for i, j in links if i in (item.pronoun, *item.entity.words, start)} <= (
            sentence.gold.sure
        )
        assert {i for i, _ in links} >= {item.pronoun, *item.entity.words, start}
    # A noun has one pronoun, and each pronoun stands for he and for she.
    assert not genders["er"] & genders["sie"] and not genders["sie"] & genders["es"]
    assert all(forms == {"he", "she"} for forms in english.values())


def test_a_new_version_of_the_toy_corpus_is_one_of_this_corpus(monkeypatch):
    """Its documents hold the toy corpus's own sentences too."""
    before = ToyCoreference().recipe()
    monkeypatch.setattr("xnmt_bench.corpora.toy.sentences.VERSION", 99)
    assert ToyCoreference().recipe() != before


def test_a_translation_that_lacks_a_clause_lacks_its_links():
    source = "the guard sleeps and the bridge is old because he is tired ."
    assert link_far_words(source, "") == frozenset()
    assert link_far_words(source, "die Wache schläft") == {(0, 0), (1, 1)}
    assert link_far_words(source, "die Wache schläft weil") == {(0, 0), (1, 1)}


# Bad input -------------------------------------------------------------------------------------


def test_markers_in_a_text_for_a_system_without_them(tmp_path, vocabulary):
    class Raw(ToyCoreference):
        def sentences(self, split):
            yield Sentence("the <ENT1> guard </ENT1> sleeps", "die Wache", "d", 0)

    with pytest.raises(XnmtError, match="train, sentence 1: the text holds a marker: <ENT1>"):
        encode(Raw(), vocabulary[0], vocabulary[0], 50, tmp_path)


def test_a_training_split_without_clusters(initial, tmp_path):
    none = tuned(initial, "coref", "none", "nmt.coreference.resolver=file",
                 f"nmt.coreference.path={tmp_path}/none.jsonl")  # fmt: skip
    [first, *_] = ToyCoreference(train=1).sentences("train")
    line = {"tokens": first.source.split(), "clusters": []}
    (tmp_path / "none.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(XnmtError, match="the training split has no coref example"):
        _ = none.system.trained.artefact


def test_marker_symbols():
    assert marker_symbols(2) == ["<ENT1>", "</ENT1>", "<ENT2>", "</ENT2>"]


def test_proxies_learn_few_pieces_of_a_vocabulary_that_training_starts_from(initial, monkeypatch):
    monkeypatch.setattr(rule_set, "WIDEST", 10)
    job = tuned(initial, "all", "none", "explainer=random")
    assert rule_set.RuleSet(job).wide == (True, True)
    # A plan makes no vocabulary to count the pieces of it.
    assert rule_set.RuleSet(initial).wide == (False, False)
