"""Context use against a slow loop, against scores of targets, and of a system without a context."""

from dataclasses import replace

import numpy as np
import pytest

from support.systems import double
from xnmt_bench.corpora.passage import ALONE, Context, Passage
from xnmt_bench.corpora.sentence import Gold, Mention, Sentence
from xnmt_bench.corpora.suites.context.documents import (
    CONTENT,
    FUNCTION,
    MENTIONED,
    _mentioned,
    read_documents,
)
from xnmt_bench.corpora.suites.context.example import Example, ExampleSet
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.bootstrap import Draws, score
from xnmt_bench.measuring.measurement import write
from xnmt_bench.metrics.context_use import ContextUse
from xnmt_bench.metrics.context_use.metric import ALL, sum_by_unit
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.context_change import compare_contexts
from xnmt_bench.pipeline import context_changes
from xnmt_bench.pipeline.context_changes import (
    NONE,
    RANDOM,
    RANDOM_SOURCE,
    RANDOM_TARGET,
    Comparison,
    _ContextPool,
    _contexts,
    list_comparisons,
)
from xnmt_bench.pipeline.decision_table import load_decisions

DOCUMENT = ("the dog sleeps .", "der Hund schläft ."), ("it is old .", "er ist alt .")


def in_context(job, sentences, target=True):
    """The job, whose system reads a context that it was not trained with."""
    changed = job.changed({"nmt": {"context": {"sentences": sentences, "target": target}}})
    changed.system.use(job.system.model)
    return changed


def rows_of(metric, job):
    """The units of each row, by part, sentences of context and what they are compared with."""
    rows = {}
    for planned in metric.measure(job):
        where = tuple(planned.keys[name] for name in ("part", "sentences", "against"))
        rows[where] = planned.make()
    return rows


def test_changes_are_those_of_a_loop_in_double(transformer):
    """One context and one step at a time, by plain sums over the vocabulary."""
    model = double(transformer.system.model)
    source, target = model.vocabularies
    alone = Passage(*DOCUMENT[1])
    passages = [alone, replace(alone, source_context=("the dog sleeps .",)),
                Passage(*DOCUMENT[1], *[(text,) for text in DOCUMENT[0]])]  # fmt: skip
    contexts = [passage.encode(source, target) for passage in passages]
    pairs = [(1, 0), (2, 0), (2, 1), (0, 0)]
    changes = compare_contexts(model, contexts, pairs)
    steps = len(target.encode(DOCUMENT[1][1])) + 1
    assert changes.kl_KT.shape == (len(pairs), steps)

    def distributions(ids):
        batch = Batch.collate([ids])
        p_TV = model(batch).softmax(-1)[0, -steps:]
        return p_TV.tolist(), batch.target_BT[0, -steps:].tolist()

    for k, (first, second) in enumerate(pairs):
        (p_TV, labels), (q_TV, same) = (distributions(contexts[n]) for n in (first, second))
        assert labels == same
        for t, (p, q, label) in enumerate(zip(p_TV, q_TV, labels, strict=True)):
            kl = sum(x * (np.log(x) - np.log(y)) for x, y in zip(p, q, strict=True))
            assert changes.kl_KT[k, t] == pytest.approx(kl, rel=1e-9, abs=1e-12)
            ratio = np.log(p[label]) - np.log(q[label])
            assert changes.log_ratio_KT[k, t] == pytest.approx(ratio, rel=1e-9, abs=1e-12)
            assert changes.changed_KT[k, t] == (np.argmax(p) != np.argmax(q))
            assert changes.right_KT[k, t] == (np.argmax(p) == label)
    assert (changes.log_ratio_KT[3] == 0).all() and (changes.kl_KT[3] == 0).all()


