"""Tokens of English text, and the closed classes of words that tell where a mention ends."""

from __future__ import annotations

import re
from dataclasses import dataclass

PIECES = re.compile(
    r"(?:Mr|Mrs|Ms|Dr|St|Jr|Sr|Prof|Capt|Col|Gen|Rev|Hon|Lt|Sgt)\.(?=\s)"
    r"|(?:[A-Z]\.)+(?=\s|[A-Z,'’]|$)"  # initials
    r"|\w+n['’]t\b"
    r"|['’](?:s|re|ve|ll|d|m)\b"
    r"|\w+(?:-\w+)*"
    r"|[^\w\s]"
)
SENTENCE_ENDS = frozenset(".!?")


def words(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


# Lists instead of a tagger, so that the resolver needs no other package's model.
DETERMINERS = words("a an the this that these those each every another some any no both either")
POSSESSIVES = words("my your his her its our their")
PREPOSITIONS = words(
    "about above across after against along among around as at before behind below beneath"
    " beside between beyond by despite down during except for from in inside into like near of"
    " off on onto out outside over past since than through throughout to toward towards under"
    " until up upon via with within without"
)
CONJUNCTIONS = words("and or but nor yet so")
SUBORDINATORS = words(
    "because although though while when where whereas if unless whether that which who whom"
    " whose since after before until once as"
)
AUXILIARIES = words(
    "is are was were be been being am has have had having do does did will would can could"
    " shall should may might must cannot won't ca not never also 's 're 've 'll 'd 'm ’s ’re"
    " ’ve ’ll ’d ’m"
)
# Irregular past forms and frequent verbs; the regular past is known by its ending.
VERBS = words(
    "said says say went goes go came comes come took takes take made makes make gave gives"
    " give got gets get saw sees see knew knows know thought thinks think told tells tell"
    " found finds find left leaves leave felt feels feel became becomes become began begins"
    " begin brought brings bring kept keeps keep held holds hold wrote writes write stood"
    " stands stand heard hears hear let lets meant means meet met meets ran runs run paid pays"
    " pay sat sits sit spoke speaks speak lay lies led leads lead grew grows grow lost loses"
    " lose fell falls fall sent sends send built builds understood drew draws broke breaks"
    " spent spends rose rises drove drives bought buys wore wears chose chooses sought threw"
    " throws caught catches dealt won wins taught teaches fought fights sold sells ate eats"
    " slept sleeps sang sings swam laid hit put puts cut set sets read fit wants want needs"
    " need likes like loves love hates hate seems looks look asks ask uses use works plays"
    " play lives live died dies born"
)
PRONOUNS = {
    **dict.fromkeys(("he", "him", "his", "himself"), "he"),
    **dict.fromkeys(("she", "her", "hers", "herself"), "she"),
    **dict.fromkeys(("it", "its", "itself"), "it"),
    **dict.fromkeys(("they", "them", "their", "theirs", "themselves"), "they"),
    **dict.fromkeys(("i", "me", "my", "mine", "myself"), "i"),
    **dict.fromkeys(("we", "us", "our", "ours", "ourselves"), "we"),
    **dict.fromkeys(("you", "your", "yours", "yourself", "yourselves"), "you"),
}
SUBJECT_PRONOUNS = words("he she it they i we you")
REFLEXIVES = words("himself herself itself themselves myself ourselves yourself yourselves")
OTHER_FUNCTION_WORDS = words(
    "there here then now thus however moreover furthermore therefore what why how all many"
    " much few several most more such own same only just even very too again still already"
    " often always sometimes later earlier soon eventually finally first second last next one"
    " two three four five six seven eight nine ten oh yes well o'clock according due apart"
    " together instead meanwhile nevertheless otherwise perhaps maybe indeed nothing something"
    " everything anything nobody somebody everybody anybody someone anyone everyone none other"
    " others"
)
FUNCTION_WORDS = (
    DETERMINERS
    | POSSESSIVES
    | PREPOSITIONS
    | CONJUNCTIONS
    | SUBORDINATORS
    | AUXILIARIES
    | OTHER_FUNCTION_WORDS
    | frozenset(PRONOUNS)
)
# Capitalised in the middle of a sentence, and no person or thing that a pronoun stands for.
DATES = words(
    "January February March April May June July August September October November December"
    " Monday Tuesday Wednesday Thursday Friday Saturday Sunday English French German Italian"
    " Spanish Russian American British Chinese Japanese Canadian Australian Indian Christmas"
    " Easter"
)
TITLES = {
    **dict.fromkeys(
        ("Mr.", "Mr", "Sir", "Lord", "King", "Prince", "Duke", "Father", "Uncle"), "he"
    ),
    **dict.fromkeys(
        ("Mrs.", "Mrs", "Ms.", "Ms", "Miss", "Lady", "Queen", "Princess", "Duchess", "Aunt"), "she"
    ),
}
# Gendered by their meaning alone: occupations are left out, since their gender is a stereotype.
GENDERED_NOUNS = {
    **dict.fromkeys(
        words(
            "man men boy boys father son brother husband uncle nephew king prince duke lord"
            " gentleman grandfather grandson guy fellow monk priest widower bridegroom"
            " policeman fireman businessman chairman salesman hero sir lad dad daddy papa"
            " boyfriend"
        ),
        "he",
    ),
    **dict.fromkeys(
        words(
            "woman women girl girls mother daughter sister wife aunt niece queen princess"
            " duchess lady grandmother granddaughter nun widow bride actress waitress hostess"
            " heroine madam lass mum mom mama mamma girlfriend maid businesswoman chairwoman"
            " policewoman"
        ),
        "she",
    ),
}


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its place in its text.

    Attributes:
        form: as it is written.
        lower: the same in small letters.
        start, end: characters, from its first to behind its last.
        sentence: number of its sentence in the text.
        first: whether it begins a sentence; quotes and brackets before it do not count.
    """

    form: str
    lower: str
    start: int
    end: int
    sentence: int
    first: bool

    @property
    def capitalised(self) -> bool:
        """Whether it begins with a capital letter."""
        return self.form[0].isupper()

    @property
    def is_word(self) -> bool:
        """Whether it has letters or digits."""
        return self.form[0].isalnum()

    @property
    def verb_like(self) -> bool:
        """Whether it is an auxiliary, a listed verb or a regular past form."""
        lower = self.lower
        return (
            lower in AUXILIARIES
            or lower in VERBS
            or lower.endswith(("n't", "n’t"))
            # Of five letters or more, which leaves out `red` and `bed`.
            or (len(lower) > 4 and lower.endswith("ed") and not self.capitalised)
        )


def tokenize(text: str) -> list[Token]:
    """Return the tokens of an English text, raw or cut into words already."""
    tokens: list[Token] = []
    sentence, first, ended = 0, True, False
    for match in PIECES.finditer(text):
        form = match[0]
        is_word = form[0].isalnum()
        if ended and is_word:
            # A small letter goes on with a sentence, as after an abbreviation.
            if not form[0].islower():
                sentence, first = sentence + 1, True
            ended = False
        tokens.append(Token(form, form.lower(), *match.span(), sentence, first and is_word))
        first = first and not is_word
        # Kept until the next word: closing quotes still belong to the sentence.
        ended = ended or form in SENTENCE_ENDS
    return tokens
