"""Causes: effects against one row at a time, and rankings against numbers worked out by hand."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch
from scipy import stats

from support.dispatched import count
from support.example_rows import SYSTEM, measured, scored
from support.listed_pairs import ListedPairs
from support.systems import double
from xnmt_bench.corpora.exchange.exchangeable import (
    EXCHANGED,
    HEURISTIC,
    HEURISTIC_NOTE,
    ExchangeableWords,
)
from xnmt_bench.corpora.exchange.substitutes import BothSides, Substitutes, Unit
from xnmt_bench.corpora.planted.catalogue import Catalogue
from xnmt_bench.corpora.planted.twins import ToyTwins
from xnmt_bench.corpora.vocabulary.subwords import EOS
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.measuring.measurement import NOT_APPLICABLE
from xnmt_bench.metrics.causes import Causes
from xnmt_bench.metrics.causes.effects import PREFIX, SOURCE, Interventions, Row, _compare
from xnmt_bench.metrics.causes.ranks import SIDES, Ranking, judge_side, judge_sides
from xnmt_bench.metrics.causes.table import KINDS, Decision, load
from xnmt_bench.nmt.loading import build_model
from xnmt_bench.nmt.switched import replacement
from xnmt_bench.pipeline.explained import Relevances
from xnmt_bench.report.report import collect
from xnmt_bench.report.table import tables
from xnmt_bench.rules.extract import TEACHER_FORCING
from xnmt_bench.rules.table import SentenceRelevance


def test_units_are_the_longest_entries_and_have_the_others_of_their_category():
    categories = Substitutes([["dog", "ice cream", "cat"], ["cream", "milk"]])
    units = list(categories.units(["the", "ice", "cream", "and", "cream", "dog"]))
    assert units == [
        Unit(1, 3, (("dog",), ("cat",))),
        Unit(4, 5, (("milk",),)),
        Unit(5, 6, (("ice", "cream"), ("cat",))),
    ]


@pytest.fixture(scope="module")
def changed(transformer):
    """A model in float64, sentences, and their effects."""
    model = double(transformer.system.model)
    categories = transformer.corpus.substitutes()
    sentences = dict(enumerate(transformer.texts.sentences("test", 3)))
    interventions = Interventions(model, categories, 3)
    effects = interventions.effects([*sentences.items()])
    return model, interventions, sentences, dict(zip(sentences, effects, strict=True))


def distribution(model, source, target):
    """A text's distributions, one pair alone."""
    ids = [[*vocabulary.encode(text), EOS] for vocabulary, text in
           zip(model.vocabularies, (source, target), strict=True)]  # fmt: skip
    with torch.no_grad():
        return model(model.collate([tuple(ids)])).softmax(-1)[0].numpy(), ids


def test_effects_equal_those_of_one_row_at_a_time(changed):
    model, interventions, sentences, by_number = changed
    compared = 0
    for number, sentence in sentences.items():
        effects, texts = by_number[number], [sentence.source.split(), sentence.target.split()]
        clean_TV, ids = distribution(model, *map(" ".join, texts))
        words = model.target_subwords.words(ids[PREFIX])
        for side in (SOURCE, PREFIX):
            for unit in interventions._categories[side].units(texts[side]):
                drawn = list(interventions._choose(number, side, unit, texts[side]))
                assert len(drawn) == len(set(drawn)) == min(3, len(unit.others))
                for n, step in enumerate(effects.step_N):
                    distances = []
                    for entry in drawn:
                        replaced = list(texts)
                        replaced[side] = [*texts[side][: unit.start], *entry,
                                         *texts[side][unit.stop :]]  # fmt: skip
                        new_TV, new_ids = distribution(model, *map(" ".join, replaced))
                        moved = len(new_ids[PREFIX]) - len(ids[PREFIX])
                        distances.append(np.abs(new_TV[step + moved] - clean_TV[step]).sum() / 2)
                    effect = effects.replaced[side][n, unit.start]
                    if side == PREFIX and words[step] < unit.stop:
                        assert np.isnan(effect)
                        continue
                    assert effect == pytest.approx(np.mean(distances), abs=1e-8)
                    compared += 1
    assert compared > 50


def test_causes_wait_once_for_their_sentences(changed):
    _, interventions, sentences, by_number = changed
    results = []
    counted = count(lambda: results.extend(interventions.effects([*sentences.items()])))
    assert counted.operations.total() <= 1045
    assert counted.waits.total() == 1
    for there, here in zip(results, by_number.values(), strict=True):
        for kind in KINDS:
            for one, other in zip(getattr(there, kind), getattr(here, kind), strict=True):
                np.testing.assert_allclose(one, other, atol=1e-9)


