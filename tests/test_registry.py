"""The one registry: names, what was meant by a wrong one, and collisions."""

from importlib.metadata import EntryPoint, EntryPoints, entry_points

import pytest
from omegaconf import OmegaConf

from xnmt_bench import registry
from xnmt_bench.errors import XnmtError
from xnmt_bench.explainers.random import Random
from xnmt_bench.metrics.aer import AER
from xnmt_bench.registry import (
    KINDS,
    create,
    entries,
    instantiate,
    load,
    load_explainer,
    options,
    unknown,
)

METRICS = (
    "aer",
    "annotation",
    "antecedent",
    "causes",
    "confidence",
    "consistency",
    "context_use",
    "contrastive",
    "coref_attention",
    "cues",
    "erasure",
    "fidelity",
    "infidelity",
    "natural_twins",
    "quality",
    "repetition",
    "robustness",
    "soft",
    "student",
)


def declare(monkeypatch, kind, **values):
    """Further packages that declare something of a kind."""
    group = f"xnmt_bench.{kind}"
    declared = [EntryPoint(n.rstrip("_"), v, group) for n, v in values.items()]
    there = [point for kind in KINDS for point in entry_points(group=f"xnmt_bench.{kind}")]
    entries_there = EntryPoints([*there, *declared])
    monkeypatch.setattr(registry, "entry_points", lambda: entries_there)
    monkeypatch.setattr(registry, "installed", registry.installed.__wrapped__)  # not kept
    return group


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_everything_that_is_declared_can_be_loaded(kind):
    declared_entries = entries(kind)
    assert list(declared_entries) == sorted(declared_entries)
    assert declared_entries
    for name in declared_entries:
        assert isinstance(load(kind, name), type)


def test_nothing_is_imported_before_it_is_asked_for(monkeypatch):
    declare(monkeypatch, "metrics", broken="no_such_package.module:Metric")
    assert list(entries("metrics")) == sorted([*METRICS, "broken"])
    assert load("metrics", "aer") is AER


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        (
            "explainers",
            "atention",
            r"no explainer 'atention'; did you mean attention\?",
        ),
        ("explainers", "gradient_nrom", "no explainer 'gradient_nrom'; did you mean gradient_norm"),
        ("metrics", "fidelty", r"no metric 'fidelty'; did you mean fidelity or infidelity\?"),
        ("analyses", "densty", r"no analysis 'densty'; did you mean density\?"),
        ("proxies", "saa", r"no proxy 'saa'; did you mean sa\?"),
        ("architectures", "transfromer", "no NMT architecture .*; did you mean transformer"),
        ("metrics", "zzz", f"no metric 'zzz'; there are {', '.join(METRICS)}"),
        ("architectures", "gru", "no NMT architecture 'gru'; there are cadec, decoder_only, "),
    ],
)
def test_an_unknown_name_is_answered_with_what_may_have_been_meant(kind, name, message):
    for ask in (load, create):
        with pytest.raises(XnmtError, match=message):
            ask(kind, name)


def test_several_that_are_near_are_all_named():
    assert unknown("metric", "near", ["far", "nearer", "nears"]) == (
        "no metric 'near'; did you mean nears or nearer?"
    )
    assert unknown("metric", "x", []) == "no metric 'x'; there are "


def test_two_packages_with_one_name_collide(monkeypatch):
    declare(monkeypatch, "explainers", attention="other.package:Attention")
    with pytest.raises(XnmtError) as error:
        entries("explainers")
    message = str(error.value)
    assert "two things are called explainer 'attention'" in message
    assert "other.package:Attention" in message
    assert "xnmt_bench.explainers.attention:Attention" in message
    # A name of one kind takes none of another's.
    assert entries("metrics")


def test_a_package_that_is_installed_twice_does_not_collide(monkeypatch):
    declare(monkeypatch, "explainers", random="xnmt_bench.explainers.random:Random")
    assert load("explainers", "random") is Random


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("no_such_package:A", "no_such_package"),
        ("xnmt_bench.explainers.random:NoSuchClass", "NoSuchClass"),
    ],
)
def test_what_cannot_be_imported_is_named(monkeypatch, value, problem):
    declare(monkeypatch, "explainers", mine=value)
    with pytest.raises(XnmtError, match=rf"explainer 'mine' \({value}\): .*{problem}"):
        load("explainers", "mine")


def test_options_are_given_and_refused():
    assert load_explainer("random", seed=3).seed == 3
    with pytest.raises(XnmtError, match=r"explainer 'random': .*sed"):
        load_explainer("random", sed=1)
    with pytest.raises(XnmtError, match=r"metric\.aer\.symmetrisation: .*did you mean union"):
        create("metrics", "aer", symmetrisation="unoin")


def test_options_of_a_class_are_its_arguments():
    assert options(Random) == {"seed": 0}

    class Plugin:
        def __init__(self, vocabulary, needed, size=1, *layers, named="x", **keywords):
            pass

    assert options(Plugin, but=["vocabulary"]) == {"needed": "???", "size": 1, "named": "x"}


def test_a_configured_target_that_fails_says_what_it_is():
    def node(target, **arguments):
        return OmegaConf.create({"_target_": target, **arguments})

    instance = instantiate(
        "explainer 'random'", node("xnmt_bench.explainers.random.Random", seed=2)
    )
    assert isinstance(instance, Random)
    with pytest.raises(XnmtError, match=r"explainer 'random': .*sed"):
        instantiate("explainer 'random'", node("xnmt_bench.explainers.random.Random", sed=2))
    with pytest.raises(XnmtError, match=r"metric 'mine': .*no_such_package"):
        instantiate("metric 'mine'", node("no_such_package.Metric"))
    # An error that already names its cause gets no prefix.
    with pytest.raises(XnmtError, match=r"^metric\.aer\.gold and metric\.aer\.hypothesis: give"):
        instantiate("metric 'aer'", node("xnmt_bench.metrics.aer.AER", gold="x"))
