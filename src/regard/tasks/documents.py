"""Whole texts: split into sentences, translated, and joined again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from regard.data.sentences import Document, split
from regard.tasks.texts import one_line
from regard.tasks.translation_types import Translation

Translate = Callable[[Sequence[str], Sequence[str]], list[list[Translation]]]
"""Translates sentences; each translation begins with its prefix."""


@dataclass(frozen=True)
class Translated:
    """A text, and the translations of each of its sentences."""

    text: str
    document: Document
    found: tuple[list[Translation], ...]

    def ranks(self) -> range:
        """The ranks of its translations; 0 is the best."""
        return range(min((len(translations) for translations in self.found), default=1))

    def translation(self, rank: int) -> str:
        """The text with every sentence replaced by its translation of this rank."""
        return self.document.with_sentences([one_line(translations[rank].text) for translations in self.found])

    def pharaoh(self, rank: int) -> str:
        """The word alignment of the text and its translation in Pharaoh format, such as `0-0 1-2`."""
        chosen = [translations[rank] for translations in self.found]
        target_gaps = self.document.gaps_for([translation.text for translation in chosen])
        links, source, target = [], 0, 0
        parts = zip(self.document.sentences, chosen, self.document.gaps, target_gaps, strict=False)
        for sentence, translation, gap, target_gap in parts:
            assert translation.alignment is not None
            # in a script without spaces, two sentences may share a word
            source -= bool(source and not gap)
            target -= bool(target and not target_gap)
            links += [f"{i + source}-{j + target}" for i, j in translation.alignment.links()]
            # not len(alignment.source): a long sentence may be truncated there
            source += len(sentence.encode().split())
            target += len(translation.alignment.target)
        return " ".join(links)


def translate_texts(texts: Sequence[str], translate: Translate, prefix: str = "") -> list[Translated]:
    """Translates texts of any length, all at once; each translation begins with the prefix."""
    documents = [split(text) for text in texts]
    sentences = [sentence for document in documents for sentence in document.sentences]
    prefixes = [prefix if not i else "" for document in documents for i in range(len(document.sentences))]
    found = iter(translate(sentences, prefixes if prefix else ()))
    return [
        Translated(text, document, tuple(islice(found, len(document.sentences))))
        for text, document in zip(texts, documents, strict=True)
    ]
