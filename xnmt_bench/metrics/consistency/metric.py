"""Coreference consistency of translations, as a metric (Yehudai et al. 2023)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xnmt_bench.corpora.consistency import SUBSETS, Suite, read_suite, translations
from xnmt_bench.errors import ConfigError, StoreError, XnmtError
from xnmt_bench.metrics.consistency.judge import CAUSES, CLUSTERS, Judged, judge
from xnmt_bench.metrics.consistency.layers import FILE, layer, write_judged
from xnmt_bench.metrics.consistency.links import EFLOMAL, links
from xnmt_bench.metrics.consistency.links import FILE as LINKS
from xnmt_bench.metrics.layer import Layer, names
from xnmt_bench.metrics.measurement import Evidence, Measurement, Planned, Scored
from xnmt_bench.metrics.metric import Column, Key, SumMetric, hundredths, ratio
from xnmt_bench.metrics.units import Units
from xnmt_bench.morphology import Morphology
from xnmt_bench.options import Text
from xnmt_bench.pipeline.job import Job
from xnmt_bench.registry import create, entries, load
from xnmt_bench.store import file_hash, verified

log = logging.getLogger(__name__)
JUDGED = "judged"  # of a measurement's files
one_digit = "{:.1f}".format


class Consistency(SumMetric):
    """Whether pronouns agree with the nouns that they stand for; no reference is needed.

    A unit is a sentence of a suite.

    Args:
        suite: by name.
        data: the folder that holds the suites.
        language: of the translations.
        links: `eflomal`, or a file of links in Pharaoh's form.
        learn_from: a file of further lines `source ||| translation` that eflomal learns from.
        morphology: by name; None for the language's usual one.
    """

    name = "consistency"
    title = "Coreference consistency"
    note = (
        "Share of the sentences in which the pronoun's translation has the gender of its entity's, "
        "where both have one, with its 95 % bootstrap interval over sentences; higher is better. "
        "Gender accuracy: the entity's is the gold one. Delta G: F1 of masculine less that of "
        "feminine entities; delta S: accuracy on stereotypical less anti-stereotypical sentences. "
        "Link: the pronoun goes with the right one of two entities of different gender. Both: the "
        "entities have one gender, so that whoever makes everybody a man is consistent too."
    )
    keys = (
        Key("links", "links", "links: {}", usual=EFLOMAL),
        Key("learn_from", "learnt from", "learnt from {} too"),
        Key("morphology", "genders", "genders: {}"),
    )
    columns = (
        Column("consistency", "consistency %", hundredths, "higher", interval=True),
        Column("determined", "determined %", hundredths),
        Column("gender_accuracy", "gender accuracy %", hundredths, "higher", interval=True),
        Column("f1_male", "F1 masculine", one_digit, "higher"),
        Column("f1_female", "F1 feminine", one_digit, "higher"),
        Column("delta_g", "delta G", one_digit),
        Column("delta_s", "delta S", one_digit),
        Column("link_accuracy", "link %", hundredths, "higher", interval=True),
        Column("link_n", "link n", "{:,.0f}".format),
        Column("neutral_pronouns", "neutral pronouns %", hundredths),
        *(Column(name, f"{name.replace('_', ' ')} %", hundredths, shown=False) for name in CAUSES),
        *(Column(f"cluster_{c}", f"{c} %", hundredths, shown=c == "both") for c in CLUSTERS),
    )  # fmt: skip
    compared = "nmt"

    def __init__(
        self,
        suite: Text = "winomt",
        data: Text | None = None,
        language: Text | None = None,
        links: Text = EFLOMAL,
        learn_from: Text | None = None,
        morphology: Text | None = None,
    ) -> None:
        self.suite, self.data, self.language = suite, data, language
        self.links, self._morphology = links, morphology
        self._more = None if learn_from is None else Path(learn_from)

    def measure(self, job: Job) -> Iterator[Planned]:
        """A file's translations of the suite."""
        door = job.door("outputs")
        if door is None:
            raise XnmtError("metric=[consistency] reads translations: name them as outputs.path")
        if self.data is None or self.language is None:
            given = {"data": self.data, "language": self.language}
            missing = [name for name, value in given.items() if value is None]
            raise ConfigError([f"metric.consistency.{name} is needed" for name in missing])
        name, morphology = self._chosen(self.language)
        suite = read_suite(self.suite, Path(self.data), self.language)
        identity = {
            "corpus": suite.name, "lang_pair": f"en-{self.language}", "nmt": door.name,
            "links": self.links if self.links == EFLOMAL else Path(self.links).name,
            "learn_from": self._more.name if self._more else "",
            "morphology": name,
        }  # fmt: skip

        def make() -> Evidence:
            texts = translations(door.path, door.read(), suite.items)
            return self._evidence(job, suite, texts, morphology)

        yield Planned(identity, "", make)

    def measured_from_files(self, job: Job) -> bool:
        """Translations of others need no model."""
        return job.door("outputs") is not None

    def _chosen(self, language: str) -> tuple[str, Morphology]:
        """The named morphology, or the language's usual one.

        Raises:
            XnmtError: there is none, or it is of another language.
        """
        known = {name: load("morphologies", name) for name in sorted(entries("morphologies"))}
        usual = [name for name, one in known.items() if one.usual and one.language == language]
        name = self._morphology or next(iter(usual), None)
        if name is None:
            told = ", ".join(f"{one.language} ({name})" for name, one in known.items())
            raise XnmtError(f"no morphology of {language!r}; there are {told}")
        made: Morphology = create("morphologies", name)
        if made.language != language:
            raise XnmtError(f"{name} is of {made.language}, the translations are {language}")
        return name, made

    def _evidence(
        self, job: Job, suite: Suite, texts: Sequence[str], morphology: Morphology
    ) -> Evidence:
        aligned, pairs = links(job.store, self.links, suite.items, texts, self._more)
        judged = [
            judge(item, text.split(), own, morphology)
            for item, text, own in zip(suite.items, texts, pairs, strict=True)
        ]
        units = Units(
            f"{suite.name} {suite.fingerprint}", np.arange(len(judged)), statistics(suite, judged)
        )
        # Of the links themselves: eflomal's are others each time.
        made_by = {
            "suite": suite.fingerprint,
            "links": file_hash(aligned.path / LINKS)[:16],
            "genders": morphology.version.replace(":", ""),
        }

        def work(folder: Path) -> dict[str, Any]:
            write_judged(suite.items, texts, pairs, judged, folder)
            return {}

        made = job.store.make(
            "consistency_judged", work, version=1, cheap=True,
            morphology=type(morphology).__name__, **made_by,
        )  # fmt: skip
        files = {JUDGED: str(made.path / FILE)}
        return Evidence(units, made_by, {"genders": morphology.version}, files)

    def layers(self, measurements: Sequence[Measurement]) -> Iterator[Layer]:
        """Every sentence, with the links and genders of its mentions."""
        read = [m for m in measurements if JUDGED in m.files]
        for name, m in zip(names(read, self.identity), read, strict=True):
            try:
                yield layer(name, verified(Path(m.files[JUDGED])))
            except StoreError as error:
                log.warning("not on the page: %s", error)

    def of_sums(self, sums_R: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Shares of the sentences that each is asked of."""
        f1 = {
            gender: 200 * ratio(sums_R[f"hit_{g}"], sums_R[f"said_{g}"] + sums_R[f"gold_{g}"])
            for gender, g in (("male", "m"), ("female", "f"))
        }
        by_set = {name: ratio(sums_R[f"{name}_right"], sums_R[name]) for name in SUBSETS}
        decided_R = sums_R["cluster_right"] + sums_R["cluster_wrong"]
        results = {
            "consistency": ratio(sums_R["consistent"], sums_R["determined"]),
            "determined": ratio(sums_R["determined"], sums_R["sentences"]),
            "gender_accuracy": ratio(sums_R["accurate"], sums_R["sentences"]),
            "f1_male": f1["male"],
            "f1_female": f1["female"],
            "delta_g": f1["male"] - f1["female"],
            "delta_s": 100 * (by_set["pro"] - by_set["anti"]),
            "link_accuracy": ratio(sums_R["cluster_right"], decided_R),
            "link_n": decided_R,
            "neutral_pronouns": ratio(sums_R["pronoun_n"], sums_R["pronoun_known"]),
        }
        results |= {name: ratio(sums_R[name], sums_R["sentences"]) for name in CAUSES}
        clusters_R = sum(sums_R[f"cluster_{name}"] for name in CLUSTERS)
        return results | {
            f"cluster_{name}": ratio(sums_R[f"cluster_{name}"], np.asarray(clusters_R))
            for name in CLUSTERS
        }

    def notes(self, scored: Sequence[Scored]) -> list[str]:
        """What was left out, by cause, and by what genders were told."""
        notes = []
        for one in (s for s in scored if s.measurement.ok):
            row = one.row
            told = ", ".join(f"{name.replace('_', ' ')} {100 * row[name]:.1f} %" for name in CAUSES)
            who = f"{row['corpus']} {row['lang_pair']} {row['nmt']}"
            notes.append(f"{who}: left out: {told}. Genders: {one.measurement.facts['genders']}.")
        return notes


def statistics(suite: Suite, judged: Sequence[Judged]) -> dict[str, np.ndarray]:
    """What each sentence contributes, 0 or 1."""

    def column(values: Iterator[bool]) -> np.ndarray:
        return np.fromiter(values, dtype=np.float64, count=len(judged))

    both = list(zip(suite.items, judged, strict=True))
    columns = {
        "sentences": column(True for _ in judged),
        "determined": column(not j.cause for j in judged),
        "consistent": column(j.consistent for j in judged),
        "accurate": column(j.entity == i.gender for i, j in both),
        "pronoun_n": column(j.pronoun == "n" and i.gender != "n" for i, j in both),
        "pronoun_known": column(j.pronoun is not None and i.gender != "n" for i, j in both),
    }
    for gender in "mf":
        columns[f"gold_{gender}"] = column(i.gender == gender for i in suite.items)
        columns[f"said_{gender}"] = column(j.entity == gender for j in judged)
        columns[f"hit_{gender}"] = column(i.gender == j.entity == gender for i, j in both)
    for name in SUBSETS:
        columns[name] = column(name in i.sets for i in suite.items)
        columns[f"{name}_right"] = column(name in i.sets and j.entity == i.gender for i, j in both)
    columns |= {name: column(j.cause == name for j in judged) for name in CAUSES}
    return columns | {f"cluster_{c}": column(j.cluster == c for j in judged) for c in CLUSTERS}