def test_a_word_and_its_translation_are_replaced_together(changed):
    """Each pair by hand: two entries that translate each other, on both sides of the sentence."""
    model, interventions, sentences, by_number = changed
    translations = interventions._translations
    compared = 0
    for number, sentence in sentences.items():
        pair, texts = (
            by_number[number].replaced_with_translation,
            [sentence.source.split(), sentence.target.split()],
        )
        clean_TV, ids = distribution(model, *map(" ".join, texts))
        words = model.target_subwords.words(ids[PREFIX])
        for link in sentence.gold.sure:
            units = [
                next((u for u in interventions._categories[side].units(texts[side])
                      if u.start <= link[side] < u.stop), None)
                for side in (SOURCE, PREFIX)
            ]  # fmt: skip
            if None in units:
                continue
            entries = [tuple(texts[s][u.start : u.stop]) for s, u in enumerate(units)]
            if entries[PREFIX] not in translations.get(entries[SOURCE], ()):
                continue
            drawn = interventions.choose_pairs(number, *units, texts, False)
            if not drawn:
                assert np.isnan(pair[SOURCE][:, units[SOURCE].start]).all()
                continue
            for n, step in enumerate(by_number[number].step_N):
                distances = []
                for pair_of_entries in drawn:
                    assert pair_of_entries[PREFIX] in translations[pair_of_entries[SOURCE]]
                    replaced = [
                        [*text[: u.start], *entry, *text[u.stop :]]
                        for text, u, entry in zip(texts, units, pair_of_entries, strict=True)
                    ]
                    new_TV, new_ids = distribution(model, *map(" ".join, replaced))
                    behind = words[step] >= units[PREFIX].stop
                    moved = (len(new_ids[PREFIX]) - len(ids[PREFIX])) * behind
                    distances.append(np.abs(new_TV[step + moved] - clean_TV[step]).sum() / 2)
                expected = pytest.approx(np.mean(distances), abs=1e-8)
                if words[step] >= units[PREFIX].stop:
                    assert pair[PREFIX][n, units[PREFIX].start] == expected
                else:
                    assert np.isnan(pair[PREFIX][n, units[PREFIX].start])
                if words[step] <= units[PREFIX].start or words[step] >= units[PREFIX].stop:
                    assert pair[SOURCE][n, units[SOURCE].start] == expected
                    compared += 1
    assert compared > 30


def test_only_words_that_are_linked_and_mean_the_same_are_a_pair(changed):
    _, interventions, sentences, _ = changed
    sentence = sentences[0]
    texts = [sentence.source.split(), sentence.target.split()]
    assert list(interventions.paired_changes(0, texts, sentence.gold))
    assert not list(interventions.paired_changes(0, texts, replace(sentence.gold, sure=())))
    unknown = Interventions(None, BothSides(*interventions._categories), 3)
    assert not list(unknown.paired_changes(0, texts, sentence.gold))


def test_a_mark_and_its_translation_are_a_pair_that_asks_for_another(transformer):
    """The own step of a mark sees the changed source alone, so pair and word have one effect."""
    corpus = ToyTwins(train=20, valid=1, test=3)
    sentence = next(corpus.sentences("test"))
    model = double(transformer.system.model)
    [effects] = Interventions(model, corpus.substitutes(), 3).effects([(0, sentence)])
    for planted in sentence.gold.planted:
        n = effects.slot_N.index(planted.slot)
        which, pair = effects.replaced[SOURCE][n], effects.replaced_with_translation[SOURCE][n]
        assert pair[planted.link] == pytest.approx(which[planted.link], abs=1e-12)
        assert np.isnan(pair[planted.cue])


def test_translations_of_a_reversed_corpus_are_turned_round(transformer):
    categories = transformer.corpus.substitutes()
    turned = categories.inverted()
    assert turned.inverted().translations == categories.translations
    assert all(("dog",) in turned.translations[t] for t in categories.translations[("dog",)])
    longer = categories.beside([["a", "b"]], [["c", "d"]], [("a", "c")])
    assert longer.translations == {**categories.translations, ("a",): {("c",)}}
    assert longer.translations_digest != categories.translations_digest


class Half(Interventions):
    """Uses every second of eight substitutes, and no word that has fewer."""

    first = 0

    def _choose(self, number, side, unit, words):
        chosen = list(super()._choose(number, side, unit, words))
        return chosen[self.first :: 2] if len(chosen) == 8 else []


