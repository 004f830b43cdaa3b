"""A look at a wrong antecedent: does the translation follow it (Dinarelli et al. 2024, Figure 4)?

A pronoun that looks at `drug` and not at its antecedent `parasite` may still be translated
coherently with what it looks at: `es`, as `Medikament`. Shapes as in `links`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xnmt_bench.corpora.function_words import is_function
from xnmt_bench.metrics.coref_attention.context import ContextWeights
from xnmt_bench.metrics.coref_attention.link_attention import PlacedMention, Verdict
from xnmt_bench.morphology import Gender, Morphology


class Agreement:
    """Genders in a system's own translation, and the pronouns that tell what they follow.

    Words of the source have the gender of the words that they are translated by: by the links on
    which IBM model 1 agrees in both directions, trained on the corpus and the translations.

    Args:
        context: the sentences, as the system reads and translates them.
        morphology: of the target language.
    """

    def __init__(self, context: ContextWeights, morphology: Morphology) -> None:
        self._context, self._morphology = context, morphology

    def judge(
        self,
        side: str,
        index: int,
        distance: int,
        weights_IN: np.ndarray,
        links: Sequence[tuple[PlacedMention, PlacedMention]],
        function_words: frozenset[str],
    ) -> list[Verdict]:
        """Return the pronouns of a sentence that look at a wrong word of a context sentence.

        Counted is a mention without a content word, none of whose antecedents there it looks at,
        where all genders are known and the word of the greatest weight has another one than they.

        Args:
            side: source or target.
            index: of the current sentence.
            distance: of the context sentence, from 1.
            weights_IN: from `significant`.
            links: each mention with an antecedent of its in the context sentence.
            function_words: of the side's language, lower-cased.
        """
        judged = []
        # Each mention once, in the order of the links.
        for mention in dict.fromkeys(m for m, _ in links):
            right = [a.words for m, a in links if m == mention]
            weights_N = weights_IN[list(mention.words)].max(axis=0, initial=0.0)
            looks_right = any(weights_N[list(words)].any() for words in right)
            # A noun has a gender of its own, and follows none.
            pronoun = all(is_function(text, function_words) for text in mention.texts)
            if looks_right or not pronoun or not weights_N.any():
                continue
            own_gender = self._gender(side, index, mention.words)
            # Of several words the heaviest is what it looks at.
            looked_at = self._gender(side, index - distance, (int(weights_N.argmax()),))
            antecedent_genders = {self._gender(side, index - distance, words) for words in right}
            if (
                None not in (own_gender, looked_at, *antecedent_genders)
                and looked_at not in antecedent_genders
            ):
                judged.append(
                    Verdict(index, own_gender == looked_at, own_gender in antecedent_genders)
                )
        return judged

    def _gender(self, side: str, index: int, words: Sequence[int]) -> Gender | None:
        spoken = self._context.spoken["target"][index].words
        if side == "source":
            # Source words have no gender in English; their translations have.
            words = sorted(j for i, j in self._context.links[index] if i in words)
        # The end of a sentence may be a word of it that is looked at.
        evidence = self._morphology.gender(spoken, [n for n in words if n < len(spoken)])
        return evidence and evidence.gender
