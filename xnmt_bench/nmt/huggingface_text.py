"""Hugging Face tokenizers: a sentence as ids, and the ids that a family puts around it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tokenizers import AddedToken
from transformers import PretrainedConfig, PreTrainedTokenizerBase

from xnmt_bench.corpora.vocabulary.subwords import (
    MARKER,
    SPECIAL,
    WORD_START,
    Subwords,
    Tied,
    marker_symbols,
)
from xnmt_bench.errors import XnmtError
from xnmt_bench.nmt.foreign import Renumbering
from xnmt_bench.nmt.huggingface_languages import without_target_code


class HubSubwords(Subwords):
    """One side of a Hugging Face tokenizer; the families read here are all SentencePiece's.

    Args:
        tokenizer: of both sides.
        key: what it calls texts of this side, `text` or `text_target`.
        ids: the renumbering of this side.
        made_from: fingerprint of the tokenizer's files and options.
        target_code: that stands before every source of a Marian for many targets; None for other
            models, and on the target side.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        key: str,
        ids: Renumbering,
        made_from: str,
        target_code: str | None = None,
    ) -> None:
        self.ids, self._tokenizer, self._key = ids, tokenizer, key
        self._target_code = target_code
        # One tokenizer may cut the two sides differently, so the side is part of it.
        self._made_from = f"{made_from} {key}"
        written = {number: piece for piece, number in tokenizer.get_vocab().items()}
        # Vocabularies are padded to a round size with ids that nothing is written as.
        pieces = [written.get(i, f"<{i}>") for i in ids.theirs_V.tolist()]
        # A blank is a byte of its own in ByT5, and begins a word as all others' mark does.
        self._pieces = [WORD_START if piece == " " else piece for piece in pieces]
        # Of a shared vocabulary the target side has them too, and its model never writes them.
        self.markers = frozenset(
            i for i, piece in enumerate(self._pieces) if MARKER.fullmatch(piece)
        )

    @property
    def fingerprint(self) -> str:
        """That of the tokenizer, and the side."""
        return self._made_from

    def __len__(self) -> int:
        return len(self.ids)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text; what looks like a special token is an unknown word."""
        return self.ids.ours(bare(self._tokenizer, self._key, self._sentence(text)))

    def tie(self, text: str) -> Tied:
        """Return the ids of a text and their words, of which a target code in front is none."""
        return super().tie(self._sentence(text))

    def _sentence(self, text: str) -> str:
        """Return a text without the code of a target language in front of it."""
        code = self._target_code
        return text if code is None else without_target_code(text, code)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; special ones and markers are left out."""
        words = self.ids.theirs(i for i in ids if i not in SPECIAL and i not in self.markers)
        options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
        return str(self._tokenizer.decode(words, **options))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the pieces of ids, in the vocabulary's spelling."""
        return [self._pieces[int(i)] for i in ids]


def bare(tokenizer: PreTrainedTokenizerBase, key: str, text: str) -> list[int]:
    """Return the tokenizer's ids of a bare text; the key is `text` or `text_target`."""
    return tokenizer(**{key: text}, add_special_tokens=False)["input_ids"]  # type: ignore[no-any-return]


def add_markers(tokenizer: PreTrainedTokenizerBase, clusters: int) -> list[int]:
    """Give a tokenizer the markers of so many clusters, and return the ids of new ones."""
    there = tokenizer.get_vocab()
    symbols = [symbol for symbol in marker_symbols(clusters) if symbol not in there]
    # Blanks around them belong to them: else a lone blank would become a piece of its own.
    tokens = [AddedToken(s, lstrip=True, rstrip=True, normalized=False) for s in symbols]
    tokenizer.add_tokens(tokens)
    return [int(i) for i in tokenizer.convert_tokens_to_ids(symbols)]  # type: ignore[union-attr]


@dataclass(frozen=True)
class Frame:
    """The tokenizer's ids that stand around every sentence and are not its words.

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
    """Find the ids that this tokenizer, with its languages set, puts around a sentence.

    Raises:
        XnmtError: it closes no sentence with EOS, does not say what the decoder starts with, or
            does not know a piece of the prefix.
    """
    eos = tokenizer.eos_token_id
    before, after = special_ids_around(tokenizer, "text")
    target_before, target_after = special_ids_around(tokenizer, "text_target")
    if after[:1] != [eos] or target_after[:1] != [eos]:
        raise XnmtError(
            f"{type(tokenizer).__name__} does not end a sentence with EOS, which is needed here"
        )
    if prefix:
        before += _prefix_ids(tokenizer, prefix)
    if config.model_type == "mbart" and len(target_after) > 1:
        # The language code behind the target turns to the front, and nothing stands before it.
        return Frame(before, after[1:], target_after[1:])
    if config.decoder_start_token_id is None:
        raise XnmtError("config.json: decoder_start_token_id is missing")
    start = config.decoder_start_token_id
    return Frame(before, after[1:], [start, *target_before, *target_after[1:]])


def find_separator(tokenizer: PreTrainedTokenizerBase, separator: str) -> int:
    """Return the id of the piece between sentences.

    Raises:
        XnmtError: the vocabulary has no such piece.
    """
    if (separator_id := tokenizer.get_vocab().get(separator)) is None:
        raise XnmtError(f"nmt.reader.separator={separator}: the vocabulary has no such piece")
    return int(separator_id)


def _prefix_ids(tokenizer: PreTrainedTokenizerBase, prefix: str) -> list[int]:
    """Return the ids of a task prefix; an XnmtError where the vocabulary does not know a piece."""
    ids = bare(tokenizer, "text", prefix)
    if (unknown := tokenizer.unk_token_id) in ids:
        pieces = zip(tokenizer.tokenize(prefix), ids, strict=True)
        names = ", ".join(piece for piece, number in pieces if number == unknown)
        raise XnmtError(f"nmt.reader.prefix={prefix!r}: the vocabulary does not know {names}")
    return ids


def special_ids_around(tokenizer: PreTrainedTokenizerBase, key: str) -> tuple[list[int], list[int]]:
    """Return the ids that a tokenizer puts before and behind a text."""
    inner, framed = bare(tokenizer, key, "a"), tokenizer(**{key: "a"})["input_ids"]  # any text does
    # Found by comparing, since families put their codes on either side.
    start = next(i for i in range(len(framed)) if framed[i : i + len(inner)] == inner)
    return framed[:start], framed[start + len(inner) :]