@pytest.mark.long
def test_effects_hardly_depend_on_the_draw_of_substitutes(transformer):
    """Four substitutes of each word against four others, both halves of as many pieces first."""
    by_half = []
    for first in (0, 1):
        half = Half(transformer.system.model, transformer.corpus.substitutes(), 8)
        half.first = first
        effects = half.effects([*enumerate(transformer.texts.sentences("test", 25))])
        by_half.append(
            [
                np.concatenate([e.replaced[side].ravel() for e in effects])
                for side in (SOURCE, PREFIX)
            ]
        )
    correlations = []
    for first, other in zip(*by_half, strict=True):
        both = ~np.isnan(first) & ~np.isnan(other)
        assert both.sum() > 200
        correlations.append(np.corrcoef(first[both], other[both])[0, 1])
    assert correlations[SOURCE] > 0.93
    assert correlations[PREFIX] > 0.85


def test_a_word_that_is_taken_away_has_the_mean_embedding(changed):
    model, _, sentences, by_number = changed
    sentence, effects = sentences[0], by_number[0]
    clean_TV, ids = distribution(model, sentence.source, sentence.target)
    words = model.source_subwords.words(ids[SOURCE])
    batch = model.collate([tuple(ids)])
    for word in range(len(sentence.source.split())):
        embedded = model.embed_source(batch.source_BS).clone()
        for piece, piece_word in enumerate(words):
            if piece_word == word:
                embedded[0, piece] = replacement(model, SOURCE, "mean")
        encoding = model.encode(embedded, batch.layout)
        with torch.no_grad():
            states = model.decode(encoding, model.embed_target(batch.input_BT))
            new_TV = model.logits(states).softmax(-1)[0].numpy()
        for n, step in enumerate(effects.step_N):
            expected = np.abs(new_TV[step] - clean_TV[step]).sum() / 2
            assert effects.removed[SOURCE][n, word] == pytest.approx(expected, abs=1e-8)


def test_on_planted_decisions_a_word_is_replaced_by_what_asks_for_another(transformer):
    """The model has never met the marks, which does not matter: only whose effects are averaged."""
    model = double(transformer.system.model)
    sentence = next(ToyTwins(train=20, valid=1, test=3).sentences("test"))
    interventions = Interventions(model, transformer.corpus.substitutes(), 3)
    [effects] = interventions.effects([(0, sentence)])
    clean_TV, _ = distribution(model, sentence.source, sentence.target)
    source = sentence.source.split()
    for planted in sentence.gold.planted:
        n = effects.slot_N.index(planted.slot)
        for place, other_words in (
            (planted.link, planted.other_links),
            (planted.cue, planted.other_cues),
        ):
            distances = []
            for other in other_words:
                words = [*source[:place], other, *source[place + 1 :]]
                new_TV, _ = distribution(model, " ".join(words), sentence.target)
                step = effects.step_N[n]
                distances.append(np.abs(new_TV[step] - clean_TV[step]).sum() / 2)
            assert effects.replaced[SOURCE][n, place] == pytest.approx(np.mean(distances), abs=1e-8)


@pytest.mark.parametrize("cue", ["xor", "prefix"])
def test_both_planted_words_are_replaced_at_once(transformer, cue):
    model = double(transformer.system.model)
    sentence = next(Catalogue(train=20, valid=1, test=3, cue=cue).sentences("test"))
    interventions = Interventions(model, transformer.corpus.substitutes(), 3)
    [effects] = interventions.effects([(0, sentence)])
    clean_TV, _ = distribution(model, sentence.source, sentence.target)
    [planted] = sentence.gold.planted
    n = effects.slot_N.index(planted.slot)
    distances = []
    for link in planted.other_links:
        for other in planted.other_cues:
            words = sentence.source.split()
            words[planted.link], words[planted.cue] = link, other
            new_TV, _ = distribution(model, " ".join(words), sentence.target)
            distances.append(np.abs(new_TV[effects.step_N[n]] - clean_TV[effects.step_N[n]]).sum())
    assert effects.joint_N[n] == pytest.approx(np.mean(distances) / 2, abs=1e-8)
    assert np.isnan(np.delete(effects.joint_N, n)).all()


def test_decisions_are_first_pieces_without_eos(changed):
    _, _, sentences, by_number = changed
    for number, sentence in sentences.items():
        assert len(by_number[number].step_N) == len(sentence.target.split())


def test_a_probability_too_small_for_float32_changes_by_a_number():
    clean_PV, new_PV = torch.tensor([[0.75, 0.25]]), torch.tensor([[0.0, 1.0]])
    _, [change], [lost] = _compare(new_PV, clean_PV, torch.tensor([0]))
    assert lost and -110 < change < -80


def test_a_label_is_lost_where_another_word_is_more_probable():
    clean_PV = torch.tensor([[0.6, 0.4]]).repeat(3, 1)
    new_PV = torch.tensor([[0.5, 0.5], [0.49, 0.51], [0.6, 0.4]])
    variation_P, _, lost_P = _compare(new_PV, clean_PV, torch.tensor([0, 0, 0]))
    assert lost_P.tolist() == [0, 1, 0]
    np.testing.assert_allclose(variation_P, [0.1, 0.11, 0], atol=1e-7)


