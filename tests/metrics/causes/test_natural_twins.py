"""Natural twins: systems whose causes are known, and a pair of small systems from end to end."""

from dataclasses import replace
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest

from support.configurations import configure
from support.handwritten_transformer import build_copying_transformer
from support.systems import trained
from xnmt_bench.corpora.exchange.substitutes import BothSides, Substitutes
from xnmt_bench.corpora.planted import natural
from xnmt_bench.corpora.planted.natural import FIRST, SECOND
from xnmt_bench.corpora.sentence import SIDES, Sentence
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.judges import RuleSet
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.measuring.measurement import write
from xnmt_bench.metrics.causes import NaturalTwins
from xnmt_bench.metrics.causes.effects import Interventions
from xnmt_bench.metrics.causes.erased import Erasure, erase_words
from xnmt_bench.metrics.causes.natural_twins import (
    _describe,
    _sum,
    columns_of,
    compare_causes,
    decisions_alike,
)
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.metrics.fidelity.trial import analysis
from xnmt_bench.nmt.switched import Removal
from xnmt_bench.pipeline.job import Job
from xnmt_bench.report.panels import panels
from xnmt_bench.report.report import collect
from xnmt_bench.report.write import write_rows
from xnmt_bench.rules.scores import DecisionScores

# Cues and other words each replace each other, on either side.
CATEGORIES = Substitutes([["4", "5", "6", "7"], ["8", "9", "10", "11"]])


