"""Real decoding in shards: killed work goes on, and the ids are those of the text."""

import numpy as np
import pytest

from support.configurations import DISCOURSE, configure
from xnmt_bench.corpora.passage import concatenated
from xnmt_bench.corpora.vocabulary.subwords import SEPARATOR
from xnmt_bench.errors import StoreError
from xnmt_bench.pipeline import outputs
from xnmt_bench.pipeline.job import Job
from xnmt_bench.store import Store


@pytest.fixture(scope="module")
def translating_job(workplace):
    """A system whose translations stand in each other's contexts."""
    job = Job(configure("nmt=concat", *DISCOURSE, "corpus.test=60", f"store={workplace}/store"))
    _ = job.system.trained.artefact
    return job


def elsewhere(job, store):
    """The same translations, of an empty store."""
    translations = job.translations()
    translations._store = Store(store)
    return translations


def test_a_translation_with_a_line_break_is_one_line(translating_job, tmp_path, monkeypatch):
    """A vocabulary of bytes can write one; the sentences behind it would move."""
    usual = translating_job.translations().outputs().texts
    subwords = translating_job.system.model.target_subwords
    decode = type(subwords).decode
    monkeypatch.setattr(type(subwords), "decode", lambda self, ids: f"{decode(self, ids)}\nx")
    monkeypatch.setattr(type(subwords), "encode", lambda self, text: [5] * len(text.split()))
    made_outputs = elsewhere(translating_job, tmp_path).outputs()
    assert len(made_outputs.texts) == len(usual)
    assert all(text.endswith(" x") for text in made_outputs.texts)


def test_lines_that_are_not_as_many_as_sentences_are_an_error(translating_job, monkeypatch):
    lines = outputs._lines
    monkeypatch.setattr(outputs, "_lines", lambda path: [*lines(path), "one more"])
    with pytest.raises(StoreError, match=r"test\.txt: 61 lines, but the test set has 60 sentences"):
        translating_job.translations().outputs()


def test_shards_hold_whole_documents_and_change_nothing(translating_job, tmp_path, monkeypatch):
    places = translating_job.texts.places("test")
    monkeypatch.setattr(outputs, "SHARD", 10)
    shards = outputs._shards(places)
    assert len(shards) > 3
    assert [i for shard in shards for i in shard] == list(range(len(places)))
    assert all(places[shard.start] == 0 and len(shard) >= 10 for shard in shards[:-1])
    many_shards = elsewhere(translating_job, tmp_path / "ten").made("test").path
    monkeypatch.undo()
    single_shard = translating_job.translations().made("test").path
    assert (many_shards / "test.txt").read_text() == (single_shard / "test.txt").read_text()
    assert not list(many_shards.glob("*.part"))


def test_a_killed_translation_goes_on_where_it_stood(translating_job, tmp_path, monkeypatch):
    expected = (translating_job.translations().made("test").path / "test.txt").read_text()
    monkeypatch.setattr(outputs, "SHARD", 10)
    translate, calls = outputs.translate, []

    def killed(model, sources, *arguments, **options):
        calls.append(len(sources))
        if killed.after and len(calls) > killed.after:
            raise KeyboardInterrupt
        return translate(model, sources, *arguments, **options)

    monkeypatch.setattr(outputs, "translate", killed)
    killed.after = 9
    with pytest.raises(KeyboardInterrupt):
        _ = elsewhere(translating_job, tmp_path / "killed").made("test").artefact
    parts = len(list((tmp_path / "killed").rglob("*.part")))
    assert parts > 0
    calls.clear()
    killed.after = None
    resumed = elsewhere(translating_job, tmp_path / "killed").made("test").path
    assert (resumed / "test.txt").read_text() == expected
    shards = outputs._shards(translating_job.texts.places("test"))
    assert sum(calls) == sum(map(len, shards[parts:]))


def test_its_ids_are_those_of_its_text_behind_its_own_context(translating_job):
    texts, target = translating_job.texts, translating_job.texts.subwords[1]
    folder = translating_job.translations().made("test").path
    tied = [target.tie(text) for text in (folder / "test.txt").read_text().split("\n")[:-1]]
    split = translating_job.translations().split("test", len(tied))
    depths = [texts.depth("test", i) for i in range(len(tied))]
    assert max(depths) == 3
    for i, depth in enumerate(depths):
        assert split.target[i].tolist() == concatenated(tied[i - depth : i], tied[i]).ids
    assert (split.target.lengths() == [len(split.target[i]) for i in range(len(tied))]).all()
    assert np.array_equal(split.number, texts.split("test").number)


def test_own_context_that_is_too_long_loses_its_farthest_sentences(
    translating_job, tmp_path, monkeypatch, caplog
):
    """On both sides, so that source and target are of the same sentences."""
    longest = 70
    monkeypatch.setattr(translating_job.system.model, "longest_target", longest)
    translations, texts = elsewhere(translating_job, tmp_path), translating_job.texts
    source, target = texts.subwords
    lines = translations.outputs().texts
    split = translations.split("test", len(lines))
    assert split.target.lengths().max() <= longest
    own_depths, shorter = [], 0
    for i, text in enumerate(lines):
        depth = split.target[i].tolist().count(SEPARATOR)
        sentences = texts.sentences("test")[i - depth : i + 1]
        *before, current = (source.tie(sentence.source) for sentence in sentences)
        assert split.source[i].tolist() == concatenated(before, current).ids
        context = [target.tie(line) for line in lines[i - depth : i]]
        assert split.target[i].tolist() == concatenated(context, target.tie(text)).ids
        shorter += depth < texts.depth("test", i)
        own_depths.append(depth)
    assert shorter and max(own_depths) > 0
    assert f"test: {shorter} contexts of own translations are longer" in caplog.text


def test_a_translation_without_an_end_is_cut_to_what_the_system_reads(
    translating_job, tmp_path, monkeypatch
):
    longest = 20
    monkeypatch.setattr(translating_job.system.model, "longest_target", longest)
    monkeypatch.setattr(
        outputs, "translate", lambda _, sources, *__, prefixes: [[9] * 90 for _ in sources]
    )
    translations = elsewhere(translating_job, tmp_path)
    split = translations.split("test", len(translations.outputs().texts))
    assert set(split.target.lengths()) == {longest}


def test_what_is_drawn_is_drawn_once(translating_job):
    """Who asks for every sentence's depth would otherwise pass over all of them each time."""
    assert translating_job.texts.drawn("train") is translating_job.texts.drawn("train")
