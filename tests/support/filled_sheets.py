"""Sheets as people fill them, made up."""

import csv
import io

SHEET = "consistency-{}-0123456789ab"


def write_csv(rows):
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return text.getvalue()


def sheet_rows(items):
    """The rows of a sheet of genders, and the automatic gender of each."""
    truth = ["mfn"[n % 3] for n in range(items)]
    rows = [
        {"sheet": SHEET.format(items), "item": str(n + 1),
         "source": "[he] came", "target": f"[er] {n}",
         "is_translation": "", "gender": "", "comment": ""}
        for n in range(items)
    ]  # fmt: skip
    return rows, truth


def answer_rows(rows, truth, wrong=(), misaligned=()):
    """Returns the rows with answers: the next gender in `wrong` items, no in `misaligned` ones."""
    filled = []
    for n, row in enumerate(rows):
        gender = "mfn"[("mfn".index(truth[n]) + (n in wrong)) % 3]
        aligned = n not in misaligned
        answers = (
            {"is_translation": "yes", "gender": gender} if aligned else {"is_translation": "no"}
        )
        filled.append(row | answers)
    return filled


def key_rows(rows, truth):
    """The key of the rows."""
    return [
        {"sheet": row["sheet"], "item": row["item"],
         "corpus": "made", "lang_pair": "en-de", "nmt": "theirs",
         "automatic:is_translation": "yes", "automatic:gender": gender}
        for row, gender in zip(rows, truth, strict=True)
    ]  # fmt: skip