@pytest.mark.parametrize("name", ["transformer", "rnn_search", "cadec"])
def test_states_of_changed_words_do_not_depend_on_what_is_computed_with_them(transformer, name):
    """Rows of one source are encoded once, and have targets of unlike lengths."""
    torch.manual_seed(0)
    sizes = {"dimension": 16, **({} if name == "rnn_search" else {"feed_forward": 32})}
    model = build_model(name, sizes, *transformer.system.subwords).eval()
    interventions = Interventions(model, transformer.corpus.substitutes(), 2)
    targets = [[5, 6, 7, 2], [5, 9, 2], [5, 6, 8, 9, 7, 2], [5, 2]]
    rows = [
        Row([source, target], np.arange(len(target)), np.arange(len(target)))
        for source in ([5, 6, 2], [8, 7, 6, 2])
        for target in targets
    ]
    together = _states_by_row(interventions, rows, 4096)
    alone = _states_by_row(interventions, rows, 1)
    assert together.keys() == alone.keys() == {*range(len(rows))}
    for n, states in alone.items():
        torch.testing.assert_close(together[n], states, rtol=1e-4, atol=1e-5)


def _states_by_row(interventions, rows, positions):
    states = {}
    with torch.no_grad():
        for group, states_PD in interventions._states(rows, positions):
            states |= zip(group, states_PD.split([len(rows[n].step_P) for n in group]), strict=True)
    return states


def test_a_word_is_as_relevant_as_its_best_piece():
    relevance = np.array([0.1, 0.5, np.nan, 0.2, 9.0])
    ranking = Ranking.of_pieces(relevance, [0, 0, 1, 2, -1], 3)
    np.testing.assert_array_equal(ranking.relevance_W, [0.5, np.nan, 0.2])
    np.testing.assert_array_equal(ranking.pieces_W, [1, 0, 1])
    np.testing.assert_array_equal(ranking.named(1), [1, 0, 0])
    np.testing.assert_array_equal(ranking.named(3), [1, 0, 1])
    assert ranking.probability([0, 2], 2) == 1 and ranking.probability([0, 1], 2) == 0


def firsts(relevance_X, words, k):
    """The words of the first k pieces' words, of every order of pieces that are as relevant."""
    pieces = [x for x in range(len(words)) if words[x] >= 0 and not np.isnan(relevance_X[x])]
    for order in permutations(pieces):
        ranked = sorted(order, key=lambda x: -relevance_X[x])
        yield list(dict.fromkeys(words[x] for x in ranked))[:k]


NAN = np.nan
TIES = {
    "all tied": ([1.0] * 7, [0, 1, 1, 1, 2, 2, 3]),
    "two levels": ([1.0, 2.0, 1.0, 1.0, 1.0, 2.0, 1.0], [0, 0, 1, 1, 2, 3, 4]),
    "a tie below the best piece": ([1.0, 3.0, 1.0, 1.0, 0.0, 1.0], [0, 0, 1, 1, 2, 3]),
    "some without relevance": ([1.0, NAN, 1.0, NAN, 1.0, 1.0], [0, 0, 1, 2, 3, 3]),
    "EOS last": ([1.0, 1.0, 1.0, 9.0], [0, 1, 1, -1]),
}


@pytest.mark.parametrize("case", TIES)
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_words_are_named_as_often_as_in_all_orders_of_tied_pieces(case, k):
    """Every order of the pieces is written out, and words are counted."""
    relevance_X, words = np.array(TIES[case][0]), TIES[case][1]
    orders = list(firsts(relevance_X, words, k))
    count = max(words) + 1
    expected_W = [np.mean([w in named for named in orders]) for w in range(count)]
    ranking = Ranking.of_pieces(relevance_X, words, count)
    np.testing.assert_allclose(ranking.named(k), expected_W, atol=1e-12)
    for pair in permutations(range(count), 2):
        both = np.mean([{*pair} <= {*named} for named in orders])
        assert ranking.probability(pair, k) == pytest.approx(both, abs=1e-12)


def test_of_tied_words_the_first_is_one_with_the_share_of_its_pieces():
    """Also of more pieces than orders can be written out for; k = 2 by the second draw by hand."""
    pieces = np.array([1, 40, 7, 2, 2, 60])
    ranking = Ranking(np.zeros(6), pieces)
    np.testing.assert_allclose(ranking.named(1), pieces / pieces.sum(), rtol=1e-12)
    share = pieces / pieces.sum()
    second = [
        sum(share[v] * pieces[w] / (pieces.sum() - pieces[v]) for v in range(6) if v != w)
        for w in range(6)
    ]
    np.testing.assert_allclose(ranking.named(2), share + second, rtol=1e-12)
    for k in range(1, 7):
        assert ranking.named(k).sum() == pytest.approx(k, rel=1e-12)


