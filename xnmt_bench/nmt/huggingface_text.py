"""Hugging Face tokenizers: a sentence as ids, and the ids that a family puts around it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from transformers import PretrainedConfig, PreTrainedTokenizerBase

from xnmt_bench.corpora.subwords import SPECIAL, Subwords
from xnmt_bench.errors import XnmtError
from xnmt_bench.nmt.foreign import Renumbering

SAMPLE = "a"  # some text, to see what a tokenizer puts around it


class HubSubwords(Subwords):
    """One side of a Hugging Face tokenizer; the families read here are all SentencePiece's.

    Args:
        tokenizer: both sides' tokenizer.
        target: whether this is the target side.
        ids: the renumbering of this side.
        made_from: fingerprint of the tokenizer's files and options.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, target: bool, ids: Renumbering, made_from: str
    ) -> None:
        self.ids = ids
        self._tokenizer, self._key = tokenizer, "text_target" if target else "text"
        self._made_from = f"{made_from} {self._key}"
        written = {number: piece for piece, number in _vocabulary(tokenizer, target).items()}
        # Vocabularies are padded to a round size with ids that nothing is written as.
        self._pieces = [written.get(i, f"<{i}>") for i in self.ids.theirs(range(len(self.ids)))]

    @property
    def fingerprint(self) -> str:
        """That of the tokenizer, and the side."""
        return self._made_from

    def __len__(self) -> int:
        return len(self.ids)

    def encode(self, text: str) -> list[int]:
        """The ids of a text; what looks like a special token is an unknown word."""
        return self.ids.ours(bare(self._tokenizer, self._key, text))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; special ones are left out."""
        words = [int(i) for i in ids if i not in SPECIAL]
        text = self._tokenizer.decode(
            self.ids.theirs(words), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return str(text)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The ids as they are written in the vocabulary."""
        return [self._pieces[int(i)] for i in ids]


def _vocabulary(tokenizer: PreTrainedTokenizerBase, target: bool) -> dict[str, int]:
    if target and getattr(tokenizer, "separate_vocabs", False):
        return tokenizer.get_tgt_vocab()  # type: ignore[no-any-return, attr-defined]
    return tokenizer.get_vocab()  # type: ignore[no-any-return]


def bare(tokenizer: PreTrainedTokenizerBase, key: str, text: str) -> list[int]:
    """The tokenizer's ids of a text with nothing around it; the key is `text` or `text_target`."""
    return tokenizer(**{key: text}, add_special_tokens=False)["input_ids"]  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Frame:
    """The tokenizer's ids that stand around every sentence and are no words of it.

    Attributes:
        before_source: language code or task prefix before the source.
        after_source: what follows the source's EOS.
        before_target: the decoder's first inputs; the last of them plays BOS.
    """

    before_source: list[int]
    after_source: list[int]
    before_target: list[int]


def find_frame(
    tokenizer: PreTrainedTokenizerBase, config: PretrainedConfig, prefix: str | None
) -> Frame:
    """What this tokenizer, with its languages set, puts around a sentence.

    Args:
        tokenizer: the model's.
        config: the model's.
        prefix: a task prefix that is put before every source, such as T5's.

    Raises:
        XnmtError: it does not close a sentence with EOS, or it does not say what the decoder starts
            with.
    """
    eos = tokenizer.eos_token_id
    before, after = _around(tokenizer, "text")
    target_before, target_after = _around(tokenizer, "text_target")
    if after[:1] != [eos] or target_after[:1] != [eos]:
        raise XnmtError(f"{type(tokenizer).__name__} does not close a sentence with EOS")
    if prefix:
        before = before + bare(tokenizer, "text", prefix)
    if config.model_type == "mbart" and len(target_after) > 1:
        # The language code behind the target turns to the front, and nothing stands before it.
        return Frame(before, after[1:], target_after[1:])
    if config.decoder_start_token_id is None:
        raise XnmtError("config.json: no decoder_start_token_id")
    return Frame(
        before, after[1:], [config.decoder_start_token_id, *target_before, *target_after[1:]]
    )


def _around(tokenizer: PreTrainedTokenizerBase, key: str) -> tuple[list[int], list[int]]:
    """The ids before and behind a text."""
    inner, whole = bare(tokenizer, key, SAMPLE), tokenizer(**{key: SAMPLE})["input_ids"]
    start = next(i for i in range(len(whole)) if whole[i : i + len(inner)] == inner)
    return whole[:start], whole[start + len(inner) :]


def set_languages(
    tokenizer: PreTrainedTokenizerBase, source: str | None, target: str | None
) -> None:
    """Tells a multilingual tokenizer its languages; others have no such thing.

    Raises:
        XnmtError: the model does not know a language, or knows several of that name.
    """
    # M2M100 tells its languages; others' codes are special tokens, among which nothing is so named.
    codes = set(getattr(tokenizer, "lang_code_to_token", tokenizer.all_special_tokens))
    sides = (("src_lang", "source_language", source), ("tgt_lang", "target_language", target))
    for attribute, name, wanted in sides:
        if hasattr(tokenizer, attribute):
            setattr(tokenizer, attribute, _code(codes, wanted, name))


def _code(codes: set[str], wanted: str | None, name: str) -> str:
    if wanted is None:
        raise XnmtError(f"this model reads many languages: give nmt.reader.{name}")
    if wanted in codes:
        return wanted
    longer = sorted(code for code in codes if code.startswith(f"{wanted}_"))
    if len(longer) == 1:  # `de` for mBART's `de_DE`
        return longer[0]
    among = f"; there are {', '.join(longer)}" if longer else ", which needs a code of its own"
    raise XnmtError(f"nmt.reader.{name}={wanted} is no language of this model{among}")
