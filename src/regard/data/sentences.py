"""Splits documents into sentences, the unit that models are trained on, and joins them again as they were."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MAX_LENGTH = 400  # characters of a sentence; a longer one is translated in parts

# A sentence ends with one of these, including closing quotes and brackets. In scripts without spaces that is enough;
# in others a space must follow, and then a character that can start a sentence.
_END = re.compile(r"[。！？]+[”’」』）]*\s*|(?<![.!?…])[.!?…]+[\"'”’»)\]]*\s+(?=[\"'“‘«(\[¿¡]*[^\W_])")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\[\"'“‘«])"
    r"(?:[^\W\d_]|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|Sra|Srta|Dra|Gen|Col|Capt|Lt|Mt|vs|etc|e\.g|i\.e|z\.B|d\.h|p\.ej|Nr|Vol|pp?|ca|cf)"
    r"\.\s*$"
)
_PAUSE = re.compile(r"[,;:]\s+|[，、；：–—]\s*|\s+")
_LONGEST_ABBREVIATION = 12  # with the characters around it
_FULL_WIDTH = tuple("。！？”’」』）")


@dataclass(frozen=True)
class Document:
    """Sentences and the text between them: `gaps[i]` precedes sentence i, the last gap follows them all."""

    sentences: tuple[str, ...]
    gaps: tuple[str, ...]

    def gaps_for(self, sentences: Sequence[str]) -> list[str]:
        """The gaps for new sentences, with a space where a sentence no longer ends in full-width punctuation."""
        gaps = list(self.gaps)
        for i, (old, new) in enumerate(zip(self.sentences[:-1], sentences, strict=False), start=1):
            if not gaps[i] and old.endswith(_FULL_WIDTH) and not new.endswith(_FULL_WIDTH):
                gaps[i] = " "
        return gaps

    def with_sentences(self, sentences: Sequence[str]) -> str:
        """The document with its sentences replaced by others."""
        return "".join(gap + text for gap, text in zip(self.gaps_for(sentences), [*sentences, ""], strict=True))


def split(text: str, max_length: int = MAX_LENGTH) -> Document:
    """Splits a text into sentences, and sentences longer than `max_length` characters at a comma or space."""
    sentences, gaps, position = [], [], 0
    for begin, end in _spans(text):
        for piece_begin, piece_end in _pieces(text, begin, end, max_length):
            gaps.append(text[position:piece_begin])
            sentences.append(text[piece_begin:piece_end])
            position = piece_end
    return Document(tuple(sentences), (*gaps, text[position:]))


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """The spans of the sentences: each line is split after the end of each sentence in it."""
    for line in re.finditer(r"[^\n]+", text):
        begin = line.start()
        for match in _END.finditer(text, line.start(), line.end()):
            before = text[max(begin, match.end() - _LONGEST_ABBREVIATION) : match.end()]
            # a lower-case letter continues the sentence, as in "No!" he said
            if text[match.end() : match.end() + 1].islower() or _ABBREVIATION.search(before):
                continue
            yield begin, match.end()
            begin = match.end()
        yield begin, line.end()


def _pieces(text: str, begin: int, end: int, max_length: int) -> Iterator[tuple[int, int]]:
    """The span, stripped, in parts of at most `max_length` characters; none if it is empty."""
    while True:
        while begin < end and text[begin].isspace():
            begin += 1
        while end > begin and text[end - 1].isspace():
            end -= 1
        if begin == end:
            return
        stop = end
        if end - begin > max_length:
            pauses = [match.end() for match in _PAUSE.finditer(text, begin, begin + max_length)]
            # prefer a split after a comma to one between words, unless the comma is in the first half
            strong = [pause for pause in pauses if not text[begin:pause].rstrip()[-1].isalnum()]
            best = [pause for pause in strong if pause > begin + max_length // 2] or pauses or [begin + max_length]
            stop = best[-1]
        yield begin, begin + len(text[begin:stop].rstrip())
        begin = stop
