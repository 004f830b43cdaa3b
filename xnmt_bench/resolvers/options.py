"""Options of a system on coreference in its source sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from xnmt_bench.options import Text
from xnmt_bench.registry import create
from xnmt_bench.resolvers.base import Resolver

PREDICTED: Literal["predicted"] = "predicted"


@dataclass(frozen=True)
class CoreferenceOptions:
    """Who is who, by which resolver, and which markers are read.

    Attributes:
        resolver: a plug-in's name; it decides training examples, and markers.
        path: of the resolver's file, where it reads one.
        read: which markers a system with markers reads when it is used: predicted by the resolver,
            the corpus's own (`gold`), or none (Yehudai et al. 2023, section 4).
    """

    resolver: Text = "learnt"
    path: Text | None = None
    read: Literal["predicted", "gold", "none"] = PREDICTED

    def create_resolver(self) -> Resolver:
        """Return the resolver; an XnmtError where there is none of this name."""
        # Most resolvers take no file, and would refuse the option.
        options = {"path": self.path} if self.path else {}
        resolver: Resolver = create("resolvers", self.resolver, **options)
        return resolver
