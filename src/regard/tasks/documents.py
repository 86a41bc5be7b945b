"""Whole texts: cut into sentences, which are translated, and put back together."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from regard.data.sentences import Document, split
from regard.tasks.translation import Translation

Translate = Callable[[Sequence[str]], list[list[Translation]]]


@dataclass(frozen=True)
class Translated:
    """A text, and the translations of each of its sentences."""

    text: str
    document: Document
    found: tuple[list[Translation], ...]

    def ranks(self) -> range:
        """The numbers of its translations, the best being 0."""
        return range(min((len(translations) for translations in self.found), default=1))

    def translation(self, rank: int) -> str:
        """The text with every sentence translated, by its best translation or the one of that rank."""
        return self.document.with_sentences([translations[rank].text for translations in self.found])

    def pharaoh(self, rank: int) -> str:
        """Which word of the text stands for which word of its translation, as `0-0 1-2`."""
        links, source, target = [], 0, 0
        for gap, translations in zip(self.document.gaps, self.found, strict=False):
            alignment = translations[rank].alignment
            assert alignment is not None
            if source and not gap:  # two sentences in one word, as in a script without spaces
                source, target = source - 1, target - 1
            links += [f"{i + source}-{j + target}" for i, j in alignment.links()]
            source, target = source + len(alignment.source), target + len(alignment.target)
        return " ".join(links)


def translate_texts(texts: Iterator[str], translate: Translate, at_once: int = 500) -> Iterator[Translated]:
    """Translates texts of any length one after the other, so many in one go."""
    while some := list(islice(texts, at_once)):
        documents = [split(text) for text in some]
        found = iter(translate([sentence for document in documents for sentence in document.sentences]))
        for text, document in zip(some, documents, strict=True):
            yield Translated(text, document, tuple(islice(found, len(document.sentences))))
