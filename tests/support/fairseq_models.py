"""Small systems that fairseq trained, in `fixtures/fairseq`."""

from support.paths import ROOT
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.fairseq.opening import open_fairseq

FIXTURES = ROOT / "tests" / "fixtures" / "fairseq"
LANGUAGES = {"source_language": "en", "target_language": "de"}


def open_fixture(name: str, **changes: str) -> NMTModel:
    """Opens a system with the codes beside it."""
    folder = FIXTURES / name
    codes = next(str(folder / c) for c in ("codes", "sentencepiece.model")
                 if (folder / c).exists())  # fmt: skip
    options = {"source_codes": codes, "target_codes": codes, **LANGUAGES} | changes
    return open_fairseq(str(folder / "checkpoint_best.pt"), **options)
