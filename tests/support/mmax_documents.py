"""Documents of the MMAX2 format, made up."""


def write_document(folder, name, words, sentences, mentions):
    """A document; spans are written as MMAX2 writes them."""
    for part in ("Basedata", "Markables"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    tags = "".join(f'<word id="word_{i}">{w}</word>\n' for i, w in enumerate(words, start=1))
    (folder / "Basedata" / f"{name}_words.xml").write_text(
        f'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE words SYSTEM "words.dtd">\n'
        f"<words>\n{tags}</words>\n",
        encoding="utf-8",
    )
    for level, spans in (("sentence", [(s, "") for s in sentences]), ("coref", mentions)):
        tags = "".join(
            f'<markable id="m{n}" span="{span}" coref_class="{chain}" mmax_level="{level}" />\n'
            for n, (span, chain) in enumerate(spans)
        )
        (folder / "Markables" / f"{name}_{level}_level.xml").write_text(
            f'<?xml version="1.0"?>\n<markables xmlns="www.eml.org/NameSpaces/{level}">\n'
            f"{tags}</markables>\n",
            encoding="utf-8",
        )


WORDS = ["The", "dog", "&amp;", "cat", "ran", ".", "It", "hid", "."]
SENTENCE_SPANS = ["word_7..word_9", "word_1..word_6"]  # out of order, as real files are
MENTIONS = [
    ("word_7", "set_1"),
    ("word_1..word_2,word_4", "set_1"),
    ("word_5..word_7", "set_2"),
    ("word_8", "empty"),
    ("word_9", ""),
]