EFFECT = np.array([0.2, 0.8, NAN, 0.4])
EVEN = Ranking(np.zeros(4), np.ones(4, dtype=int))


def by_words(*relevance):
    """A ranking of words of one piece each."""
    return Ranking.of_pieces(np.array(relevance), range(len(relevance)), len(relevance))


def test_shares_of_one_decision():
    ranking = by_words(3.0, 2.0, 0.5, 1.0)
    judged = judge_side(ranking, EVEN.named(1), EFFECT, 1, 0.05)
    assert (judged.usable, judged.causal, judged.strongest) == (1, pytest.approx(0.25), 0)
    # One of four words, of which one has no substitute.
    assert judged.chance == pytest.approx((1.4 / 4) / 0.8)
    # Of three pairs of known words, one is in the order of the effects.
    assert judged.tau == pytest.approx(-1 / 3)
    two = judge_side(ranking, EVEN.named(2), EFFECT, 2, 0.05)
    assert two.causal == pytest.approx(1.0 / 1.2)
    assert (
        judge_side(ranking, EVEN.named(1), EFFECT, 1, 0.9) is None
    )  # nothing has so great an effect


@pytest.mark.parametrize(
    ("relevance", "causal", "unknown"),
    [
        ((0.0, 1.0, 2.0, 0.5), 0.8 / 1.2, 1 / 2),  # names the word without a substitute, and 0.8
        ((0.0, -1.0, 2.0, 0.5), 0.4 / 1.2, 1 / 2),
        ((NAN, NAN, 1.0, NAN), 0.0, 1.0),  # names it alone
        ((NAN, 1.0, NAN, NAN), 0.8 / 1.2, 1 / 2),  # names one word
        ((NAN, NAN, NAN, NAN), 0.0, 1.0),
    ],
)
def test_a_word_without_a_known_effect_counts_as_none_and_no_decision_is_dodged(
    relevance, causal, unknown
):
    shares = judge_side(by_words(*relevance), EVEN.named(2), EFFECT, 2, 0.05)
    assert (shares.causal, shares.unknown) == (pytest.approx(causal), pytest.approx(unknown))
    full = judge_side(by_words(3.0, 2.0, 0.5, 1.0), EVEN.named(2), EFFECT, 2, 0.05)
    # What decides which decisions count, and chance, are the same for every explainer.
    for name in ("usable", "ranked", "chance"):
        assert getattr(shares, name) == getattr(full, name)


def test_equal_relevance_is_worth_what_all_orders_are_on_average():
    """Where it stands in the sentence has no part; words have 1, 2, 1 and 3 pieces."""
    words, effect = [0, 1, 1, 2, 3, 3, 3], np.array([0.9, 0.1, NAN, 0.3])
    equal = Ranking.of_pieces(np.ones(7), words, 4)
    for k, greatest in ((1, 0.9), (2, 1.2), (3, 1.3)):
        orders = firsts(np.ones(7), words, k)
        expected = np.mean([np.nansum(effect[named]) for named in orders]) / greatest
        shares = judge_side(equal, equal.named(k), effect, k, 0.05)
        assert shares.causal == pytest.approx(expected) == shares.chance
    assert shares.strongest == pytest.approx(1 / 7)
    assert (shares.tau, shares.ranked) == (0, 1)  # an order that is not there is judged too


@pytest.mark.parametrize("k", [1, 2])
def test_draws_of_every_piece_have_chance_on_average(k):
    words, effect = [0, 1, 1, 1, 1, 2, 2, 3, -1], np.array([0.9, 0.05, 0.5, NAN])
    rng = np.random.default_rng(0)
    chance_W = Ranking.of_pieces(np.zeros(9), words, 4).named(k)
    shares = [
        judge_side(Ranking.of_pieces(rng.random(9), words, 4), chance_W, effect, k, 0.05)
        for _ in range(3000)
    ]
    causal = [share.causal for share in shares]
    error = np.std(causal) / np.sqrt(len(causal))
    assert abs(np.mean(causal) - shares[0].chance) < 3.5 * error < 0.03
    # With words and not pieces drawn at random the long word, which does little, would weigh less.
    even = min(k / 4, 1) * np.nansum(effect) / np.sort(effect[:3])[::-1][:k].sum()
    assert shares[0].chance < even - 3.5 * error


