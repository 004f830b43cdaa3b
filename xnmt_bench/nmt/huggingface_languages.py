"""Languages of models that know many: the codes by which they are set, whichever way they came."""

from __future__ import annotations

import re
from difflib import get_close_matches

from transformers import PreTrainedTokenizerBase

from xnmt_bench.errors import XnmtError

CODE = re.compile(r"[a-z]{2,3}_[A-Z]\w{1,3}")  # such as NLLB's deu_Latn and mBART's de_DE
TARGET_CODE = re.compile(r"\s*(>>[^<>\s]+<<)\s*")  # Marian's, which stands before a source
SHOWN = 30  # codes that an error lists at most


def set_languages(
    tokenizer: PreTrainedTokenizerBase, source: str | None, target: str | None
) -> tuple[str, str] | None:
    """Give a multilingual tokenizer its languages.

    Returns:
        The tokenizer's codes of them; None where it knows only one pair.

    Raises:
        XnmtError: a language is not given, or the model does not know it.
    """
    sides = (("src_lang", "source_language", source), ("tgt_lang", "target_language", target))
    codes = _find_codes(tokenizer)
    for attribute, name, language in sides:
        if not hasattr(tokenizer, attribute):
            continue
        if language is None:
            raise XnmtError(f"this model reads many languages: give nmt.reader.{name}")
        if (code := _complete(language, codes)) is None:
            longer = sorted(code for code in codes if code.startswith(f"{language}_"))
            available = f"; did you mean {' or '.join(longer)}?"
            advice = available if longer else "; give its code as the model writes it"
            raise XnmtError(f"nmt.reader.{name}={language}: the model has no such language{advice}")
        setattr(tokenizer, attribute, code)
    chosen = [getattr(tokenizer, attribute, None) for attribute, _, _ in sides]
    return (str(chosen[0]), str(chosen[1])) if all(chosen) else None


def _find_codes(tokenizer: PreTrainedTokenizerBase) -> set[str]:
    """Return the languages of a tokenizer, also those that were added to it later."""
    added = tokenizer.get_added_vocab()
    if not hasattr(tokenizer, "lang_code_to_token"):
        # Special tokens are not all: adding one may take the others off their list.
        written = (token for token in tokenizer.get_vocab() if CODE.fullmatch(token))
        return {*tokenizer.all_special_tokens, *added, *written}
    # M2M100 has tables of its languages, which are not saved: `__de__` is the token of `de`.
    for token, number in added.items():
        if (code := token.strip("_")) not in tokenizer.lang_code_to_token:
            tokenizer.lang_code_to_token[code] = token
            tokenizer.lang_token_to_id[token] = number
            tokenizer.id_to_lang_token[number] = token
    return set(tokenizer.lang_code_to_token)


def _complete(language: str, codes: set[str]) -> str | None:
    """Return the code of a language, such as mBART's `de_DE` of `de`; None if it is not clear."""
    longer = [code for code in codes if code.startswith(f"{language}_")]
    if language in codes:
        return language
    return longer[0] if len(longer) == 1 else None


def find_target_codes(tokenizer: PreTrainedTokenizerBase) -> set[str]:
    """Return the codes, such as `>>fra<<`, of a Marian for many targets; none of any other."""
    if not hasattr(tokenizer, "supported_language_codes"):
        return set()
    return {token for token in tokenizer.get_vocab() if TARGET_CODE.fullmatch(token)}


def write_target_code(codes: set[str], prefix: str | None, target: str | None) -> str | None:
    """Return a Marian's prefix with the code of the target language in front.

    Args:
        codes: of the languages that the model writes.
        prefix: as it was given, with or without a code; an empty one means no code.
        target: the language, such as `fra`; the corpus's, where none was given.

    Raises:
        XnmtError: no language is given, the model does not know it, or there are two.
    """
    if not codes or prefix == "":
        return prefix
    in_prefix = TARGET_CODE.match(prefix or "")
    names = {code.strip("<>") for code in codes}
    name = _complete((target or "").strip("<>"), names)
    if in_prefix and name and in_prefix[1] != f">>{name}<<":
        both = f"nmt.reader.prefix={prefix!r}, and nmt.reader.target_language={target}"
        raise XnmtError(f"{both}: these name two languages; give one")
    if in_prefix and in_prefix[1] in codes:
        return prefix.lstrip()  # type: ignore[union-attr]
    if in_prefix or name is None:
        given = f"{in_prefix[1] if in_prefix else target or 'none'} is no such language"
        raise XnmtError(
            f"this model writes many languages, and {given}: give nmt.reader.target_language, "
            f"one of {_list_names(names, in_prefix[1].strip('<>') if in_prefix else target)}"
        )
    return f">>{name}<< {prefix or ''}"


def read_target_code(prefix: str | None) -> str:
    """Return the code at the beginning of a prefix; empty where there is none."""
    code = TARGET_CODE.match(prefix or "")
    return code[1] if code else ""


def without_target_code(text: str, code: str) -> str:
    """Return a source without the code in front of it, which is no word of the sentence.

    Args:
        text: the source, which may begin with a code.
        code: that the model is opened with, and that stands before every source already.

    Raises:
        XnmtError: the source begins with another code.
    """
    in_text = TARGET_CODE.match(text)
    if in_text is None:
        return text
    if in_text[1] != code:
        opened = f"with {code}" if code else "without a code"
        name = in_text[1].strip("<>")
        raise XnmtError(
            f"a source begins with {in_text[1]}, and the model is opened {opened}: take the codes "
            f"out of the sources, and give nmt.reader.target_language={name}"
        )
    return text[in_text.end() :]


def _list_names(names: set[str], wanted: str | None) -> str:
    """Return names in a line, those first that are like a wanted one."""
    like = get_close_matches(wanted or "", names, n=5)
    listed = [*like, *sorted(names.difference(like))]
    further = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return ", ".join(listed[:SHOWN]) + further
