"""Cues by a system: contexts, relevance of their words, and rows of known explanations."""

from dataclasses import replace

import numpy as np
import pytest

from support.configurations import configure, overrides
from xnmt_bench.corpora.marked import MarkedWords
from xnmt_bench.corpora.suites.context.example import SENSITIVE
from xnmt_bench.corpora.vocabulary.subwords import EOS, SEPARATOR
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.metrics.cues import Cues
from xnmt_bench.metrics.cues.contexts import RELEVANCE, SAME_WORD, SensitiveWords
from xnmt_bench.metrics.cues.metric import CUES, WORDS
from xnmt_bench.metrics.cues.ranking import rank_cues
from xnmt_bench.parquet import read_table
from xnmt_bench.pipeline.explained import Relevances
from xnmt_bench.pipeline.job import Job
from xnmt_bench.rules.extract import GOLDEN

FAMILIES = 1
SETS = ("address", "names", "pronouns", "ellipsis")


def discourse(transformer, sentences=3, store=None, limit="null", **context):
    """Generated documents, read by a system that was not trained on them."""
    places = [f"nmt.context.{name}={value}" for name, value in context.items()]
    changes = [*overrides("transformer"), "corpus=toy_discourse", f"corpus.families={FAMILIES}",
               f"nmt.context.sentences={sentences}", "explainer=attention", *places,
               f"rules.test_sentences={limit}",
               f"store={store or transformer.settings.store}"]  # fmt: skip
    job = Job(configure(*changes))
    job.system.use(transformer.system.model)
    vars(job.system)["subwords"] = transformer.system.model.vocabularies
    return job


def rows_of(job, metric=None, parts="all"):
    """The numbers of each row, without what names the system, which would be trained for it."""
    metric, rows = metric or Cues(), {}
    for planned in metric.measure(job):
        where = tuple(planned.keys[name] for name in ("corpus", "step", "side", "explainer"))
        if planned.keys["part"] != parts:
            continue
        try:
            evidence = planned.make()
        except NotApplicable as error:
            rows[where] = str(error)
            continue
        weights = np.ones((1, len(evidence.units)))
        scores = metric.score(evidence.units, weights)
        rows[where] = {name: float(value[0]) for name, value in scores.items()}
    return rows


def test_contexts_are_the_words_that_the_system_reads(transformer):
    job = discourse(transformer)
    [*_, pronouns, _] = job.corpus.cued("test")
    words = SensitiveWords(job, pronouns)
    for side in ("source", "target"):
        contexts = list(words.contexts(side))
        assert len(contexts) == len(pronouns.examples) == 9 * FAMILIES
        for context in contexts:
            example = pronouns.examples[context.example]
            sentences = getattr(example.passage, f"{side}_context")
            assert context.words == tuple(" ".join(sentences).split())
            assert context.cue_X.sum() == len(example.cues[side])
            assert {context.word} == example.tags[SENSITIVE]
    near = SensitiveWords(discourse(transformer, read=1), pronouns)
    for context in near.contexts("source"):
        example = pronouns.examples[context.example]
        assert context.words == tuple(example.passage.source_context[-1].split())
        assert context.cue_X.any() == (next(iter(example.cues["source"]))[0] == 2)


def test_relevance_is_that_of_the_words_pieces_at_the_sensitive_word(transformer):
    """By hand: ids cut at separators, words counted by their marks."""
    job = discourse(transformer)
    examples = job.corpus.cued("test")[3]
    words = SensitiveWords(job, examples)
    by_number = {r.number: r for r in job.relevance(GOLDEN, corpus=words.corpus, source_alone=True)}
    split, vocabularies = words.texts.split("test"), job.system.model.vocabularies
    marked = {side: words.marked(side, RELEVANCE)[0] for side in ("source", "target")}
    lists = {side: 0 for side in marked}
    for side in marked:
        for context in words.contexts(side):
            relevance = by_number[words.number_of_example[context.example]]
            ids = [side_ids.tolist() for side_ids in split.ids(relevance.number)]
            target = ids[1]
            start = len(target) - target[::-1].index(SEPARATOR)
            of_now = vocabularies[1].words(target[start:-1])
            steps = [start + n for n, word in enumerate(of_now) if word == context.word]
            phi = relevance.source_TS if side == "source" else relevance.prefix_TT
            expected, sentence = [], []
            for place, i in enumerate(ids[side == "target"]):
                if i in (SEPARATOR, EOS):
                    numbers = vocabularies[side == "target"].words([j for j, _ in sentence])
                    of_words = np.zeros(max(numbers) + 1)
                    for (_, at), number in zip(sentence, numbers, strict=True):
                        of_words[number] += np.mean([phi[t - relevance.first, at] for t in steps])
                    expected.append(of_words)
                    sentence = []
                else:
                    sentence.append((i, place))
            found = marked[side].scores[RELEVANCE][marked[side].list_N == lists[side]]
            np.testing.assert_allclose(found, np.concatenate(expected[:-1]), rtol=1e-5)
            lists[side] += 1


