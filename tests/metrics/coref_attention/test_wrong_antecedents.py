"""Pronouns that look at a wrong antecedent: what does their translation agree with?"""

import csv
from functools import partial
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from support.configurations import GENERATED, TRANSFORMER
from support.forked_commands import command, must_run
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.metrics.coref_attention import CorefAttention
from xnmt_bench.metrics.coref_attention.agreement import Agreement
from xnmt_bench.metrics.coref_attention.context import Spoken
from xnmt_bench.metrics.coref_attention.link_attention import (
    CorefScores,
    PlacedMention,
    Verdict,
    coref_scores,
)
from xnmt_bench.morphology import GenderEvidence, Morphology
from xnmt_bench.registry import create
from xnmt_bench.words.ibm_model_1 import agreed_links

FUNCTION_WORDS = frozenset(["it", "the", "es", "er", "der", "das"])


class Few(Morphology):
    """A dictionary of a few words."""

    language, version = "de", "told"
    genders: ClassVar[dict[str, str]] = {
        "Medikament": "n",
        "Parasit": "m",
        "es": "n",
        "er": "m",
        "Tier": "n",
        "Arzt": "m",
    }

    def gender(self, words, chosen):
        genders = {self.genders[words[n]] for n in chosen if words[n] in self.genders}
        return GenderEvidence(genders.pop(), "") if len(genders) == 1 else None


def spoken(text, **chains):
    words = text.split()
    mentions = [PlacedMention(c, (n,), (words[n],)) for c, places in chains.items() for n in places]
    return Spoken(words, tuple(mentions))


def agreement(source, target):
    """Of two sentences, the second one with a pronoun."""
    pairs = [("the parasite", "der Parasit"), ("the drug", "das Medikament"), ("it", "es"),
             ("it", "er"), ("parasite", "Parasit"), ("drug", "Medikament"), ("kills", "tötet"),
             ("the", "das"), ("the", "der"), ("is bad", "ist schlecht"), ("is", "ist"),
             ("it is", "es ist"), ("it is", "er ist")]  # fmt: skip
    split = [(x.split(), y.split()) for x, y in pairs]
    sides = {"source": source, "target": target}
    return Agreement(SimpleNamespace(spoken=sides, links=linked(sides, split)), Few())


def linked(sides, further):
    """As the metric's context links them."""
    pairs = zip(sides["source"], sides["target"], strict=True)
    return agreed_links([(x.words, y.words) for x, y in pairs], further)


def looking(words, at, rows=3):
    """Weights of the first word of the current sentence."""
    weights = np.zeros((rows, words))
    for place, weight in at.items():
        weights[0, place] = weight
    return weights


@pytest.mark.parametrize(
    ("pronoun", "at", "expected"),
    [
        ("es", {4: 1.0}, [Verdict(1, True, False)]),  # the paper's case: es, as Medikament
        ("er", {4: 1.0}, [Verdict(1, False, True)]),  # it still follows its antecedent
        ("es", {1: 0.4, 4: 1.0}, []),  # it looks at its antecedent too
        ("es", {}, []),  # it looks nowhere
        ("es", {2: 1.0}, []),  # at what has no gender
        ("es", {2: 0.5, 4: 1.0}, [Verdict(1, True, False)]),  # the greatest weight counts
        ("sie", {4: 1.0}, []),  # the translation's gender is unknown
    ],
)
@pytest.mark.parametrize("side", ["source", "target"])
def test_figure_4(side, pronoun, at, expected):
    source = [spoken("the parasite kills the drug", a=[1]), spoken("it is bad", a=[0])]
    target = [
        spoken("der Parasit tötet das Medikament", a=[1]), spoken(f"{pronoun} ist schlecht", a=[0])
    ]  # fmt: skip
    side_sentences = source if side == "source" else target
    links = [(side_sentences[1].mentions[0], side_sentences[0].mentions[0])]
    closed_class = FUNCTION_WORDS | {"sie"}
    verdict = agreement(source, target).judge(side, 1, 1, looking(5, at), links, closed_class)
    assert verdict == expected


def test_words_of_the_same_gender_tell_nothing_and_names_follow_nobody():
    source = [spoken("a b"), spoken("c d")]
    same_gender = [spoken("Tier Medikament", a=[0]), spoken("es ist da", a=[0])]
    links = [(same_gender[1].mentions[0], same_gender[0].mentions[0])]
    judge = agreement(source, same_gender).judge
    assert judge("target", 1, 1, looking(2, {1: 1.0}), links, FUNCTION_WORDS) == []
    noun = [spoken("Medikament Arzt", a=[0]), spoken("Tier ist da", a=[0])]
    links = [(noun[1].mentions[0], noun[0].mentions[0])]
    judge = agreement(source, noun).judge
    assert judge("target", 1, 1, looking(2, {1: 1.0}), links, FUNCTION_WORDS) == []
    # The end of a sentence is not a word of the translation.
    assert judge("target", 1, 1, looking(3, {2: 1.0}), links, FUNCTION_WORDS | {"tier"}) == []


