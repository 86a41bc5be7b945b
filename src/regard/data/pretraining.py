"""What BERT learns from: pairs of texts, some of whose words are hidden (Devlin et al. 2018, 3.1 and A.1).

    [CLS] A A A A [SEP] B B B [SEP]

Half of the time B goes on where A ends, half of the time it comes from another document. Some of the tokens are asked
for: most of these are replaced by [MASK], some by any other token, and some stay as they are. All of it is drawn anew
each epoch, from the seed and the epoch's number alone.

The sentences are encoded once, into a folder: `tokens.bin` holds all tokens one after the other, `sentences.npy` says
where each sentence begins in it, `documents.npy` at which sentence each document begins. Nothing is held in memory but
these numbers and what a batch needs.
"""

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from regard.codecs.wordpiece import INSIDE, WordPiece
from regard.data.batches import IGNORED, Batch, Indices, Lengths, given, pad, padding
from regard.data.corpus import cached, mapped
from regard.data.sequences import fit
from regard.errors import RegardError

ROUNDS = 5  # to find out how often texts must be apart, which depends on how often the others are
MASKED, REPLACED = 0.8, 0.1  # shares of the tokens asked for; the rest stay as they are


class Sentences:
    """Encoded documents, mapped from a folder; no sentence and no document is empty."""

    def __init__(self, folder: Path) -> None:
        self.tokens = mapped(folder / "tokens.bin")
        self.begins: Indices = np.asarray(np.load(folder / "sentences.npy", mmap_mode="r"))
        self.documents: Indices = np.asarray(np.load(folder / "documents.npy", mmap_mode="r"))
        if self.begins[-1] != len(self.tokens) or self.documents[-1] != len(self):
            raise RegardError(f"{folder}: damaged, its files do not fit together")

    def __len__(self) -> int:
        return len(self.begins) - 1

    def documents_of(self, sentences: Indices) -> Indices:
        """The document of each of these sentences."""
        return np.searchsorted(self.documents, sentences, side="right") - 1

    def gathered(self, first: Indices, wanted: Indices, min_sentences: int = 1) -> Indices:
        """Where at least so many sentences from the first on end: with as many tokens, or with the document."""
        stop = np.searchsorted(self.begins, self.begins[first] + wanted)
        return np.clip(stop, first + min_sentences, self.documents[self.documents_of(first) + 1])


def encoded(read: Callable[[], Iterable[list[str]]], key: str, tokenizer: WordPiece, cache: Path) -> Sentences:
    """The sentences of the documents that `read` reads: from the cache, or else made there.

    Args:
        key: a hash of all that `read` depends on.
    """
    recipe = ["documents", 1, key, tokenizer.to_json()]  # 1: the version of the format
    return cached(cache, recipe, lambda folder: _encode(read(), tokenizer, folder), Sentences)


def _encode(documents: Iterable[list[str]], tokenizer: WordPiece, folder: Path) -> None:
    sentence_begins, document_begins = array("q", [0]), array("q", [0])
    with (folder / "tokens.bin").open("wb") as file:
        for document in documents:
            # a sentence may be nothing but what the tokenizer leaves out
            if sentences := [tokens for tokens in tokenizer.encode(document) if tokens]:
                file.write(np.fromiter(chain.from_iterable(sentences), np.uint32).tobytes())
                for tokens in sentences:
                    sentence_begins.append(sentence_begins[-1] + len(tokens))
                document_begins.append(document_begins[-1] + len(sentences))
    np.save(folder / "sentences.npy", np.array(sentence_begins, np.int64))
    np.save(folder / "documents.npy", np.array(document_begins, np.int64))


