"""The gender that words have in their sentence, by language; each back-end is a plug-in."""

from xnmt_bench.morphology.base import Gender, GenderEvidence, Morphology, stripped

__all__ = ["Gender", "GenderEvidence", "Morphology", "stripped"]
