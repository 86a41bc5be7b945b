"""Documents cut into sentences, so that a model gets what it was trained on, and put back together as they were."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

LONGEST = 400  # characters of a piece that is translated at once

# A sentence ends with one of these, quotes and brackets after it included. In scripts without spaces that is enough;
# elsewhere a space follows, and then something that can begin a sentence.
_END = re.compile(r"[。！？]+[”’」』）]*\s*|(?<![.!?…])[.!?…]+[\"'”’»)\]]*\s+(?=[\"'“‘«(\[¿¡]*[^\W_])")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\[\"'“‘«])"
    r"(?:[^\W\d_]|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|Sra|Srta|Dra|Gen|Col|Capt|Lt|Mt|vs|etc|e\.g|i\.e|z\.B|d\.h|p\.ej|Nr|Vol|pp?|ca|cf)"
    r"\.\s*$"
)
_PAUSE = re.compile(r"[,;:]\s+|[，、；：–—]\s*|\s+")
_LONGEST_ABBREVIATION = 12  # with what stands around it
_FULL_WIDTH = tuple("。！？”’」』）")


@dataclass(frozen=True)
class Document:
    """Sentences and what stands around them: `gaps[i]` before sentence i, the last one after all."""

    sentences: tuple[str, ...]
    gaps: tuple[str, ...]

    def gaps_for(self, sentences: Sequence[str]) -> list[str]:
        """What stands around other sentences: the same, but a space where only a script without spaces has none."""
        gaps = list(self.gaps)
        for i, (mine, other) in enumerate(zip(self.sentences[:-1], sentences, strict=False), start=1):
            if not gaps[i] and mine.endswith(_FULL_WIDTH) and not other.endswith(_FULL_WIDTH):
                gaps[i] = " "
        return gaps

    def with_sentences(self, sentences: Sequence[str]) -> str:
        """The document with other sentences in the places of its own."""
        return "".join(gap + text for gap, text in zip(self.gaps_for(sentences), [*sentences, ""], strict=True))


def split(text: str, max_length: int = LONGEST) -> Document:
    """The sentences of a text of any number of lines; one that is too long is cut at a pause."""
    sentences, gaps, position = [], [], 0
    for begin, end in _spans(text):
        for piece_begin, piece_end in _pieces(text, begin, end, max_length):
            gaps.append(text[position:piece_begin])
            sentences.append(text[piece_begin:piece_end])
            position = piece_end
    return Document(tuple(sentences), (*gaps, text[position:]))


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Where the sentences are: lines, cut after the end of each sentence in them."""
    for line in re.finditer(r"[^\n]+", text):
        begin = line.start()
        for match in _END.finditer(text, line.start(), line.end()):
            before = text[max(begin, match.end() - _LONGEST_ABBREVIATION) : match.end()]
            # where a small letter follows, as in "No!" he said, the sentence goes on
            if text[match.end() : match.end() + 1].islower() or _ABBREVIATION.search(before):
                continue
            yield begin, match.end()
            begin = match.end()
        yield begin, line.end()


def _pieces(text: str, begin: int, end: int, max_length: int) -> Iterator[tuple[int, int]]:
    """The span without spaces around it, in pieces of at most so many characters; none if it is empty."""
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
            # after a comma rather than between two words, unless that is far from the end
            strong = [pause for pause in pauses if not text[begin:pause].rstrip()[-1].isalnum()]
            best = [pause for pause in strong if pause > begin + max_length // 2] or pauses or [begin + max_length]
            stop = best[-1]
        yield begin, begin + len(text[begin:stop].rstrip())
        begin = stop