def test_tau_equals_scipys_over_words_of_known_effect():
    rng = np.random.default_rng(0)
    for _ in range(50):
        relevance, effect = rng.integers(0, 4, (2, 7)) / 4.0
        effect[rng.integers(7)] = NAN
        shares = judge_side(by_words(*relevance), np.full(7, 1 / 7), effect, 1, 0.05)
        has_effect = ~np.isnan(effect)
        expected = stats.kendalltau(relevance[has_effect], effect[has_effect]).statistic
        assert shares.tau == pytest.approx(np.nan_to_num(expected))
        # A word without relevance is behind all others.
        least = np.where(relevance == 0, NAN, relevance)
        without = judge_side(by_words(*least), np.full(7, 1 / 7), effect, 1, 0.05)
        assert without.tau == pytest.approx(shares.tau)


def test_both_sides_are_pooled_by_the_greatest_sum_of_k_words_a_side():
    effects = [EFFECT, np.array([0.6, 0.1, NAN])]
    rankings = [by_words(3.0, 2.0, 0.5, 1.0), by_words(0.0, 1.0, NAN)]
    # Named are 0.2 and 0.1, the greatest are 0.8 and 0.6.
    assert judge_sides(rankings, effects, 1, 0.05) == pytest.approx(0.3 / 1.4)
    assert judge_sides(rankings, effects, 2, 0.05) == pytest.approx(1.7 / 1.9)
    # The first step sees no prefix word.
    first = [effects[0], np.full(3, NAN)]
    assert judge_sides(rankings, first, 1, 0.05) == pytest.approx(0.2 / 0.8)
    unknown = [by_words(0.0, 1.0, 2.0, 0.5), rankings[1]]
    assert judge_sides(unknown, effects, 1, 0.05) == pytest.approx(0.1 / 1.4)
    assert judge_sides(rankings, effects, 1, 0.9) is None


def test_above_chance_is_0_for_random_words_and_1_for_the_strongest():
    sums = {"usable_source": 8.0, "causal_source": 6.0, "chance_source": 2.0}
    other_columns = ("unknown", "strongest", "tau", "change", "flips")
    sums |= dict.fromkeys((f"{key}_source" for key in other_columns), 1.0)
    arrays = {name: np.array([value]) for name, value in (sums | {"ranked_source": 8.0}).items()}
    results = Causes().of_sums(arrays)
    # Kappa of means: (0.75 - 0.25) / (1 - 0.25).
    assert results["above_chance_source"][0] == pytest.approx(0.5 / 0.75)
    by_chance = Causes().of_sums(arrays | {"causal_source": np.array([2.0])})
    assert by_chance["above_chance_source"][0] == 0
    best = Causes().of_sums(arrays | {"causal_source": np.array([8.0])})
    assert best["above_chance_source"][0] == 1


@pytest.mark.parametrize("cue", ["or", "and", "xor", "cancelling", "far", "prefix"])
def test_which_rules_take_both_words(cue):
    """In these one word alone shows no cause; in the others one word has an effect or none."""
    [sentence] = Catalogue(train=20, valid=1, test=1, cue=cue).sentences("test")
    [planted] = sentence.gold.planted
    assert planted.takes_both == (cue in ("or", "and", "xor", "cancelling"))


def test_a_decision_that_takes_two_words_has_no_causal_at_k_of_single_ones():
    nan = np.nan
    which = {"source": np.array([nan, 0.4, 0.3]), "prefix": np.array([0.7, 0.2, nan])}
    effects = {(kind, side): which[side] for kind in KINDS for side in SIDES}
    relevance = SentenceRelevance(
        0, 0, np.tile([0.1, 0.8, 0.6, nan], (3, 1)), np.tile([0.5, 0.9, nan, nan], (3, 1)),
        np.ones(3),
    )  # fmt: skip
    words = [[0, 1, 2, -1], [0, 1, 2, -1]]
    single = Causes()._sum([Decision(2, (1, 2, -1), 0.9, effects)], relevance, words, 2)
    both = Causes()._sum([Decision(2, (1, 2, -1), 0.9, effects, True)], relevance, words, 2)
    assert both["takes_both"] == 1 and "takes_both" not in single
    assert single["causal_source"] == single["causal_planted"] == pytest.approx(1.0)
    assert not {name for name in both if name.endswith(("_source", "_planted", "_pooled"))}
    # What replacing both does, and whether both are named, is known; so is the prefix.
    assert (both["both"], both["names_both"]) == (0.9, 1)
    assert both["causal_prefix"] == single["causal_prefix"]


def test_a_corpus_without_words_that_replace_each_other_is_not_applicable(transformer):
    job = transformer.changed({})
    job.exchangeable = ExchangeableWords(ListedPairs(train=[("a b", "x y")]), job.store)
    with pytest.raises(NotApplicable, match="no two words of its training text stand between"):
        next(iter(Causes().measure(job))).make()