def test_shares_are_of_what_is_judged():
    scores = CorefScores(judged=[Verdict(0, True, False), Verdict(0, False, True),
                                 Verdict(1, True, False), Verdict(1, False, False)])  # fmt: skip
    units = scores.units("a test set", range(3), "all")
    sums = {name: column.sum(keepdims=True) for name, column in units.columns.items()}
    rates = coref_scores(sums)
    assert (rates["judged"], rates["follows_wrong"], rates["follows_right"]) == (4, 0.5, 0.25)
    assert "judged" not in scores.units("a test set", range(3), "distance 1").columns
    assert "judged" not in CorefScores().units("a test set", range(3), "all").columns
    none = {name: np.zeros(1) for name in sums}
    assert np.isnan(coref_scores(none)["follows_wrong"])


def test_with_references_as_translations_every_pronoun_follows_its_antecedent():
    """Generated documents, real genders; every pronoun looks at each word but its antecedents."""
    pytest.importorskip("german_nouns")
    sentences = list(ToyCorpus(test=400).sentences("test"))

    def placed(text, mentions):
        words = text.split()
        texts = (
            PlacedMention(m.chain, m.words, tuple(words[n] for n in m.words)) for m in mentions
        )
        return Spoken(words, tuple(texts))

    sides = {
        "source": [placed(s.source, s.gold.source_mentions) for s in sentences],
        "target": [placed(s.target, s.gold.target_mentions) for s in sentences],
    }
    train = ToyCorpus(train=2000).sentences("train")
    words = [(s.source.split(), s.target.split()) for s in train]
    context = SimpleNamespace(spoken=sides, links=linked(sides, words))
    judge = Agreement(context, create("morphologies", "german_nouns")).judge
    closed_class = {"source": frozenset({"it"}), "target": frozenset({"er", "sie", "es"})}
    for side, of_side in sides.items():
        judged = []
        for n, (now, before) in enumerate(zip(of_side[1:], of_side, strict=False), start=1):
            if sentences[n].document != sentences[n - 1].document:
                continue
            for m, a in ((m, a) for m in now.mentions for a in before.mentions):
                for place in set(range(len(before.words))) - set(a.words):
                    weights = np.zeros((len(now.words), len(before.words)))
                    weights[list(m.words), place] = 1
                    if m.chain == a.chain:
                        judged += judge(side, n, 1, weights, [(m, a)], closed_class[side])
        assert len(judged) > 5
        assert all(pronoun.right and not pronoun.wrong for pronoun in judged)


@pytest.mark.long
def test_from_the_command_line(tmp_path):
    pytest.importorskip("german_nouns")
    small = [*GENERATED, *TRANSFORMER, "nmt=concat", "metric=[coref_attention]",
             "metric.coref_attention.heatmaps=0", f"results={tmp_path}/results",
             f"store={tmp_path}/store"]  # fmt: skip
    genders = "metric.coref_attention.morphology=german_nouns"
    must_run("train.py", *small, genders, "explainer=attention", cwd=tmp_path)
    shown = must_run("evaluate.py", *small, genders, cwd=tmp_path)
    assert "Genders: german-nouns" in " ".join(shown.stdout.split())
    with (tmp_path / "results" / "coref_attention.csv").open(encoding="utf-8") as lines:
        rows = [r for r in csv.DictReader(lines) if r["links_of"] == "all"]
    assert {r["explainer"] for r in rows} == {"attention", "attention, shuffled", "uniform"}
    assert all(r["judged"] for r in rows)
    uniform_rows = [r for r in rows if r["explainer"] == "uniform"]
    assert [float(r["judged"]) for r in uniform_rows] == [0, 0]  # which looks nowhere
    done = command("train.py", *small, genders, "corpus.reversed=true", cwd=tmp_path)
    assert done.returncode != 0
    assert "the morphology is for de, but the translations are en" in done.stderr


@pytest.mark.parametrize("nearest", [False, True])
def test_a_pronoun_that_looks_at_a_farther_antecedent_looks_at_a_right_word(nearest):
    antecedents = (PlacedMention("c", (0,), ("Parasit",)), PlacedMention("c", (2,), ("Tier",)))
    earlier = Spoken(["Parasit", "und", "Tier", "da"], antecedents)
    current = Spoken(["es"], (PlacedMention("c", (0,), ("es",)),))
    context = SimpleNamespace(spoken={"target": [earlier, current]})
    judge = partial(Agreement(context, Few()).judge, "target", 1)
    scores = CorefScores(judged=[])
    weights = [np.array([[0.9, 0.03, 0.04, 0.03]])]
    CorefAttention(nearest=nearest)._score(scores, [earlier, current], 1, weights, "de", judge)
    assert scores.judged == []
