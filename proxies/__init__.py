"""Proxy models Q: an NMT decision from its rule alone (Li et al. 2020, section 3.2)."""

from proxies.base import Proxy
from proxies.fn import FN
from proxies.rn import RN
from proxies.sa import SA

PROXIES: dict[str, type[Proxy]] = {"fn": FN, "rn": RN, "sa": SA}

__all__ = ["FN", "PROXIES", "RN", "SA", "Proxy"]