def test_a_system_without_a_context_has_exactly_0(transformer, tmp_path):
    metric = ContextUse(sentences=30)
    scored = []
    for planned in metric.measure(transformer):
        assert planned.keys["sentences"] == 0
        measurement = write(metric.name, planned.identify(), planned.make(), tmp_path)
        scored.append(score(metric, measurement, Draws(5, 0)))
    assert {(s.row["part"], s.row["against"]) for s in scored} == {
        (part, NONE) for part in (ALL, FUNCTION, CONTENT, MENTIONED)
    }
    for row in scored:
        names = ("p_cxmi", "kl", "changed", "helped", "p_cxmi_low", "p_cxmi_high")
        assert [row.values[name] for name in names] == [0.0] * 6
    assert metric.notes(scored) == ["transformer reads no context, so a context changes nothing."]


def test_cxmi_is_the_difference_of_scores_of_targets(transformer):
    """`job.log_probability` batches, encodes and sums in its own way."""
    job = in_context(transformer, 2)
    examples = read_documents(job.corpus).examples[:12]
    rows = rows_of(ContextUse(sentences=12, samples=1), job)
    passages = [example.passage for example in examples]
    bare = [replace(p, source_context=(), target_context=()) for p in passages]
    expected = job.log_probability(passages) - job.log_probability(bare)
    units = rows[ALL, 2, NONE].units
    assert units.number_U.tolist() == [example.unit for example in examples]
    np.testing.assert_allclose(units["sentence_log_ratio"], expected, rtol=1e-4, atol=1e-5)
    near = rows[ALL, 1, NONE].units["sentence_log_ratio"]
    one = [replace(p, source_context=p.source_context[-1:], target_context=p.target_context[-1:])
           for p in passages]  # fmt: skip
    expected = job.log_probability(one) - job.log_probability(bare)
    np.testing.assert_allclose(near, expected, rtol=1e-4, atol=1e-5)
    # Of words all but EOS; function and content words are all of them.
    parts = [rows[part, 2, NONE].units["log_ratio"].sum() for part in (ALL, FUNCTION, CONTENT)]
    assert parts[0] == pytest.approx(parts[1] + parts[2])
    words = sum(len(p.target.split()) for p in passages)
    assert units["words"].sum() == words
    assert {against for _, _, against in rows} == {NONE, RANDOM, RANDOM_SOURCE, RANDOM_TARGET}


def test_samples_are_averaged_and_other_draws_are_other_rows(transformer):
    job = in_context(transformer, 1, target=False)
    rows = [rows_of(ContextUse(sentences=6, samples=s, draws=d), job) for s, d in ((2, 0), (2, 1))]
    first, second = (row[ALL, 1, RANDOM] for row in rows)
    assert first.settings["random contexts"] != second.settings["random contexts"]
    assert not np.allclose(first.units["kl"], second.units["kl"])
    assert first.units["words"].tolist() == second.units["words"].tolist()
    assert (ALL, 1, RANDOM_SOURCE) not in rows[0], "it reads the source's context only"
    # To rounding: other random contexts make other batches.
    first_alike, second_alike = (row[ALL, 1, NONE].units for row in rows)
    assert set(first_alike.columns) == set(second_alike.columns)
    for name in first_alike.columns:
        np.testing.assert_allclose(first_alike[name], second_alike[name], rtol=1e-5, atol=1e-6)
    examples = replace(read_documents(job.corpus), examples=read_documents(job.corpus).examples[:6])
    comparisons = list_comparisons(job.system.context, 2)
    table = context_changes.store_context_changes(job, examples, comparisons, 0)
    columns, of_draws = load_decisions(table), []
    for chosen in ([1], [2]):
        of_draws.append(sum_by_unit(examples, columns, chosen, ALL)[1]["kl"])
    np.testing.assert_allclose(first.units["kl"], np.mean(of_draws, axis=0))


def passage(number, sentences=2):
    texts = [(f"source {number} {n}", f"target {number} {n}") for n in range(sentences + 1)]
    before = [tuple(side) for side in zip(*texts[:-1], strict=True)]
    return Passage(*texts[-1], *before)