def sentences(seed, count):
    """Sources with one cue, and targets with one; about half of both cues are the same."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        source, target = (rng.integers(8, 12, size).astype(str).tolist() for size in (5, 6))
        cues = rng.integers(4, 8, 2)
        if rng.random() < 0.5:
            cues[1] = cues[0]
        source[rng.integers(5)], target[rng.integers(3)] = map(str, cues)
        yield number, Sentence(" ".join(source), " ".join(target), "", number)


def alike(first, second, parts):
    """The decisions that two models make alike, with effects, as the metric reads them."""
    both = BothSides(CATEGORIES, CATEGORIES)
    for part in parts:
        of_both = []
        for model in (first, second):
            [halves] = Interventions(model, both, 8).halves([part])
            columns = columns_of(model.target_subwords, *part, halves)
            rows = zip(*columns.values(), strict=True)
            of_both.append([dict(zip(columns, row, strict=True)) for row in rows])
        yield from decisions_alike(*of_both)


def is_cue(word):
    return 4 <= int(word) < 8


@pytest.mark.parametrize("margin", [0.1, 0.2, 0.3])
def test_planted_differences_are_found_exactly(margin):
    """One system copies the source's cue and the other the prefix's; they agree where both are."""
    first, second = build_copying_transformer("source"), build_copying_transformer("prefix")
    parts = list(sentences(0, 60))
    found = {}
    for row, effect_2HW in alike(first, second, parts):
        disagreement = compare_causes(effect_2HW)
        if disagreement and disagreement.margin >= margin:
            found[row["sentence"], row["step"]] = _describe(row, disagreement)
    expected = {}
    for number, sentence in parts:
        source, target = sentence.source.split(), sentence.target.split()
        [a], [b] = ([w for w, word in enumerate(side) if is_cue(word)] for side in (source, target))
        if source[a] == target[b]:
            for step in range(b + 1, len(target)):
                expected[number, step] = ("source", a, "target", b)
    places = {
        key: tuple(twin[name] for name in ("a_side", "a", "b_side", "b"))
        for key, twin in found.items()
    }
    assert places == expected and len(expected) > 60
    # The other half says the same of systems without noise.
    for twin in found.values():
        assert (
            twin["first_a_measured"]
            > margin
            > twin["first_b_measured"]
            == pytest.approx(0, abs=1e-6)
        )
        assert (
            twin["second_b_measured"]
            > margin
            > twin["second_a_measured"]
            == pytest.approx(0, abs=1e-6)
        )
    # The decision closes its target.
    for (number, step), twin in found.items():
        source, target = parts[number][1].source.split(), parts[number][1].target.split()
        assert twin["target"].split() == [*target[:step], source[twin["a"]]]


@pytest.mark.parametrize("side", ["source", "prefix"])
def test_the_same_system_twice_has_no_disagreement(side):
    model = build_copying_transformer(side)
    effects = [effect_2HW for _, effect_2HW in alike(model, model, sentences(1, 30))]
    assert len(effects) > 60
    assert not any(compare_causes(effect_2HW) for effect_2HW in effects)


def test_systems_that_use_the_same_word_do_not_disagree():
    """Another training of the same behaviour: the same cue, and other logits."""
    first, second = build_copying_transformer(), build_copying_transformer()
    second.output.weight.mul_(0.8)
    disagreements = [
        compare_causes(effect_2HW) for _, effect_2HW in alike(first, second, sentences(2, 30))
    ]
    assert not any(d and d.margin >= 0.1 for d in disagreements) and len(disagreements) > 60


def test_both_systems_get_the_same_substitutes_half_by_half(transformer):
    """Effects of a word by the two halves, weighed by their sizes, are those of all substitutes."""
    categories = transformer.corpus.substitutes()
    interventions = Interventions(transformer.system.model, categories, 4)
    [sentence] = transformer.texts.sentences("test", 1)
    [halves] = interventions.halves([(0, sentence)])
    clean, effect_HNW = halves.clean, halves.effect_HNW
    [effects] = interventions.effects([(0, sentence)])
    whole_NW = np.concatenate(effects.replaced, axis=1)
    # Of words of four substitutes: two a half.
    counts = np.zeros(whole_NW.shape[1])
    words = [sentence.source.split(), sentence.target.split()]
    for side, (kind, start) in enumerate(
        zip((categories.source, categories.target), (0, len(words[0])), strict=True)
    ):
        for unit in kind.units(words[side]):
            counts[start + unit.start : start + unit.stop] = min(len(unit.others), 4)
    four_W = counts == 4
    np.testing.assert_allclose(effect_HNW.mean(0)[:, four_W], whole_NW[:, four_W], atol=1e-6)
    assert four_W.sum() > 4
    np.testing.assert_array_equal(clean.step_N, effects.step_N)
    # A word with one substitute has an effect by the first half alone.
    assert np.isnan(effect_HNW[1][:, counts <= 1]).all()


def test_a_cause_is_the_greatest_effect_of_the_half_that_chooses():
    nan = np.nan
    effect_2HW = np.array([
        [[0.9, 0.1, 0.2, nan], [0.3, 0.1, 0.8, 0.9]],  # the other half would choose word 2
        [[0.4, 0.1, 0.7, 0.9], [0.2, 0.1, 0.5, 0.9]],  # word 3 is unknown in one half
    ])  # fmt: skip
    disagreement = compare_causes(effect_2HW)
    assert (disagreement.a, disagreement.b) == (0, 2)
    assert disagreement.margin == pytest.approx(0.3)  # the lesser of 0.7 and 0.3
    # Measured: 0.3 - 0.8, and 0.5 - 0.2.
    np.testing.assert_allclose(disagreement.own_less_other_2H[:, 1], [-0.5, 0.3])
    assert compare_causes(effect_2HW[[0, 0]]) is None
    assert compare_causes(np.full((2, 2, 3), nan)) is None


def test_results_are_those_of_all_chosen_decisions_at_once():
    rng = np.random.default_rng(0)
    effects = [rng.random((2, 2, 5)) for _ in range(200)]
    disagreements = [compare_causes(x) for x in effects]
    rows = [_sum(x, d) for x, d in zip(effects, disagreements, strict=True) if d]
    sums = {name: np.array([sum(row[name] for row in rows)]) for name in rows[0]}
    results = NaturalTwins().of_sums(sums | {"rows": np.array([200.0])})
    for margin in (0.1, 0.2, 0.3):
        chosen = [n for n, d in enumerate(disagreements) if d and d.margin >= margin]
        assert 5 < len(chosen) == results[f"chosen_{margin}"]
        assert results[f"share_{margin}"] == len(chosen) / 200
        by_half = np.concatenate([effects[n].swapaxes(0, 1).reshape(2, -1) for n in chosen], 1)
        expected = np.corrcoef(by_half)[0, 1]
        assert results[f"reliability_{margin}"][0] == pytest.approx(expected)
        # Of noise nothing is left where it is measured anew.
        measured = np.mean([disagreements[n].own_less_other_2H[:, 1] for n in chosen])
        assert results[f"measured_{margin}"][0] == pytest.approx(measured)
        assert abs(measured) < 0.2 < np.mean([disagreements[n].margin for n in chosen])


def test_roles_are_drawn_alike_whichever_system_is_the_first():
    row = {"source": "x y", "target": "z", "sentence": 3, "step": 0}
    effect_2HW = np.array([[[0.9, 0.1, 0]] * 2, [[0.1, 0.9, 0]] * 2])
    swapped = _describe(row, compare_causes(effect_2HW[::-1]))
    described = _describe(row, compare_causes(effect_2HW))
    assert described["link_of"] == swapped["link_of"]
    assert (described["a"], described["b"]) == (swapped["b"], swapped["a"]) == (0, 1)
    roles = [_describe(row | {"step": n}, compare_causes(effect_2HW))["link_of"] for n in range(99)]
    assert 30 < roles.count(FIRST) < 70 and {*roles} == {FIRST, SECOND}


def path_of(job):
    return str(job.system.path)


@pytest.fixture(scope="module")
def pair(transformer, workplace, tmp_path_factory):
    """The Transformer beside RNNSearch, one measurement, and its exported decisions."""
    other = trained("rnn_search", workplace)
    metric = NaturalTwins(other_path=path_of(other), sentences=12, fewest=4)
    metric.margin = 0.005  # of generated text two systems hardly ever disagree by more
    folder = tmp_path_factory.mktemp("natural")
    [planned] = metric.measure(transformer)
    write(metric.name, planned.identify(), planned.make(), folder)
    [scored] = collect(metric, folder, Draws(9, 0))
    [(name, rows)] = metric.details([scored.measurement])
    write_rows(name, rows, list(rows[0]), folder, metric.reads_details)
    return SimpleNamespace(
        systems=(transformer, other), scored=scored, rows=rows, file=folder / f"{name}.csv",
        metric=metric,
    )  # fmt: skip


def test_what_a_pair_of_systems_exports(pair):
    rows = pair.rows
    assert len(rows) >= 4 and pair.scored.values["decisions"] > len(rows)
    assert decisions_of(pair).twins == tuple(job.system.fingerprint for job in pair.systems)
    reliable = replace(pair.scored, values={"reliability_0.005": 0.81})
    [note] = pair.metric.notes([reliable])
    assert f"corpus.twins={pair.file.name} has {len(rows)} decisions." in note
    assert min(row["margin"] for row in rows) >= 0.005


def test_causes_are_erased_by_each_removal(pair):
    """Of a word taken away by itself, as `causes` computes it, and one sentence alone."""
    removals = ["zero", "mean", "unk"]  # RNNSearch has no attention that leaves out words
    for system, job in zip((FIRST, SECOND), pair.systems, strict=True):
        model, split = job.system.model, job.texts.split("test")
        interventions = Interventions(model, job.corpus.substitutes(), 1)
        for twin in pair.rows:
            [effects] = interventions.effects(
                [(twin["sentence"], job.texts.sentences("test")[twin["sentence"]])]
            )
            words = [(SIDES.index(twin[f"{word}_side"]), twin[word]) for word in "ab"]
            n = np.flatnonzero(effects.step_N == twin["step"])
            for word, (side, place) in zip("ab", words, strict=True):
                removed = effects.removed[side][n, place]
                assert twin[f"{system}_{word}_erased_mean"] == pytest.approx(removed, abs=1e-6)
            erasure = Erasure(split.index_of[twin["sentence"]], twin["step"], words)
            for removal in removals:
                [effect_2] = erase_words(model, split, [erasure], removal)
                kept = [twin[f"{system}_{word}_erased_{removal}"] for word in "ab"]
                np.testing.assert_allclose(effect_2, kept, atol=1e-6)
            assert f"{system}_a_erased_attention" not in twin
    less_others = [
        [twin[f"{system}_{own}_erased_unk"] - twin[f"{system}_{other}_erased_unk"]]
        for twin in pair.rows
        for system, own, other in ((FIRST, *"ab"), (SECOND, *"ba"))
    ]
    assert np.ptp(less_others) > 0


@pytest.mark.parametrize("removal", get_args(Removal))
def test_effects_of_erasing_do_not_depend_on_the_batch(transformer, removal):
    model, split = transformer.system.model, transformer.texts.split("test")
    # The first decision sees no target word, so that erasing one does nothing.
    erasures = [
        Erasure(n, step, [(0, 1), (1, 0)]) for n, step in ((0, 0), (3, 4), (1, 2), (3, 1), (2, 3))
    ]
    effect_N2 = erase_words(model, split, erasures, removal)
    alone = [erase_words(model, split, [erasure], removal)[0] for erasure in erasures]
    np.testing.assert_allclose(effect_N2, alone, atol=1e-6)
    assert effect_N2[0, 1] == pytest.approx(0, abs=1e-6) and (effect_N2[:, 0] > 1e-4).all()


def test_decisions_that_halves_do_not_agree_on_are_not_to_be_used(pair):
    unreliable = replace(pair.scored, values={"reliability_0.005": 0.79})
    _, note = pair.metric.notes([unreliable])
    assert "not to be used, since the reliability 0.790" in note


def decisions_of(pair):
    """The corpus whose test set are the exported decisions."""
    return natural.NaturalTwins(pair.systems[0].corpus, str(pair.file))


def tried_job(pair, job, name):
    """The exported decisions under one of both explanations."""
    kind = {"names_link": "NamesLink", "names_cue": "NamesCue"}[name]
    phi = {"_target_": f"xnmt_bench.explainers.planted.{kind}", "others": "nearest"}
    tried = job.changed({
        "nmt": {"path": path_of(job)},
        "explainer": {"name": name, "phi": phi},
        "rules": {"train_sentences": 10},
    })  # fmt: skip
    tried.corpus = decisions_of(pair)
    return tried


def test_proxies_learn_from_the_same_rules_under_both_explanations(pair):
    """Causes are known of test decisions alone; of others both name the nearest words."""
    job = pair.systems[0]
    link, cue = (RuleSet(tried_job(pair, job, name)) for name in ("names_link", "names_cue"))
    [of_link], [of_cue] = link.training(), cue.training()
    for name, column in vars(of_link).items():
        np.testing.assert_array_equal(column, vars(of_cue)[name])
    assert len(of_link) > 50
    # Of the chosen decisions one names a, and the other b.
    for number, twin in enumerate(pair.rows):
        [n] = np.flatnonzero((link.test.sentence_N == number) & (link.test.step_N == twin["step"]))
        for rules, word in ((link, "ab"), (cue, "ba")):
            named = word[twin["link_of"] == SECOND]
            side = "source" if twin[f"{named}_side"] == "source" else "prefix"
            of_side = rules.test_split.source if side == "source" else rules.test_split.target
            place = getattr(rules.test, f"{side}_position_NK")[n, 0]
            assert of_side.words(number)[place] == twin[named]


def test_judges_are_tried_on_the_decisions_of_both_systems(pair, tmp_path, monkeypatch):
    """Base on both systems: A in L and C from each decision's score, with its drawn role."""
    monkeypatch.setattr(analysis, "FEWEST", 1)
    scores = {}
    for n, job in enumerate(pair.systems):
        for name in ("names_link", "names_cue"):
            tried = tried_job(pair, job, name)
            rows = (r for r in Fidelity().measure(tried) if r.keys["explainer"] == name)
            base = next(row for row in rows if row.identify().columns["instantiation"] == "base")
            row = write("fidelity", base.identify(), base.make(), tmp_path)
            of_row = DecisionScores.load(row.file("decisions"))
            places = zip(of_row.sentence_N.tolist(), of_row.step_N.tolist(), strict=True)
            scores[n, name] = dict(zip(places, of_row.log_likelihood_N.tolist(), strict=True))
    scored = collect(Fidelity(), tmp_path, Draws(9, 0))
    [row] = analysis.Trial(samples=50).analyse(panels(Fidelity(), scored)).rows
    of_l, of_c = [], []
    for number, twin in enumerate(pair.rows):
        a_in = [
            scores[n, "names_link"][number, twin["step"]]
            - scores[n, "names_cue"][number, twin["step"]]
            for n in (0, 1)
        ]
        # The first system is L where the link is what moves it.
        in_l, in_c = a_in if twin["link_of"] == FIRST else a_in[::-1]
        of_l.append(in_l)
        of_c.append(in_c)
    assert (row["slot"], row["pairs"], row["decisions"]) == ("all", 1, len(pair.rows))
    assert row["advantage_l"] == pytest.approx(np.mean(of_l), abs=1e-6)
    assert row["advantage_c"] == pytest.approx(np.mean(of_c), abs=1e-6)
    assert row["system"] == "rnn_search and transformer"