def test_too_few_decisions_with_a_cause_are_not_applicable(transformer):
    job = transformer.changed({})
    with pytest.raises(NotApplicable, match="fewer than 100 decisions have a word with an effect"):
        next(iter(Causes(sentences=2).measure(job))).make()


def test_an_explainer_without_prefix_words_has_source_words_alone(transformer):
    job = transformer.changed({})
    of_split = job.relevance(TEACHER_FORCING)
    nothing = [
        replace(relevance, prefix_TT=np.full_like(relevance.prefix_TT, np.nan))
        for relevance in of_split
    ]
    job.relevance = lambda *_, **__: Relevances("source alone", lambda: nothing)
    columns = next(iter(Causes(sentences=40).measure(job))).make().units.columns
    assert columns["usable_source"].sum() > 100
    assert not [name for name in columns if name.endswith(("_prefix", "_pooled"))]


def results_of(job, relevances):
    """Returns the metric's results for relevance that was put together for a test."""
    job.relevance = lambda *_, **__: Relevances("made up", lambda: relevances)
    units = next(iter(Causes(sentences=40).measure(job))).make().units
    sums = {name: units[name].sum(keepdims=True) for name in units.columns}
    return {name: float(value[0]) for name, value in Causes().of_sums(sums).items()}


def test_no_explainer_gains_by_words_without_a_substitute(transformer):
    """A method of noisy effects, one that turns to such a word where it errs, and equal scores."""
    job = transformer.changed({})
    artefact = Causes(sentences=40)._effects(job)
    effects, split = load(artefact), job.texts.split("test")
    numbers, rng = split.number.tolist(), np.random.default_rng(0)
    by_name = {name: [] for name in ("method", "dodger", "uniform")}
    for relevance in job.relevance(TEACHER_FORCING):
        if relevance.number not in effects:
            continue
        index = numbers.index(relevance.number)
        words = [side.words(index) for side in (split.source, split.target)]
        scores_of = {name: [np.zeros_like(relevance.source_TS),
                        np.where(np.isnan(relevance.prefix_TT), NAN, 0.0)]
                 for name in by_name}  # fmt: skip
        for decision in effects[relevance.number]:
            for n, side in enumerate(SIDES):
                effect_W = decision.effects["replaced", side]
                if np.isnan(effect_W).all():
                    continue
                noisy_W = np.nan_to_num(effect_W) + 0.1 * rng.random(len(effect_W))
                dodging_W = noisy_W.copy()
                seen_W = ~np.isnan(decision.effects["removed", side])
                unknown_W = np.isnan(effect_W) & seen_W
                if np.nan_to_num(effect_W)[noisy_W.argmax()] < np.nanmax(effect_W):
                    dodging_W[unknown_W] = 9
                for name, scores_W in (("method", noisy_W), ("dodger", dodging_W)):
                    scores_X = np.append(scores_W, -1)[words[n]]
                    scores_of[name][n][decision.step] += scores_X
        for name, sides in scores_of.items():
            by_name[name].append(replace(relevance, source_TS=sides[0], prefix_TT=sides[1]))
    results = {name: results_of(job, relevances) for name, relevances in by_name.items()}
    for side in SIDES:
        unchanged = {
            tuple(r[f"{name}_{side}"] for name in ("usable", "chance")) for r in results.values()
        }
        assert len(unchanged) == 1
        method, dodger = (results[name] for name in ("method", "dodger"))
        assert dodger[f"unknown_{side}"] > method[f"unknown_{side}"]
        for name in ("causal", "above_chance", "strongest"):
            assert dodger[f"{name}_{side}"] <= method[f"{name}_{side}"]
        assert dodger[f"causal_{side}"] < method[f"causal_{side}"] < 1
        # Nothing is known of any word: not more and not less than chance.
        assert results["uniform"][f"above_chance_{side}"] == pytest.approx(0, abs=1e-12)


def test_a_table_of_rows_that_are_not_applicable(tmp_path):
    row = SYSTEM | {"explainer": "attention", "k": 1, "seed": ""}
    measured(Causes, tmp_path, row, NOT_APPLICABLE)
    scored = collect(Causes(), tmp_path, Draws(9, 0))
    [(_, summary)] = tables(Causes(), scored, [])
    assert "n/a" in [cell.text for line in summary.lines for cell in line.cells]


def test_a_system_that_reads_more_than_words_is_not_applicable(transformer):
    job = transformer.changed({})
    read = job.texts.sentences("test", 3)
    # The ids hold a word that these sentences lack, as they hold a context's.
    shorter = [replace(s, source=s.source.partition(" ")[2]) for s in read]
    job.texts.sentences = lambda *_: shorter
    with pytest.raises(NotApplicable, match="reads more than the sentence"):
        next(iter(Causes(sentences=3).measure(job))).make()