def test_random_contexts_are_of_other_documents():
    examples = [Example(n, n // 2, passage(n)) for n in range(20)]
    pool = _ContextPool(ExampleSet("made", "en-de", examples), seed=3)
    for number, example in enumerate(examples):
        contexts = [pool.draw(number, draw) for draw in range(5)]
        for pairs in contexts:
            assert len({*pairs}) == 2
            for source, target in pairs:
                document = int(source.split()[1]) // 2
                assert document != example.document
                assert target == source.replace("source", "target")
        assert len({tuple(pairs) for pairs in contexts}) > 1
        assert contexts == [pool.draw(number, draw) for draw in range(5)]
    few = _ContextPool(ExampleSet("made", "en-de", examples[:2]), seed=3)
    with pytest.raises(NotApplicable, match="too few sentences of other documents"):
        few.draw(0, 0)


def test_what_a_context_is_compared_with():
    examples = [Example(n, n, passage(n)) for n in range(4)]
    pool, reads = _ContextPool(ExampleSet("made", "en-de", examples), 0), Context(2)
    own = examples[0].passage
    for against, source, target in (
        (NONE, False, False),
        (RANDOM, False, False),
        (RANDOM_SOURCE, False, True),
        (RANDOM_TARGET, True, False),
    ):
        whole, other = _contexts(0, Comparison(2, against), reads, pool)
        assert whole == own
        assert (other.source_context == own.source_context) == source
        assert (other.target_context == own.target_context) == target
        assert (other.source, other.target) == (own.source, own.target)
    assert _contexts(0, Comparison(1), reads, pool)[0].source_context == own.source_context[-1:]
    # A random context stands in the place of sentences before the current one.
    for context in (ALONE, Context(0, following=1)):
        assert list_comparisons(context, 1) == [Comparison(0)]


def test_sides_with_unlike_numbers_of_context_sentences():
    """The nearest of both are pairs; of the source alone as many are random as are read."""
    passages = [passage(n) for n in range(4)]
    passages[0] = replace(passages[0], target_context=passages[0].target_context[1:])
    examples = [Example(n, n, passage) for n, passage in enumerate(passages)]
    pool = _ContextPool(ExampleSet("made", "en-de", examples), 0)
    for context in (Context(2), Context(2, target=False)):
        read, other = _contexts(0, Comparison(2, RANDOM), context, pool)
        assert read == passages[0].read(context)
        for side in ("source_context", "target_context"):
            own, drawn = getattr(read, side), getattr(other, side)
            assert len(own) == len(drawn) and not {*own} & {*drawn}


def test_passages_that_the_system_cannot_read_are_left_out(transformer):
    job = in_context(transformer, 1)
    model = job.system.model
    passages = [e.passage.read(Context(1)) for e in read_documents(job.corpus).examples[:8]]
    longest = max(len(p.encode(*job.system.subwords)[1]) for p in passages)
    before = model.longest_target
    try:
        model.longest_target = longest - 1
        evidence = rows_of(ContextUse(sentences=8, samples=1, draws=7), job)[ALL, 1, NONE]
    finally:
        model.longest_target = before
    assert evidence.facts["left_out"] == 8 - len(evidence.units) > 0


def test_mentions_are_those_of_chains_that_the_context_mentions(transformer):
    examples = read_documents(transformer.corpus)
    sentences = list(transformer.corpus.sentences("test"))
    tagged = 0
    for example in examples.examples:
        gold = sentences[example.unit].gold
        before = sentences[example.unit - len(example.passage.source_context) : example.unit]
        chains = {mention.chain for s in before for mention in s.gold.target_mentions}
        for mention in gold.target_mentions:
            inside = set(mention.words) <= example.tags[MENTIONED]
            assert inside or mention.chain not in chains
            tagged += inside
    assert tagged


def test_a_chain_of_the_source_is_not_taken_for_one_of_the_target():
    """ParCorFull numbers the chains of each language on its own."""
    mentions = (Mention("set_3", (0,)),)
    before = Sentence("She left", "Sie ging", "d", 0, Gold(source_mentions=mentions))
    now = Sentence("It rained", "Es regnete", "d", 1, Gold(target_mentions=mentions))
    assert not _mentioned(now, (before,))[MENTIONED]
