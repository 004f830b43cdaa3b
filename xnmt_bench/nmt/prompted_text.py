r"""Text around a sentence that a language model translates: a template, and examples in front.

A template is the text of one translation, such as `German: {source}\nEnglish: {target}\n`. What
stands before and between the two sentences is the prompt. What stands behind the target ends it.
Prompt and sentences are cut into pieces apart, by two rules. Blanks before a sentence belong to its
first piece. A piece ends where a sentence ends, also where the tokenizer alone would make one piece
of a full stop and a line end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal, get_args

import torch
from tokenizers.decoders import ByteLevel
from transformers import PreTrainedTokenizerBase

from xnmt_bench.corpora.text import text_lines
from xnmt_bench.corpora.vocabulary.subwords import BOS, EOS, PAD, UNK, WORD_START, WORDS, Tied
from xnmt_bench.errors import DataError, XnmtError, refusal
from xnmt_bench.nmt.foreign import Renumbering
from xnmt_bench.nmt.huggingface_text import HubSubwords, bare, special_ids_around

SOURCE, TARGET = FIELDS = ("{source}", "{target}")
TEMPLATE = r"German: {source}\nEnglish: {target}\n"  # in errors
LETTER = "a"  # stands for a sentence where the pieces of what follows one are looked for
# How PAD, UNK, BOS and EOS are shown, also where a line end plays one of them.
SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")
MARKS = ("\ue000", "\ue001", "\ue002")  # no text holds these; they stand for sentences of a chat
# In front of a chat template that writes today's date, which would make another system of the same
# files tomorrow. An argument would not do, since transformers has a function of this name.
WITHOUT_TODAY = "{% macro strftime_now(format) +%}26 Jul 2024{% endmacro +%}"
Examples = str | Path | Sequence[tuple[str, str]]
Columns = Literal["source", "examples"]


@dataclass(frozen=True)
class Template:
    """The text around translations that follow on each other.

    Attributes:
        before: text before the first source.
        between: text between source and target.
        stop: text that ends a target; its first piece does.
        again: text behind that and before the next source.
        complete: whether it holds all special tokens that the model reads.
    """

    before: str
    between: str
    stop: str
    again: str
    complete: bool = False

    @classmethod
    def parse(cls, text: str | None) -> Template:
        r"""Return the parts of a template; `\n` of two characters is a line end too.

        Raises:
            XnmtError: there is none, or it has not both fields, once and in their order.
        """
        if not isinstance(text, str):
            raise XnmtError(f"a language model needs a template, such as template='{TEMPLATE}'")
        source, target = (text.find(field) for field in FIELDS)
        if [text.count(field) for field in FIELDS] != [1, 1] or source > target:
            problem = "{source} and then {target} must stand in it, each once"
            raise XnmtError(f"template {text!r}: {problem}, such as in '{TEMPLATE}'")
        text = text.replace("\\n", "\n")
        before, from_source = text.split(SOURCE)
        between, stop = from_source.split(TARGET)
        if not between.strip(" "):
            raise XnmtError(f"template {text!r}: text must stand between {' and '.join(FIELDS)}")
        return cls(before, between, stop or "\n", before)

    @classmethod
    def of_chat(cls, tokenizer: PreTrainedTokenizerBase, text: str | None, turns: bool) -> Template:
        """Return the parts of the tokenizer's chat template, with a message of the user's.

        Args:
            tokenizer: that has it.
            text: the message, with the field of the source.
            turns: whether examples stand in front, as turns of the chat.

        Raises:
            XnmtError: the tokenizer lacks one, the message does not hold the source once, or
                sentences do not come back from the chat template as they were.
        """
        if not isinstance(text, str) or text.count(SOURCE) != 1 or TARGET in text:
            advice = f"chat needs a message with {SOURCE} once, such as 'To English: {SOURCE}'"
            raise XnmtError(f"template {text!r}: {advice}")
        if not getattr(tokenizer, "chat_template", None):
            raise XnmtError("the tokenizer has no chat template; give a template, and no chat")
        first, target, second = MARKS
        message = text.replace("\\n", "\n")
        chat = [("user", message.replace(SOURCE, first)), ("assistant", target),
                ("user", message.replace(SOURCE, second))]  # fmt: skip
        try:
            template = str(tokenizer.get_chat_template())
            written = tokenizer.apply_chat_template(
                [{"role": role, "content": content} for role, content in chat],
                chat_template=WITHOUT_TODAY * ("strftime_now" in template) + template,
                tokenize=False,
                add_generation_prompt=True,
            )
        except Exception as error:  # a template in Jinja may raise any error
            raise XnmtError(f"the chat template cannot be read: {refusal(error)}") from None
        parts = re.split("|".join(MARKS), str(written))
        if len(parts) != 4 or [x for x in str(written) if x in MARKS] != [*MARKS]:
            raise XnmtError("the chat template does not write each sentence of a chat once")
        before, past, after, between = parts
        # Some templates open an answer by more than what they ask for it with: a blank, a channel.
        between = past if past.startswith(between) else between
        if turns and past != between:
            problem = f"opens a past answer by {past!r}, and the next one by {between!r}"
            raise XnmtError(f"the chat template {problem}: give no examples")
        after = after.lstrip(" ")  # a blank behind an answer is not the answer's
        ids = cut_behind(tokenizer, LETTER, after)
        stop = str(tokenizer.decode(ids[:1]))
        if not after.startswith(stop):
            raise XnmtError(f"the tokenizer does not write {after!r:.60} of the chat template")
        return cls(before, between, stop, after[len(stop) :], complete=True)


def read_examples(examples: Examples | None) -> list[tuple[str, str]]:
    """Return example translations, of a list or of a file with a tab between source and target.

    Raises:
        DataError: the file is missing or empty, or a line has not two texts.
        XnmtError: it is neither a list nor a file, or an item of the list has not two texts.
    """
    if examples is None:
        return []
    if isinstance(examples, str | Path):
        return _read_examples_file(Path(examples).expanduser())
    if not isinstance(examples, Sequence):
        raise XnmtError(f"examples: {examples!r:.60} is no list of pairs and no file")
    for pair in examples:
        is_pair = isinstance(pair, tuple | list) and len(pair) == 2
        if not (is_pair and all(isinstance(text, str) and text.strip() for text in pair)):
            raise XnmtError(f"examples: {pair!r:.60} is no pair of a source and a target")
    return [(pair[0], pair[1]) for pair in examples]


def _read_examples_file(path: Path) -> list[tuple[str, str]]:
    pairs = []
    for number, line in text_lines(path):
        texts = line.split("\t")
        if len(texts) != 2:
            problem = f"{len(texts)} columns; an example is a source, a tab and a target"
            raise DataError(path, number, problem)
        if not all(text.strip() for text in texts):
            raise DataError(path, number, "one side of the example has no words")
        pairs.append((texts[0], texts[1]))
    if not pairs:
        raise DataError(path, None, "no example is in the file")
    return pairs


@dataclass(frozen=True)
class Prompt:
    """The tokenizer's ids around source and target, and the anchors of both.

    Attributes:
        before: what the model reads first, the tokenizer's own BOS included.
        shown: what follows on it before the source, where examples are columns; else nothing.
        shown_places: of each of these its place among the source's ids, or -1 for the template's.
        shown_slots: of each of those places its place in `shown`, or -1 for a separator.
        between: what it reads behind the source; the last of them plays BOS.
        stop: that ends the target; plays EOS.
        anchors: texts of source and target that stand before a sentence when it is cut into pieces.
    """

    before: list[int]
    shown: list[int]
    shown_places: list[int]
    shown_slots: list[int]
    between: list[int]
    stop: int
    anchors: tuple[str, str]

    @classmethod
    def of(
        cls,
        tokenizer: PreTrainedTokenizerBase,
        template: Template,
        examples: Sequence[tuple[str, str]],
        columns: Columns = "source",
    ) -> Prompt:
        """Fill a template with examples, which are cut as the sentences behind them are.

        Raises:
            XnmtError: the tokenizer does not cut the template where the sentences begin and end,
                does not know a piece of it, BOS stands before it a second time, or an example holds
                what ends a target.
        """
        if columns not in get_args(Columns):
            choices = " or ".join(get_args(Columns))
            raise XnmtError(f"columns {columns!r}: choose {choices}")
        if columns == "examples" and not examples:
            raise XnmtError("columns='examples' needs examples, and there are none")
        special = [] if template.complete else special_ids_around(tokenizer, "text")[0]
        between = cut_behind(tokenizer, LETTER, template.between.rstrip(" "))
        stop = cut_behind(tokenizer, LETTER, template.stop)
        if not between or not stop:
            lost = template.stop if between else template.between
            raise XnmtError(f"the tokenizer drops {lost!r} of the template")
        end = str(tokenizer.decode(stop[:1]))
        if not end.strip(" "):
            raise XnmtError("a blank stands behind {target} in the template; take it out")
        if broken := [target for _, target in examples if end in target]:
            raise XnmtError(f"examples: {broken[0]!r:.60} holds {end!r}, which ends a target")
        # Each run of ids, and whether it is a sentence of an example.
        runs, front, opening = [(special, False)], "", template.before
        target_anchor = LETTER + template.between
        for source, target in examples:
            anchor = front + opening
            runs += [
                (cut_behind(tokenizer, front, opening.rstrip(" ")), False),
                (cut_behind(tokenizer, anchor, source), True),
                (between, False),
                (cut_behind(tokenizer, target_anchor, target), True),
                (stop, False),
            ]
            front, opening = LETTER + template.stop, template.again
        runs.append((cut_behind(tokenizer, front, opening.rstrip(" ")), False))
        ids = [i for run, _ in runs for i in run]
        _refuse_second_start(tokenizer, template, special, ids)
        of_template = (template.before, template.between, template.stop, template.again)
        _refuse_unknown(tokenizer, of_template, "template")
        _refuse_unknown(tokenizer, chain(*examples), "examples")
        # Behind the special ids and what stands before the first example.
        first = 2 if columns == "examples" and examples else len(runs)
        before = [i for run, _ in runs[:first] for i in run]
        anchors = (front + opening, target_anchor)
        return cls(before, *_lay_out(runs[first:]), between, stop[0], anchors)

    @property
    def sentences(self) -> list[list[int]]:
        """The tokenizer's ids of the examples' sentences that are columns."""
        runs = [list[int]()]
        for slot in self.shown_slots:
            if slot < 0:
                runs.append([])
            else:
                runs[-1].append(self.shown[slot])
        return runs[:-1]


def _lay_out(runs: Sequence[tuple[list[int], bool]]) -> tuple[list[int], list[int], list[int]]:
    """Return ids of runs, their places among the source's ids, and the slots of those places.

    Each sentence of an example has the places of its ids, and one of a separator behind it.
    """
    shown, places, slots = list[int](), list[int](), list[int]()
    for ids, is_sentence in runs:
        if is_sentence:
            places += range(len(slots), len(slots) + len(ids))
            slots += [*range(len(shown), len(shown) + len(ids)), -1]
        else:
            places += [-1] * len(ids)
        shown += ids
    return shown, places, slots


def _refuse_second_start(
    tokenizer: PreTrainedTokenizerBase, template: Template, special: list[int], ids: list[int]
) -> None:
    """Raise an XnmtError where BOS, or what the tokenizer puts before a text, is there twice."""
    start = special or [tokenizer.bos_token_id]
    if start[0] is not None and ids[: 2 * len(start)] == 2 * start:
        first = tokenizer.convert_ids_to_tokens(start[0])
        if template.complete:
            raise XnmtError(f"the chat template writes {first} twice; correct chat_template")
        raise XnmtError(f"the template begins with {first}, which the tokenizer adds itself")


def find_unknown(tokenizer: PreTrainedTokenizerBase) -> int | None:
    """Return the id of unknown words; None without one, or where it is another token's too."""
    unknown = tokenizer.unk_token_id
    # Bytes spell every word, so that what their tokenizer calls unknown ends a text.
    no_word = unknown in (tokenizer.bos_token_id, tokenizer.eos_token_id) or spells_bytes(tokenizer)
    return None if no_word else unknown


