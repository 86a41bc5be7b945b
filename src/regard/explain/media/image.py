"""Images: each patch is a unit; the picture itself is part of the layout."""

import base64
import binascii
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from regard.codecs.pixels import image_files
from regard.errors import RegardError
from regard.explain.trace import Stream

PREFIX = "data:image/"
EXAMPLE = None
CLASS = ("class", "class 2")
"""The labels of class tokens, which come before all patches."""


@dataclass(frozen=True)
class ImageLayout:
    """A picture and its grid of patches."""

    rows: int
    columns: int
    extra: int
    """The number of class tokens, which come before the patches."""
    picture: str
    """The picture as the model sees it, as a data URL."""


def image_stream(pixels: npt.NDArray[np.uint8], grid: tuple[int, int], extra: int) -> Stream:
    """A stream of the patches of a picture, given its pixels (channels, rows, columns)."""
    rows, columns = grid
    names = [f"{y + 1},{x + 1}" for y in range(rows) for x in range(columns)]
    layout = ImageLayout(rows, columns, extra, data_url(pixels))
    return Stream(tuple(range(extra + len(names))), (*CLASS[:extra], *names), "image", layout)


def data_url(pixels: npt.NDArray[np.uint8]) -> str:
    """Pixels (channels, rows, columns) as a PNG in a data URL."""
    return f"{PREFIX}png;base64,{base64.b64encode(image_files().png(pixels)).decode()}"


def source(value: str | Path | bytes) -> Path | bytes:
    """An image as a path, or as the bytes of a file; a string is a data URL or a path."""
    if not isinstance(value, str):
        return value
    if not value.startswith(PREFIX):
        return Path(value)
    _, is_encoded, content = value.partition(";base64,")
    try:
        if not is_encoded:
            raise ValueError("no base64")
        return base64.b64decode(content, validate=True)
    except (ValueError, binascii.Error):
        raise RegardError("the image is not a data URL in base64; send it as data:image/png;base64,...") from None


def units(stream: Stream) -> tuple[int, ...]:
    """Each token is a unit."""
    return tuple(range(len(stream.tokens)))


def labels(stream: Stream) -> tuple[str, ...]:
    """Row and column of each patch, counted from 1."""
    return stream.pieces


def line(stream: Stream) -> str:
    """The size of the grid."""
    layout = layout_of(stream)
    return f"{layout.rows} × {layout.columns} patches"


def pixels(stream: Stream) -> npt.NDArray[np.uint8]:
    """The picture: rows × columns, or rows × columns × colours."""
    found: npt.NDArray[np.uint8] = image_files().from_png(source(layout_of(stream).picture))
    return found


def layout_of(stream: Stream) -> ImageLayout:
    """The layout of an image stream."""
    assert isinstance(stream.layout, ImageLayout)
    return stream.layout