def test_passages_that_are_not_read_whole_are_left_out(transformer, monkeypatch, tmp_path):
    """Their nearest sentences are explained, but it is not known what the whole context changes."""
    job = discourse(transformer, store=tmp_path)
    examples, vocabularies = job.corpus.cued("test")[2], transformer.system.model.vocabularies
    lengths = [len(example.passage.encode(*vocabularies)[0]) for example in examples.examples]
    most = sorted(lengths)[len(lengths) // 2]
    vars(job.system)["_read_longest"] = lambda: (most - 1, None)
    monkeypatch.setattr(job.system.model, "longest_source", most)
    words = SensitiveWords(job, examples)
    contexts = list(words.contexts("source"))
    assert [len(c.sizes) == 3 for c in contexts] == [length <= most for length in lengths]
    rows = read_table(words.relevance_of_contexts.path / "contexts.parquet").to_pylist()
    rows = [row for row in rows if row["side"] == "source"]
    for context, row in zip(contexts, rows, strict=True):
        sentences = examples.examples[context.example].passage.source_context
        assert context.words == tuple(" ".join(sentences[-len(context.sizes) :]).split())
        assert len(row["relevance"]) == len(context.words) and min(row["relevance"]) > 0
    for name in (RELEVANCE, SAME_WORD):
        assert len(words.marked("source", name)[1]) == sum(length <= most for length in lengths)
    assert words.left_out == sum(length > most for length in lengths) > 0


def test_words_that_are_not_known_to_be_right_are_left_out(transformer):
    words = SensitiveWords(job := discourse(transformer), job.corpus.cued("test")[2])
    marked, right_L = words.marked("target", SAME_WORD)
    first, *others = words.is_right.items()
    vars(words)["is_right"] = {place: right for place, right in others if place[0] != first[0][0]}
    fewer, fewer_L = words.marked("target", SAME_WORD)
    assert fewer_L.tolist() == right_L[1:].tolist()
    assert len(fewer.list_N) == (marked.list_N > 0).sum()
    assert words.left_out == 1


def test_relevance_that_lacks_a_passage_names_it(transformer, monkeypatch, tmp_path):
    words = SensitiveWords(
        job := discourse(transformer, store=tmp_path), job.corpus.cued("test")[2]
    )
    monkeypatch.setattr(Job, "relevance", lambda *_, **__: Relevances("made", lambda: []))
    with pytest.raises(XnmtError, match="pronouns, passage 1: the relevance lacks its sentence, 3"):
        _ = words.relevance_of_contexts.path


@pytest.mark.parametrize("sign", [1, -1])
def test_an_explainer_that_names_the_cues_is_right_and_its_opposite_wrong(
    transformer, monkeypatch, tmp_path, sign
):
    job = discourse(transformer, store=tmp_path)
    monkeypatch.setattr(SensitiveWords, "_relevance", lambda self, c, _: sign * c.cue_X * 1.0)
    for (corpus, step, side, explainer), row in rows_of(job, Cues(k=20)).items():
        topic = corpus.split()[-1]
        if step == WORDS or explainer != "attention":
            continue
        if side == "source" and topic in SETS[:2]:  # only the translation tells
            assert row == "no context that is read has both cues and other words"
        elif sign > 0:
            assert (row["average_precision"], row["recall"], row["dot"]) == (1, 1, 1)
            assert row["ranked"] == 3 * FAMILIES * {"pronouns": 3, "ellipsis": 4}.get(topic, 2)
        else:
            assert row["average_precision"] < row["chance"] and row["dot"] == 0


def test_a_system_without_a_context_is_at_the_base_rate_and_explains_nothing(transformer):
    rows = rows_of(discourse(transformer, sentences=0))
    for (_, step, _, explainer), row in rows.items():
        if step == CUES:
            assert row == "the system reads no sentence before the current one"
        elif explainer in ("KL", "abs(P-CXMI)", "changed"):
            assert row["average_precision"] == pytest.approx(row["chance"])
            assert row["f1"] == 0


def test_words_of_translations_are_ranked_by_what_the_context_changes(transformer):
    job = discourse(transformer)
    rows = rows_of(job)
    for topic, examples in zip(SETS, job.corpus.cued("test"), strict=True):
        row = rows[f"toy_discourse {topic}", WORDS, "", "KL"]
        words = [len(example.passage.target.split()) for example in examples.examples]
        tagged = [len(example.tags[SENSITIVE]) for example in examples.examples]
        assert row["ranked"] == sum(words)
        assert row["chance"] == pytest.approx(sum(tagged) / sum(words))


def test_same_word_points_at_what_the_current_sentence_says_again(transformer):
    job = discourse(transformer)
    names = job.corpus.cued("test")[1]
    marked, _ = SensitiveWords(job, names).marked("target", SAME_WORD)
    assert set(marked.scores[SAME_WORD]) == {0, 1}
    # A name's cue is the same name.
    assert (marked.scores[SAME_WORD][marked.marked_N] == 1).all()


def test_blind_rows_are_of_the_examples_that_are_explained(transformer, tmp_path):
    job = discourse(transformer, store=tmp_path, limit=12)
    for (corpus, step, side, _), row in rows_of(job).items():
        if step == CUES and (corpus, side) == ("toy_discourse pronouns", "target"):
            assert row["ranked"] == 3  # of 12 sentences, each behind three others


def test_contexts_are_divided_by_distance_and_by_what_the_system_says(transformer):
    """Sums of the parts are those of all; right are the words that are the most probable ones."""
    job = discourse(transformer)
    by_part = [rows_of(job, parts=part) for part in ("all", *(f"distance {n}" for n in (1, 2, 3)))]
    where = ("toy_discourse pronouns", CUES, "target", "attention")
    total, *parts = (rows[where] for rows in by_part)
    assert [part["ranked"] for part in parts] == [3 * FAMILIES] * 3
    for name in ("average_precision", "right", "dot", "recall"):
        assert total[name] == pytest.approx(np.mean([part[name] for part in parts]))
    words = SensitiveWords(job, job.corpus.cued("test")[2])
    _, right_L = words.marked("target", RELEVANCE)
    assert total["right"] == pytest.approx(right_L.mean())
    split, model = words.texts.split("test"), job.system.model
    for context, right in zip(words.contexts("target"), right_L.tolist(), strict=True):
        ids = split.ids(words.number_of_example[context.example])
        best_T = model(model.collate([ids])).argmax(-1)[0].tolist()
        target = ids[1].tolist()
        start = len(target) - target[::-1].index(SEPARATOR)
        of_now = model.target_subwords.words(target[start:-1])
        steps = [start + n for n, word in enumerate(of_now) if word == context.word]
        assert right == all(best_T[t] == target[t] for t in steps)


def test_precision_where_right_and_where_wrong():
    """Three contexts: the first word is named in two of them, and the system is right in two."""
    words = MarkedWords(
        np.repeat([0, 0, 1], 2), np.repeat([0, 1, 2], 2), np.array([1, 0] * 3, dtype=bool),
        {}, np.full(6, "source"),
    )  # fmt: skip
    scores = np.array([2, 1, 1, 2, 2, 1.0])
    units = rank_cues("made", words, scores, 1, np.array([True, True, False]))
    row = Cues().score(units, np.array([[1.0, 1.0], [2.0, 0.0]]))
    np.testing.assert_allclose(row["when_right"], [0.75, 0.75])
    np.testing.assert_allclose(row["when_wrong"], [1.0, np.nan])
    np.testing.assert_allclose(row["right_less_wrong"], [-0.25, np.nan])
    np.testing.assert_allclose(row["right"], [2 / 3, 1])
    np.testing.assert_allclose(row["average_precision"], [5 / 6, 0.75])
    # Before them a context without words, which is no list.
    later = replace(words, list_N=words.list_N + 1)
    right_L = np.array([False, True, True, False])
    assert units.equals(rank_cues("made", later, scores, 1, right_L))


def test_a_suite_without_marked_words_is_refused(transformer):
    with pytest.raises(XnmtError, match="no word is marked as context-sensitive"):
        next(Cues(suite="documents").measure(transformer))
    with pytest.raises(XnmtError, match=r"metric.cues.suite: no suite 'scatt'; did you mean scat"):
        next(Cues(suite="scatt").measure(transformer))
    with pytest.raises(XnmtError, match="scat is en-fr, but the system translates en-de"):
        next(Cues(suite="scat").measure(transformer))
    with pytest.raises(XnmtError, match="corpus toy has no sets with cues; name scat or"):
        next(Cues().measure(transformer))