def spells_bytes(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Return whether a tokenizer has a piece for each byte."""
    decoder = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
    return isinstance(decoder, ByteLevel)


def _refuse_unknown(tokenizer: PreTrainedTokenizerBase, texts: Iterable[str], option: str) -> None:
    """Raise an XnmtError for the first text with a piece that the tokenizer does not know."""
    unknown = find_unknown(tokenizer)
    for text in texts:
        if unknown in bare(tokenizer, "text", text.rstrip(" ")):
            raise XnmtError(f"{option}: the tokenizer does not know a piece of {text!r:.60}")


def cut_behind(tokenizer: PreTrainedTokenizerBase, anchor: str, text: str) -> list[int]:
    """Return the ids of a text that follows another; blanks between them are its own.

    Raises:
        XnmtError: a piece is of both.
    """
    if not text:
        return []
    start, joined = (bare(tokenizer, "text", x) for x in (anchor.rstrip(" "), anchor + text))
    if joined[: len(start)] != start:
        raise XnmtError(
            f"the tokenizer joins {anchor!r} and {text!r:.60} in one piece; put a blank or a line "
            "end between them in the template"
        )
    return joined[len(start) :]


class Appended(Renumbering):
    """A toolkit's ids behind our four, so that an id that plays BOS or EOS is a word too.

    Such as `:`, which ends a prompt and stands in sentences. Special tokens are unknown words.

    Args:
        tokenizer: of the ids.
        size: of the output layer.
        prompt: whose ids play BOS and EOS.
        separator: the id between sentences, which BOS stands for then.

    Attributes:
        has_unknown: whether one of the ids stands for unknown words.
        ends: our ids of the pieces that hold what ends a target.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        size: int,
        prompt: Prompt,
        separator: int | None = None,
    ) -> None:
        unknown, special = find_unknown(tokenizer), {*tokenizer.all_special_ids}
        # Some tokenizers mark more of them than they name.
        special |= {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
        # Some tokenizers name a token for unknown words that the model has no row of.
        self.has_unknown = unknown is not None and unknown < size
        # PAD is masked wherever it stands, so any id does for it.
        plays_bos = prompt.between[-1] if separator is None else separator
        special_ids = [0, (unknown or 0) if self.has_unknown else 0, plays_bos, prompt.stop]
        self.theirs_V = torch.tensor([*special_ids, *range(size)])
        self.runs = [*(slice(i, i + 1) for i in special_ids), slice(0, size)]
        self._ours = {i: i + WORDS for i in range(size) if i not in special}
        hold_stop = _hold_stop(tokenizer, prompt.stop)
        never = special | hold_stop
        self.ends = frozenset(i + WORDS for i in hold_stop)
        without = [PAD, BOS] if self.has_unknown else [PAD, UNK, BOS]
        self.unpredictable = [*without, *sorted(i + WORDS for i in never if i < size)]
        assert EOS not in self.unpredictable


def _hold_stop(tokenizer: PreTrainedTokenizerBase, stop: int) -> set[int]:
    """Return the ids of pieces that hold what ends a target: two line ends, or a stop and one.

    The stop itself is one of them, since as EOS it has an id of its own.
    """
    spelled = str(tokenizer.convert_ids_to_tokens(stop))
    ends = {spelled, str(tokenizer.decode([stop]))} - {""}
    pieces = tokenizer.get_vocab().items()
    return {number for piece, number in pieces if any(end in piece for end in ends)}


class PromptedSubwords(HubSubwords):
    """One side of a language model's tokenizer: a sentence is cut as it stands in the prompt.

    Args:
        tokenizer: of both sides.
        anchor: text that stands before the sentence; blanks at its end belong to the sentence.
        ids: the renumbering.
        made_from: fingerprint of the tokenizer's files and of the prompt.
        side: `source` or `target`.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        anchor: str,
        ids: Appended,
        made_from: str,
        side: str,
    ) -> None:
        super().__init__(tokenizer, side, ids, made_from)
        self._anchor = anchor
        self.has_unknown = ids.has_unknown
        self.reads_eos = side == "target"  # the source is closed by the prompt's own text
        self._ends = ids.ends if self.reads_eos else frozenset()
        self._bytes = spells_bytes(tokenizer)

    def show(self, sentences: Sequence[Sequence[int]]) -> None:
        """Put sentences of examples before every text; see `in_front`.

        Args:
            sentences: the tokenizer's ids of each.
        """
        rows = [self.ids.ours(ids) for ids in sentences]
        self.in_front = [Tied(ids, self.words(ids)) for ids in rows]

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text; what looks like a special token is an unknown word.

        Raises:
            XnmtError: a piece reaches from the prompt into the text; a target holds what ends it;
                or the text holds a special token, and the model has no unknown word.
        """
        ids = self.ids.ours(cut_behind(self._tokenizer, self._anchor, text))
        if ends := self._ends.intersection(ids):
            [piece, *_] = self.pieces([min(ends)])
            # The model never writes it, so that its probability would be 0.
            raise XnmtError(f"{text!r:.60} holds {piece!r}, which ends a target in the template")
        if UNK in ids and not self.has_unknown:
            problem = "a special token, and the model has no unknown word to read in its place"
            raise XnmtError(f"{text!r:.60} holds {problem}")
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; special ones are left out."""
        return super().decode(ids).strip(" ")

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the pieces of ids; a blank is written as `▁`."""
        spell = self._tokenizer.convert_tokens_to_string
        pieces = []
        for i, piece in zip(ids := [*ids], super().pieces(ids), strict=True):
            if i < WORDS:
                pieces.append(SPECIAL_PIECES[i])
            elif self._bytes:  # each is written as one character, a blank as `Ġ`
                pieces.append(spell([piece]).replace(" ", WORD_START))
            else:
                pieces.append(piece)
        return pieces
