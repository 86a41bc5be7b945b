"""Byte-pair encoding, written to be read: the same tokens as `gpt2.ByteBpe`, in a few lines of Python.

A text is cut into words, and words into bytes. Whoever learns joins the two neighbours that stand side by side most
often into a new token, looks again, and so on; whoever encodes joins what has been learned, in the same order.

    pairs = learn(3, [b"low lower lowest"])     # l + o, lo + w, and the space before it: " " + low
    encode(b" lower", pairs)                    # [258, 68, 81]: " low", "e", "r"
    decode([258, 68, 81], pairs)                # b" lower"

Tokens 0 to 255 are the bytes, token 256 is the first pair joined, token 257 the second. There is no token for the end
of a document: `gpt2.ByteBpe` puts one after these.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from tokenizers import Regex, pre_tokenizers

Pair = tuple[int, int]
Pairs = Sequence[Pair]

# GPT-2 numbers the bytes that are a visible character in Latin-1 first; token 0 is "!", token 220 the space.
BYTES = sorted(range(256), key=lambda byte: (byte == ord(" ") or not chr(byte).isprintable(), byte))
NUMBERS = {byte: number for number, byte in enumerate(BYTES)}

# GPT-2's words: English endings; letters, digits, or other signs, each with the space before them; and spaces, but for
# the last one if a word comes after it. Python's own expressions do not know letters, \p{L}, and digits, \p{N}.
WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CUT = pre_tokenizers.Split(Regex(WORDS), "isolated")


def split(text: bytes) -> list[bytes]:
    """The words of a text; pairs are never joined across two of them.

    A text may be any bytes. Those that are not UTF-8 count as signs.
    """
    letters = text.decode("utf-8", "surrogateescape")  # such bytes become what Python can turn into them again
    signs = re.sub(r"[\udc80-\udcff]", "\ufffd", letters)
    cuts = [cut for _, cut in _CUT.pre_tokenize_str(signs)]
    return [letters[begin:end].encode("utf-8", "surrogateescape") for begin, end in cuts]


def join(tokens: Iterable[int], pair: Pair, joined: int) -> list[int]:
    """The tokens with the pair made one wherever it stands, from left to right."""
    result: list[int] = []
    for token in tokens:
        if result and (result[-1], token) == pair:
            result[-1] = joined
        else:
            result.append(token)
    return result


def learn(most: int, texts: Iterable[bytes]) -> list[Pair]:
    """The pairs to join, in order, at most so many.

    Each is the most frequent one after those before it are joined; the first `a a` of `a a a` counts, and so does the
    second. Of pairs that are equally frequent, the one whose left token has the lowest number is taken, then the one
    whose right token has. `tokenizers` counts and decides alike.
    """
    words = Counter(tuple(NUMBERS[byte] for byte in word) for text in texts for word in split(text))
    pairs: list[Pair] = []
    while len(pairs) < most:
        counts: Counter[Pair] = Counter()
        for word, times in words.items():
            for pair in pairwise(word):
                counts[pair] += times
        if not counts:
            break  # every word is one token
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        words = Counter({tuple(join(word, best, 256 + len(pairs))): times for word, times in words.items()})
        pairs.append(best)
    return pairs


def encode(text: bytes, pairs: Pairs) -> list[int]:
    """The tokens of a text: in each word, of the pairs that stand there, the one learned first is joined first."""
    joined = {pair: number for number, pair in enumerate(pairs, start=256)}
    tokens = []
    for word in split(text):
        part = [NUMBERS[byte] for byte in word]
        while known := joined.keys() & pairwise(part):
            first = min(known, key=joined.__getitem__)
            part = join(part, first, joined[first])
        tokens += part
    return tokens


def decode(tokens: Iterable[int], pairs: Pairs) -> bytes:
    """The text of some tokens, byte by byte as it was."""
    spelled = [bytes([byte]) for byte in BYTES]
    for left, right in pairs:
        spelled.append(spelled[left] + spelled[right])
    return b"".join(spelled[token] for token in tokens)
