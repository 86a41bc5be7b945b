"""Reads and writes image files with Pillow (needs `pip install regard[vision]`)."""

import io
import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from regard.errors import RegardError

Pixel = npt.NDArray[np.uint8]


def opened(source: Path | bytes, channels: int) -> Image.Image:
    """The first frame of an image file, upright, in grey or in colour; transparency becomes white.

    Raises `RegardError`, with the path and the reason, if it is no image, is damaged, or has too many pixels.
    """
    name = str(source) if isinstance(source, Path) else "the image"
    try:
        with warnings.catch_warnings():
            # Pillow's limit against decompression bombs; between it and twice the limit Pillow only warns
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(source if isinstance(source, Path) else io.BytesIO(source)) as image:
                image.load()
                upright = ImageOps.exif_transpose(image)
    except FileNotFoundError:
        raise RegardError(f"{name}: no such file") from None
    except UnidentifiedImageError:
        raise RegardError(f"{name}: not an image that can be read; use JPEG, PNG, WebP or GIF") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        limit = Image.MAX_IMAGE_PIXELS or 0
        raise RegardError(f"{name}: has more than {limit:,} pixels, the limit; resize it first") from None
    except IsADirectoryError:
        raise RegardError(f"{name}: a folder, not an image") from None
    except (OSError, SyntaxError, ValueError, EOFError, MemoryError, OverflowError) as error:
        raise RegardError(f"{name}: damaged or truncated ({error or type(error).__name__})") from None
    return _converted(upright, channels)


def _converted(image: Image.Image, channels: int) -> Image.Image:
    if image.mode.startswith(("I", "F")):
        # 16 or 32 bits: Pillow would clip instead of scaling
        values = np.asarray(image, dtype=np.float64)
        low, high = (0.0, 65535.0) if image.mode.startswith("I;16") or values.max(initial=0) > 255 else (0.0, 255.0)
        scaled = (values.clip(low, high) / high * 255).round().astype(np.uint8)
        image = Image.fromarray(scaled)
    if "transparency" in image.info or image.mode in ("RGBA", "LA", "PA", "RGBa", "La"):
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("L" if channels == 1 else "RGB")


def fitted(image: Image.Image, height: int, width: int, fit: str, resample: str) -> Pixel:
    """An image at another size.

    Args:
        fit: "crop" fills the size and crops the longer side evenly; "pad" adds black; "squash" changes the shape.
    """
    method = Image.Resampling.BICUBIC if resample == "bicubic" else Image.Resampling.BILINEAR
    size = (width, height)
    if image.size != size:
        if fit == "crop":
            image = ImageOps.fit(image, size, method)
        elif fit == "pad":
            image = ImageOps.pad(image, size, method)
        else:
            image = image.resize(size, method)
    pixels = np.asarray(image)
    return pixels[None].copy() if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def png(pixels: Pixel) -> bytes:
    """Pixels (channels, rows, columns) as the bytes of a PNG file."""
    buffer = io.BytesIO()
    Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)).save(buffer, "PNG")
    return buffer.getvalue()


def from_png(content: bytes) -> Pixel:
    """The pixels of a PNG file: rows × columns, or rows × columns × colours."""
    return np.asarray(Image.open(io.BytesIO(content)))
