"""Reads and writes SentencePiece model files without the library: a few fields of a protocol buffer.

A buffer is a sequence of fields. A field is a key, which holds its number and its wire type, and a value. Wire types: 0
a varint (groups of 7 bits), 1 eight bytes, 2 a length and that number of bytes, 5 four bytes.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from regard.errors import RegardError

UNIGRAM, NORMAL, UNKNOWN, CONTROL = 1, 1, 2, 3


@dataclass(frozen=True)
class SentencePiece:
    """A unigram model: its pieces with their scores, and its text normalisation."""

    pieces: dict[str, float]
    charsmap: bytes
    """Replacements of characters, in the format of `tokenizers.normalizers.Precompiled`; may be empty."""
    strips: bool = True
    """Whether spaces around the text are removed, and repeated spaces are merged."""


def read(data: bytes) -> SentencePiece:
    """Parses the bytes of a model file."""
    pieces, charsmap, strips, prepends, kind = {}, b"", True, True, UNIGRAM
    try:
        for field, value in _fields(data):
            if field == 1:
                piece = dict(_fields(value))
                if piece.get(3, NORMAL) == NORMAL:
                    pieces[piece[1].decode()] = struct.unpack("<f", piece[2])[0]
            elif field == 2:
                kind = dict(_fields(value)).get(3, UNIGRAM)
            elif field == 3:
                normalizer = dict(_fields(value))
                prepends = bool(normalizer.get(3, 1))
                charsmap, strips = normalizer.get(2, b""), bool(normalizer.get(4, 1))
    except (AttributeError, IndexError, KeyError, TypeError, UnicodeDecodeError, struct.error):
        raise RegardError("not a SentencePiece model, or a damaged one") from None
    if kind != UNIGRAM:
        raise RegardError("this SentencePiece model is not a unigram model; only unigram models can be converted")
    if not prepends:
        raise RegardError("this SentencePiece model has add_dummy_prefix = false; only true can be converted")
    if not pieces:
        raise RegardError("not a SentencePiece model: it has no pieces")
    return SentencePiece(pieces, charsmap, strips)


def write(model: SentencePiece) -> bytes:
    """The bytes of a model file."""
    specials = [_piece("<unk>", 0.0, UNKNOWN), _piece("<s>", 0.0, CONTROL), _piece("</s>", 0.0, CONTROL)]
    pieces = specials + [_piece(piece, score, NORMAL) for piece, score in model.pieces.items()]
    trainer = _field(3, UNIGRAM)
    name = "precompiled" if model.charsmap else "identity"
    normalizer = _field(1, name.encode()) + _field(2, model.charsmap) + _field(4, int(model.strips))
    return b"".join(_field(1, piece) for piece in pieces) + _field(2, trainer) + _field(3, normalizer)


def _piece(text: str, score: float, kind: int) -> bytes:
    return _field(1, text.encode()) + _varint(2 << 3 | 5) + struct.pack("<f", score) + _field(3, kind)


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The number and value of each field of a buffer, in order."""
    position = 0
    while position < len(data):
        key, position = _read_varint(data, position)
        wire_type = key & 7
        if wire_type == 0:
            value, position = _read_varint(data, position)
            yield key >> 3, value
            continue
        if wire_type == 2:
            size, position = _read_varint(data, position)
        else:
            size = {1: 8, 5: 4}[wire_type]
        if position + size > len(data):
            raise IndexError
        yield key >> 3, data[position : position + size]
        position += size


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[position]
        number |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return number, position


def _field(field: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(field << 3) + _varint(value)
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    result = bytearray()
    while value > 127:
        result.append(value & 127 | 128)
        value >>= 7
    return bytes([*result, value])
