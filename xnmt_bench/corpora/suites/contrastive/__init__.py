"""Contrastive test sets: readers of the published ones, a plain form, and sets that are made."""

from xnmt_bench.corpora.suites.contrastive.files import read_groups
from xnmt_bench.corpora.suites.contrastive.group import (
    Antecedent,
    ContrastiveSet,
    Group,
    Variant,
    to_lines,
)
from xnmt_bench.corpora.suites.contrastive.reading import (
    BUILT,
    OWN,
    as_read,
    find_sets,
    read_sets,
    require_pair,
)

__all__ = [
    "BUILT",
    "OWN",
    "Antecedent",
    "ContrastiveSet",
    "Group",
    "Variant",
    "as_read",
    "find_sets",
    "read_groups",
    "read_sets",
    "require_pair",
    "to_lines",
]
