"""The test sentences whose words can be changed one by one."""

from __future__ import annotations

from collections.abc import Iterator

from xnmt_bench.corpora.sentence import Sentence
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.errors import NotApplicable
from xnmt_bench.metrics.causes.effects import Interventions
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job


def tied_sentences(
    job: Job, count: int, interventions: Interventions
) -> Iterator[tuple[int, Sentence]]:
    """Yield the test sentences, with their numbers, whose every subword is a piece of one word.

    Args:
        job: whose test set it is.
        count: sentences, from the first.
        interventions: of the job's system.

    Raises:
        NotApplicable: the system reads more than the words of a sentence.
    """
    split = job.texts.split(EVALUATED)
    for index, sentence in enumerate(job.texts.sentences(EVALUATED, count)):
        ids = [split.source[index].tolist(), split.target[index].tolist()]
        # A context, or markers, would be lost where words are encoded anew.
        if (
            interventions.encode([split_words(s) for s in (sentence.source, sentence.target)])
            != ids
        ):
            raise NotApplicable("the system reads more than the sentence, such as a context")
        # Of a subword of two words it is not known which of them has an effect.
        if not split.untied(index):
            yield int(split.number[index]), sentence