@dataclass(frozen=True)
class PretrainingBatch(Batch):
    """Texts, or pairs of them, with words hidden."""

    targets: ClassVar = {"words_BT": IGNORED, "follows_B": IGNORED}
    tokens_BT: Tensor
    segments_BT: Tensor
    """0: the first text, and padding; 1: the second."""
    words_BT: Tensor
    """The true token where it is asked for."""
    follows_B: Tensor
    """0: the second text follows the first; 1: it does not."""
    is_padding_BT: Tensor | None = None

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What the model is called with."""
        return given(self.tokens_BT, self.segments_BT, self.is_padding_BT)


class PretrainingExamples:
    """Examples made of sentences, others in each epoch.

    Args:
        longest: the most tokens of an example, [CLS] and [SEP]s included.
        masked: the share of the tokens that are asked for.
        whole_words: the pieces of a word are asked for all together or not at all.
        short: the share of examples that are shorter than they could be, so that such texts are known too.
        next_sentence: examples are pairs of texts; else each is a single one.
    """

    def __init__(
        self,
        sentences: Sentences,
        tokenizer: WordPiece,
        *,
        max_length: int = 128,
        mask_rate: float = 0.15,
        whole_words: bool = False,
        short_rate: float = 0.1,
        next_sentence: bool = True,
        seed: int = 1,
    ) -> None:
        self.sentences, self.tokenizer, self.masking = sentences, tokenizer, Masking(tokenizer, mask_rate, whole_words)
        self.max_length, self.short_rate, self.next_sentence, self.seed = max_length, short_rate, next_sentence, seed
        self.marks = 3 if next_sentence else 2
        if max_length < self.marks + 2:
            raise RegardError(
                f"examples of {max_length} tokens are too short; the marks and two words need {self.marks + 2}"
            )
        if not len(sentences):
            raise RegardError("there is too little text: some of it has to be kept to validate with")
        if next_sentence and len(sentences.documents) == 2:
            raise RegardError(
                "all text is one document, and a sentence that does not follow must come from another; "
                "give more files, or set data.split = 'heading' or 'blank', or data.next_sentence = false"
            )

    def epoch(self, number: int) -> "PretrainingEpoch":
        """The examples of an epoch, planned but not yet made."""
        rng = np.random.default_rng([self.seed, number])
        room = self.max_length - self.marks
        begins, ends, follows = (self._pairs if self.next_sentence else self._singles)(room, rng)
        one, other = (ends - begins).T
        sizes = np.stack(fit(one, other, room), axis=1)
        # what is too much is cut off token by token, each at the front or at the back
        begins += rng.binomial(ends - begins - sizes, 0.5)
        return PretrainingEpoch(self, number, begins, sizes, follows)

    def _pairs(self, room: int, rng: np.random.Generator) -> tuple[Indices, Indices, Indices]:
        """Where A and B begin, where they end, and whether B follows.

        As in the paper's own code: A is the first few of some sentences that fill an example, B the others or a piece
        of another document. In the latter case the others are used again.
        """
        # An example is drawn for every sentence as if it began there, all at once; each says where the next one begins,
        # and so which of them there are.
        sentences, everywhere = self.sentences, np.arange(len(self.sentences))
        wanted, stop = self._filled(room, rng, min_sentences=2)
        middle = everywhere + rng.integers(1, np.maximum(stop - everywhere, 2))
        # nothing follows the end of a document: such texts must be apart, so that of the others fewer may be
        must_be, lot, share = middle == stop, rng.random(len(stop)), 0.5
        for _ in range(ROUNDS):
            is_apart = must_be | (lot < share)
            first = _steps(np.where(is_apart, middle, stop))
            forced = must_be[first].mean()
            share = max(0.0, 0.5 - forced) / max(0.5, 1 - forced)
        middle, stop, is_apart = middle[first], stop[first], is_apart[first]
        begins, ends = sentences.begins[np.stack([[first, middle], [middle, stop]])].swapaxes(1, 2)
        missing = wanted[first] - (ends - begins)[:, 0]
        start = self._elsewhere(first[is_apart], rng)
        begins[is_apart, 1] = sentences.begins[start]
        ends[is_apart, 1] = sentences.begins[sentences.gathered(start, missing[is_apart])]
        return begins, ends, is_apart.astype(np.int64)

    def _singles(self, room: int, rng: np.random.Generator) -> tuple[Indices, Indices, Indices]:
        """The same without a question: B is empty."""
        _, stop = self._filled(room, rng)
        first = _steps(stop)
        begins, ends = self.sentences.begins[np.stack([first, stop[first]])]
        return np.stack([begins, ends], axis=1), np.stack([ends, ends], axis=1), np.full(len(first), IGNORED)

    def _filled(self, room: int, rng: np.random.Generator, min_sentences: int = 1) -> tuple[Indices, Indices]:
        """For an example that begins at any sentence: the tokens that it should have, and where it ends so.

        Args:
            least: sentences of an example, where its document has so many.
        """
        count = len(self.sentences)
        shorter = rng.integers(2, room, count, endpoint=True)
        wanted = np.where(rng.random(count) < self.short_rate, shorter, room)
        return wanted, self.sentences.gathered(np.arange(count), wanted, min_sentences)

    def _elsewhere(self, sentences: Indices, rng: np.random.Generator) -> Indices:
        """For each of these sentences, any one of any other document."""
        documents = self.sentences.documents
        other = rng.integers(0, len(documents) - 2, len(sentences))
        other += other >= self.sentences.documents_of(sentences)
        return rng.integers(documents[other], documents[other + 1])


def _steps(after: Indices) -> Indices:
    """0, what comes after it, what comes after that, and so on to the end."""
    following, steps, at = after.tolist(), array("q"), 0
    while at < len(following):
        steps.append(at)
        at = following[at]
    return np.array(steps, np.int64)


@dataclass(frozen=True)
class PretrainingEpoch:
    """The examples of an epoch: where among all tokens the two texts of each begin, how long they are."""

    examples: PretrainingExamples
    number: int
    begins: Indices
    sizes: Indices
    follows: Indices

    @property
    def lengths(self) -> Lengths:
        """The tokens of each example, [CLS] and [SEP]s included."""
        lengths: Indices = self.sizes.sum(1, keepdims=True) + self.examples.marks
        return lengths.astype(np.int32)

    def fetch(self, indices: Indices) -> PretrainingBatch:
        """The examples of these numbers; what is hidden in one does not depend on the others."""
        tokens, segments, words = zip(*(self._example(int(index)) for index in indices), strict=True)
        return PretrainingBatch(
            pad(tokens, self.examples.tokenizer.pad),
            pad(segments, 0),
            pad(words, IGNORED),
            torch.from_numpy(self.follows[indices]),
            padding([len(text) for text in tokens]),
        )

    def _example(self, index: int) -> tuple[Indices, Indices, Indices]:
        """Tokens, segments and words of one example."""
        examples = self.examples
        spans = zip(self.begins[index], self.sizes[index], strict=True)
        one, other = (examples.sentences.tokens[begin : begin + size] for begin, size in spans)
        begin, end = [examples.tokenizer.begin], [examples.tokenizer.end]
        first, second = [begin, one, end], [other, end] if examples.next_sentence else []
        tokens = np.concatenate([*first, *second]).astype(np.int64)
        segments = (np.arange(len(tokens)) >= len(one) + 2).astype(np.int64)
        # from 1 on, since [seed, epoch, 0] is the same to numpy as [seed, epoch], which has planned the epoch
        rng = np.random.default_rng([examples.seed, self.number, index + 1])
        seen, words = examples.masking(tokens, rng)
        return seen, segments, words


class Masking:
    """Asks for some of the tokens of a text and hides most of these, so that the model must guess them."""

    def __init__(self, tokenizer: WordPiece, share: float, whole_words: bool) -> None:
        self.share, self.whole_words, self.mask = share, whole_words, tokenizer.mask
        every = np.arange(tokenizer.vocab_size)
        self.is_special = np.isin(every, list(tokenizer.specials))
        self.ordinary = every[~self.is_special]
        self.goes_on = np.array([piece.startswith(INSIDE) for piece in tokenizer.pieces(every.tolist())])

    def __call__(self, tokens: Indices, rng: np.random.Generator) -> tuple[Indices, Indices]:
        """The tokens as the model sees them, and the true ones where they are asked for."""
        selected = self._selected(tokens, rng)
        lot = rng.random(len(selected))
        is_replaced = (lot >= MASKED) & (lot < MASKED + REPLACED)
        seen, words = tokens.copy(), np.full_like(tokens, IGNORED)
        seen[selected[lot < MASKED]] = self.mask
        seen[selected[is_replaced]] = self.ordinary[rng.integers(len(self.ordinary), size=is_replaced.sum())]
        words[selected] = tokens[selected]
        return seen, words

    def _selected(self, tokens: Indices, rng: np.random.Generator) -> Indices:
        places = np.flatnonzero(~self.is_special[tokens])
        count = max(1, round(self.share * len(places)))
        if not self.whole_words:
            return rng.permutation(places)[:count]
        is_new = ~self.goes_on[tokens[places]] | (np.diff(places, prepend=-2) > 1)  # after a mark, too, a word begins
        words = np.split(places, np.flatnonzero(is_new)[1:])
        selected: list[int] = []
        for i in rng.permutation(len(words)):
            # the first however long it is, so that one is asked for, others while they fit
            if not selected or len(selected) + len(words[i]) <= count:
                selected += words[i].tolist()
        return np.array(selected, np.int64)