def test_the_same_system_twice_gives_no_test_set(transformer, tmp_path):
    metric = NaturalTwins(other_path=path_of(transformer), sentences=6, fewest=1)
    [planned] = metric.measure(transformer)
    write(metric.name, planned.identify(), planned.make(), tmp_path)
    [scored] = collect(metric, tmp_path, Draws(9, 0))
    assert [scored.values[f"chosen_{margin}"] for margin in (0.1, 0.2, 0.3)] == [0, 0, 0]
    assert not list(metric.details([scored.measurement]))
    [note] = metric.notes([scored])
    assert "no test set for judges, since 0 of " in note


def test_a_systems_effects_are_made_once_for_any_pair(pair, unmade):
    """The stages of A beside B are those of B beside A, in turn."""
    first, second = pair.systems
    unmade("effects_by_halves")
    pairs = [(first, second), (second, first), (first, first)]
    stages = [
        [stage.fingerprint for stage in NaturalTwins(other_path="x")._effects(*systems)]
        for systems in pairs
    ]
    assert stages[0] == stages[1][::-1] and stages[2] == [stages[0][0]] * 2
    assert stages[0][0] != stages[0][1]


def test_another_vocabulary_is_not_applicable(transformer):
    job = transformer.changed({})
    other = NaturalTwins(other_path="x")
    opened = transformer.changed({"corpus": {"subwords": {"source_size": 320}}})
    other._open_other = lambda _: opened
    with pytest.raises(NotApplicable, match="the second system has another source vocabulary"):
        next(other.measure(job)).make()


