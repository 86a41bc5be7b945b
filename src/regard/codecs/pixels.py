"""Images as normalised pixels: decoded, resized and cropped by Pillow, then (x − mean) / spread per channel."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor

from regard.codecs.interface import CodecConfig, CodecExamples, Say
from regard.config import Config, Positive, Problem, parse
from regard.errors import RegardError

Pixel = npt.NDArray[np.uint8]
Source = Path | bytes
Fit = Literal["crop", "squash", "pad"]
Resample = Literal["bilinear", "bicubic"]
MEASURED = 5_000  # maximum number of images that mean and spread are measured on
Numbers = Annotated[tuple[float, ...], Field(min_length=1, max_length=3)]


@dataclass(frozen=True, kw_only=True)
class Pixels(Config):
    """How image files become tensors."""

    slot: ClassVar = "image"
    kind: Literal["pixels"] = "pixels"
    height: Positive
    """Rows of an image in pixels."""
    width: Positive
    """Columns of an image in pixels."""
    channels: Literal[1, 3]
    """1 grey, 3 colour."""
    mean: Numbers
    """The mean of each channel, subtracted; pixels are between 0 and 1."""
    spread: Numbers
    """The standard deviation of each channel, by which the result is divided."""
    fit: Fit = "crop"
    """How an image of another shape is fitted."""
    resample: Resample = "bicubic"
    """The filter for resizing."""

    def problems(self) -> Iterator[Problem]:
        """Values that do not fit the number of channels."""
        for name in ("mean", "spread"):
            if len(values := getattr(self, name)) != self.channels:
                yield Problem(name, f"has {len(values)} numbers for {self.channels} channels")
        if min(self.spread) <= 0:
            yield Problem("spread", "must be above 0", list(self.spread))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads a file written by `save`."""
        try:
            data = json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise RegardError(f"{path}: not the settings of an image codec ({error})") from None
        return parse(cls, data, source=str(path))

    def save(self, path: Path) -> None:
        """Writes the settings as one JSON file."""
        path.write_text(self.to_json(), "utf-8")

    def sizes(self) -> dict[str, Any]:
        """The size and the channels of the images that a model reads."""
        return {"image_size": (self.height, self.width), "channels": self.channels}

    def pixels(self, source: Source) -> Pixel:
        """The image of a file, or of the bytes of one, at the codec's size: (channels, rows, columns), 0 to 255."""
        files = image_files()
        image = files.opened(source, self.channels)
        pixels: Pixel = files.fitted(image, self.height, self.width, self.fit, self.resample)
        return pixels

    def normalized(self, pixels: Tensor) -> Tensor:
        """Pixels from 0 to 255 as the model reads them; channels are the third dimension from the end."""
        mean, spread = (torch.tensor(x, device=pixels.device).view(-1, 1, 1) for x in (self.mean, self.spread))
        return (pixels.float() / 255 - mean) / spread

    def restored(self, images: Tensor) -> Tensor:
        """The inverse of `normalized`, rounded to whole numbers from 0 to 255."""
        mean, spread = (torch.tensor(x, device=images.device).view(-1, 1, 1) for x in (self.mean, self.spread))
        return ((images * spread + mean) * 255).round().clamp(0, 255).to(torch.uint8)


def image_files() -> Any:
    """The module that reads and writes image files; raises `RegardError` without Pillow."""
    try:
        from regard.codecs import image_files
    except ImportError:
        raise RegardError("images need Pillow; install it with: pip install 'regard[vision]'") from None
    return image_files


Sides = Positive | tuple[Positive, Positive]


@dataclass(frozen=True, kw_only=True)
class PixelsConfig(CodecConfig):
    """Images: their size, channels and normalisation."""

    codec: ClassVar = Pixels
    kind: Literal["pixels"] = "pixels"
    size: Sides = 224
    """Rows and columns that images are resized to: one number for both, or two, such as [128, 256]."""
    channels: Literal[1, 3] = 3
    """1: grey; 3: colour."""
    fit: Fit = "crop"
    """How an image of another shape is fitted: `crop` crops its longer side, `pad` adds black, `squash` distorts it."""
    resample: Resample = "bicubic"
    """The filter for resizing."""
    mean: Numbers | None = None
    """The mean of each channel, with pixels from 0 to 1; default: measured on the training images."""
    spread: Numbers | None = None
    """The standard deviation of each channel; default: measured on the training images."""

    @property
    def height_width(self) -> tuple[int, int]:
        """Rows and columns."""
        return (self.size, self.size) if isinstance(self.size, int) else self.size

    def expected(self) -> dict[str, Any]:
        """The size and the channels of the images."""
        return {"image_size": self.height_width, "channels": self.channels}

    def learn(self, examples: CodecExamples, _say: Say) -> Pixels:
        """Measures mean and spread on training images, unless they are given."""
        height, width = self.height_width
        neutral = (0.0,) * self.channels, (1.0,) * self.channels
        codec = Pixels(
            height=height, width=width, channels=self.channels, mean=neutral[0], spread=neutral[1], fit=self.fit,
            resample=self.resample,
        )  # fmt: skip
        mean, spread = self.mean, self.spread
        if mean is None or spread is None:
            measured = _measured(examples.train(), codec)
            mean, spread = mean or measured[0], spread or measured[1]
        return Pixels(**{**vars(codec), "mean": mean, "spread": spread})

    @classmethod
    def of(cls, codecs: Sequence[Pixels]) -> Self:
        """The settings of an existing codec."""
        own = codecs[0]
        return cls(
            size=(own.height, own.width), channels=own.channels, fit=own.fit, resample=own.resample, mean=own.mean,
            spread=own.spread,
        )  # fmt: skip


def _measured(images: Iterable[Pixel | Source], codec: Pixels) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel."""
    count, total, squares = 0, np.zeros(codec.channels), np.zeros(codec.channels)
    for image in islice(images, MEASURED):
        pixels = (image if isinstance(image, np.ndarray) else codec.pixels(image)).astype(np.float64) / 255
        count += pixels[0].size
        total += pixels.sum((1, 2))
        squares += np.square(pixels).sum((1, 2))
    if not count:
        raise RegardError("there are no images to measure mean and spread on")
    mean = total / count
    spread = np.sqrt(np.maximum(squares / count - mean**2, 0))
    # a channel without any variation is only shifted
    return tuple(mean.round(6).tolist()), tuple(np.where(spread > 1e-3, spread, 1.0).round(6).tolist())