def test_change_and_flips_equal_those_of_one_row_at_a_time(changed):
    model, interventions, sentences, by_number = changed
    compared = 0
    for number, sentence in sentences.items():
        effects, source = by_number[number], sentence.source.split()
        clean_TV, _ = distribution(model, sentence.source, sentence.target)
        for unit in interventions._categories[SOURCE].units(source):
            news_KTV = [
                distribution(
                    model,
                    " ".join([*source[: unit.start], *entry, *source[unit.stop :]]),
                    sentence.target,
                )[0]
                for entry in interventions._choose(number, SOURCE, unit, source)
            ]
            for n, step in enumerate(effects.step_N):
                label = clean_TV[step].argmax()
                logs = [np.log(new_TV[step, label]) for new_TV in news_KTV]
                lost = [new_TV[step].argmax() != label for new_TV in news_KTV]
                change = np.mean(logs) - np.log(clean_TV[step, label])
                assert effects.change[SOURCE][n, unit.start] == pytest.approx(change, abs=1e-7)
                assert effects.flips[SOURCE][n, unit.start] == pytest.approx(np.mean(lost))
                compared += 1
    assert compared > 20


@pytest.mark.parametrize(("k", "both"), [(1, 0), (2, 1)])
def test_a_planted_decision_sums_what_both_words_do_and_whether_both_are_named(k, both):
    nan = np.nan
    which = {"source": np.array([nan, 0.4, 0.3]), "prefix": np.array([0.7, nan])}
    effects = {(kind, side): which[side] for kind in KINDS for side in SIDES}
    decision = Decision(1, (1, 2, 0), 0.9, effects)
    relevance = SentenceRelevance(
        0, 0, np.tile([0.1, 0.8, 0.6, nan], (2, 1)), np.tile([0.5, nan, nan], (2, 1)), np.ones(2)
    )
    sums = Causes()._sum([decision], relevance, [[0, 1, 2, -1], [0, 1, -1]], k)
    assert (sums["link"], sums["cue"], sums["both"], sums["earlier"]) == (0.4, 0.3, 0.9, 0.7)
    assert (sums["names_both"], sums["planted"]) == (both, 1)
    assert (sums["link_greatest"], sums["cue_greatest"]) == (1, 0)


def test_decisions_in_which_no_word_does_anything_by_itself_are_counted():
    """Not those of whose words nothing is known."""
    nan = np.nan
    which = {"source": np.array([0.01, 0.02]), "prefix": np.array([nan, nan])}
    effects = {(kind, side): which[side] for kind in KINDS for side in SIDES}
    decision = Decision(0, None, nan, effects)
    relevance = SentenceRelevance(
        0, 0, np.array([[0.1, 0.8, nan]]), np.full((1, 3), nan), np.ones(1)
    )
    sums = Causes()._sum([decision], relevance, [[0, 1, -1], [0, 1, -1]], 1)
    assert sums["unusable_source"] == 1 and "usable_source" not in sums
    assert "unusable_prefix" not in sums


def test_the_note_on_planted_words_says_what_they_do():
    row = SYSTEM | {"explainer": "attention", "k": 1, "seed": ""}
    values = {"link": 0.9, "cue": 0.1, "link_greatest": 1.0, "cue_greatest": 0.0}
    _, note = Causes().notes([scored(row, values, as_long=1.0)])
    effects = "0.900 (greatest of the source words' in 100.0 %), the cue's 0.100 (greatest in 0.0 %"
    assert f"the link's effect is {effects}" in note


def test_a_note_says_that_words_are_exchanged_by_a_heuristic():
    row = SYSTEM | {"explainer": "attention", "k": 1, "seed": ""}
    by_grammar = scored(row, {}, as_long=1.0)
    by_heuristic = scored(row, {}, as_long=1.0)
    by_heuristic.measurement.settings[EXCHANGED] = HEURISTIC
    assert HEURISTIC_NOTE not in Causes().notes([by_grammar])
    assert Causes().notes([by_grammar, by_heuristic]).count(HEURISTIC_NOTE) == 1


def test_each_training_has_a_note_on_planted_words():
    row = SYSTEM | {"explainer": "attention", "k": 1, "seed": ""}
    values = {"link": 0.9, "cue": 0.1, "link_greatest": 1.0, "cue_greatest": 0.0}
    rows = [scored(row, values, model=f"{n}" * 8, as_long=1.0) for n in (1, 2)]
    notes = Causes().notes([*rows, scored(row, values | {"link": 0.5}, model="3", as_long=1.0)])
    assert [note.partition(":")[0].split()[-1] for note in notes[1:]] == ["111111", "222222", "3"]
    assert "the link's effect is 0.500" in notes[-1]