def test_a_system_is_no_twin_of_itself(transformer):
    seed = transformer.settings.nmt.seed
    with pytest.raises(NotApplicable, match=rf"other_seed={seed} is the first system's seed"):
        next(NaturalTwins(other_seed=seed).measure(transformer))


@pytest.mark.parametrize("options", [{}, {"other_seed": 1, "other_path": "x"}])
def test_there_is_one_second_system(transformer, options):
    with pytest.raises(NotApplicable, match=r"other_seed or .*other_path names the second system"):
        next(NaturalTwins(**options).measure(transformer))


def test_margins_are_those_whose_reliability_is_known():
    with pytest.raises(XnmtError, match=r"margin=0.15: should be one of 0.1, 0.2, 0.3"):
        NaturalTwins(margin=0.15)


def test_decisions_are_tried_on_the_systems_that_they_were_chosen_on(tmp_path, unmade):
    """A system learns from the plain corpus, so that a file of decisions makes no other one."""
    for name in ("train", "val", "test_2016_flickr"):
        for sentence_language, side in (("de", "source"), ("en", "target")):
            texts = (getattr(s, side) for s in ToyCorpus(0, 200, 1, 1).sentences("train"))
            (tmp_path / f"{name}.{sentence_language}").write_text("\n".join(texts) + "\n")
    line = "der Hund schläft,the dog,source,1,source,0,second,f1,s2"
    file = tmp_path / "twins.csv"
    file.write_text("\n".join([",".join(natural.COLUMNS), line]) + "\n", encoding="utf-8")
    options = [
        "experiment=natural_twins", f"corpus.data={tmp_path}", "corpus.subwords.source_size=300",
        "corpus.subwords.target_size=300", f"store={tmp_path}/store", "device=cpu", "threads=1",
    ]  # fmt: skip
    plain, tried = (Job(configure(*options, *o)) for o in ([], [f"corpus.twins={file}"]))
    unmade("nmt")
    assert plain.system.trained.fingerprint == tried.system.trained.fingerprint
    assert plain.texts.encoded["test"].fingerprint != tried.texts.encoded["test"].fingerprint
    for language in ("de", "en"):
        few = (tmp_path / f"val.{language}").read_text().splitlines()[:5]
        (tmp_path / f"other.{language}").write_text("\n".join(few) + "\n")
    elsewhere = Job(configure(*options, "corpus.corpus.splits.test=other"))
    assert plain.system.trained.fingerprint == elsewhere.system.trained.fingerprint
    assert plain.texts.encoded["test"].fingerprint != elsewhere.texts.encoded["test"].fingerprint
    other_file = tmp_path / "other_twins.csv"
    other_file.write_text(file.read_text().replace("der Hund", "die Katze"))
    other = Job(configure(*options, f"corpus.twins={other_file}"))
    # What a judge learns from is the same beside any decisions.
    for split, same in (("train", True), ("valid", True), ("test", False)):
        encoded = [job.texts.encoded[split].fingerprint for job in (tried, other)]
        assert (encoded[0] == encoded[1]) == same
    assert plain.system.name == tried.system.name == "transformer_128"
    assert len(tried.texts.sentences("test")) == 1


def test_a_seed_is_of_a_system_that_is_trained_here(transformer):
    job = transformer.changed({"nmt": {"path": path_of(transformer)}})
    with pytest.raises(NotApplicable, match=r"nmt\.path is not trained here; give .*other_path"):
        next(NaturalTwins(other_seed=1).measure(job))
