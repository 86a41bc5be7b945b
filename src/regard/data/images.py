"""Labelled images: a folder per class, or a table of paths and labels; decoded once into a cache.

The cache holds all images at the codec's size, as bytes, and is memory-mapped. Data that would need more than
`data.cache_gigabytes` are decoded whenever they are needed.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor

from regard import folders
from regard.codecs.pixels import Pixel, Pixels
from regard.config import Config, Positive
from regard.data.augment import AugmentConfig, augmented, mixed
from regard.data.batches import IGNORED, Batch, Indices, Lengths
from regard.data.cache import cached
from regard.data.corpus import file_hash
from regard.data.tables import read_table
from regard.errors import RegardError

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm"}
TABLES = (".tsv", ".csv", ".jsonl")
SHARE = 10  # at most one image in ten is held out for validation
DECODERS = 2  # threads; Pillow decodes outside of Python's lock
Say = Callable[[str], object]


class ImageExample(NamedTuple):
    """An image file and its label."""

    path: Path
    label: str


@dataclass(frozen=True, kw_only=True)
class ImagesConfig(Config):
    """Images with labels."""

    kind: Literal["images"] = "images"
    train: str
    """Training images: a folder with one folder per class, or a table (TSV, CSV, JSONL) of paths and labels."""
    valid: str | None = None
    """Validation images, in the same form; without it, `hold_out` training images are held out."""
    hold_out: Positive = 1000
    """Maximum number of training images held out for validation, if `valid` is not given; never more than a tenth."""
    max_examples: Positive | None = None
    """Maximum number of training images, chosen evenly from all of them."""
    path: str = "path"
    """The path column of a table; paths are relative to the table's folder."""
    label: str = "label"
    """The label column of a table."""
    damaged: Literal["error", "skip"] = "error"
    """What happens to an image that cannot be read: `error` stops, `skip` leaves it out and reports it."""
    cache_gigabytes: Annotated[float, Field(ge=0)] = 4.0
    """Maximum size of the cache of decoded images; larger data are decoded in each epoch."""
    augment: AugmentConfig = AugmentConfig()  # noqa: RUF009, it is frozen
    """Data augmentation of the training images."""

    def parts(self, say: Say) -> tuple[list[ImageExample], list[ImageExample]]:
        """The training images and the validation images."""
        train = self.read(self.train, "data.train")
        if self.valid is not None:
            valid = self.read(self.valid, "data.valid")
        else:
            train, valid = split(train, self.hold_out)
            say(f"validation: {len(valid):,} images split from training; give others with data.valid")
        if self.max_examples is not None and self.max_examples < len(train):
            train = [train[i] for i in np.linspace(0, len(train) - 1, self.max_examples).astype(int)]
        return train, valid

    def read(self, name: str, key: str) -> list[ImageExample]:
        """The images of a folder or a table."""
        place = Path(name).expanduser()
        if place.is_dir():
            found = in_folders(place)
        elif not place.exists():
            raise RegardError(f"{key} = {name!r}: no such folder or file")
        elif place.name.lower().removesuffix(".gz").endswith(TABLES):
            found = in_table(place, self.path, self.label)
        else:
            raise RegardError(f"{key} = {name!r}: neither a folder nor a table; tables end in {', '.join(TABLES)}")
        if not found:
            raise RegardError(f"{key} = {name!r}: contains no images; known types are {', '.join(sorted(SUFFIXES))}")
        return found


def _images(folder: Path) -> list[Path]:
    """All image files of a folder and its subfolders; hidden ones are ignored."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    return [path for path in paths if not _is_hidden(path.relative_to(folder))]


def in_folders(folder: Path) -> list[ImageExample]:
    """The images of each subfolder, whose name is their label; subfolders of these belong to them."""
    found = _images(folder)
    if alone := [path for path in found if path.parent == folder]:
        raise RegardError(
            f"{alone[0]}: an image outside of the folders of the classes; put each image into a folder named after its "
            f"class, or use a table of paths and labels"
        )
    classes = [path for path in sorted(folder.iterdir()) if path.is_dir() and not path.name.startswith(".")]
    if empty := [path for path in classes if not any(each.is_relative_to(path) for each in found)]:
        raise RegardError(f"{empty[0]}: a class without images; add some, or remove the folder")
    return [ImageExample(path, path.relative_to(folder).parts[0]) for path in found]


def in_table(table: Path, path: str, label: str) -> list[ImageExample]:
    """The images of a table."""
    rows = read_table(table, [path], label)
    found = [ImageExample(table.parent / row.text, str(row.label)) for row in rows]
    missing = [each.path for each in found if not each.path.is_file()]
    if missing:
        more = f", and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        raise RegardError(f"{table}: {missing[0]} does not exist{more}; paths are relative to the folder of the table")
    return found


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def split(examples: Sequence[ImageExample], max_count: int) -> tuple[list[ImageExample], list[ImageExample]]:
    """Holds out a tenth of the images for validation, at most `max_count`; every class keeps one for training."""
    # by a hash of the name, so that the choice does not depend on the place of the folder
    order = sorted(range(len(examples)), key=lambda i: _hash(examples[i]))
    left = Counter(example.label for example in examples)
    wanted, chosen = min(max_count, max(1, len(examples) // SHARE)), set[int]()
    for i in order:
        if len(chosen) < wanted and left[examples[i].label] > 1:
            left[examples[i].label] -= 1
            chosen.add(i)
    if not chosen:
        raise RegardError("no image can be held out for validation; give more images, or others with data.valid")
    train = [example for i, example in enumerate(examples) if i not in chosen]
    return train, [examples[i] for i in sorted(chosen)]


def _hash(example: ImageExample) -> str:
    return hashlib.sha256(f"{example.path.parent.name}/{example.path.name}".encode()).hexdigest()


@dataclass
class Images:
    """Decoded images, from the cache or from their files."""

    codec: Pixels
    paths: Sequence[Path]
    decoded: npt.NDArray[np.uint8] | None
    """All images, or None: they are decoded when they are needed."""

    def __len__(self) -> int:
        return len(self.paths)

    def fetch(self, indices: Sequence[int] | Indices) -> Tensor:
        """The pixels of the images with these indices, from 0 to 255."""
        if self.decoded is not None:
            return torch.from_numpy(self.decoded[np.asarray(indices)])
        with ThreadPoolExecutor(DECODERS) as pool:
            return torch.from_numpy(np.stack(list(pool.map(self.codec.pixels, (self.paths[i] for i in indices)))))


def hashes(examples: Sequence[ImageExample]) -> list[str]:
    """A hash of each image file."""
    with ThreadPoolExecutor(DECODERS) as pool:
        return list(pool.map(lambda example: file_hash(example.path), examples))


def decode(
    codec: Pixels, examples: Sequence[ImageExample], keys: Sequence[str], config: ImagesConfig
) -> tuple[Images, list[int], list[str]]:
    """The images, the indices of the examples that were kept, and why the others were left out.

    Args:
        keys: a hash of each file.
    """
    shape = (codec.channels, codec.height, codec.width)
    size = len(examples) * int(np.prod(shape))
    if size > config.cache_gigabytes * 1e9:
        return Images(codec, [each.path for each in examples], None), list(range(len(examples))), []
    geometry = [codec.height, codec.width, codec.channels, codec.fit, codec.resample]

    def fill(folder: Path) -> None:
        kept, skipped = [], []
        with (folder / "pixels.bin").open("wb") as file:
            for i, found in enumerate(_decoded(codec, examples, config.damaged)):
                if isinstance(found, str):
                    skipped.append(found)
                else:
                    kept.append(i)
                    file.write(found.tobytes())
        (folder / "about.json").write_text(json.dumps({"kept": kept, "skipped": skipped}), "utf-8")

    def opened(folder: Path) -> tuple[Images, list[int], list[str]]:
        about = json.loads((folder / "about.json").read_text("utf-8"))
        kept = about["kept"]
        if (folder / "pixels.bin").stat().st_size != len(kept) * int(np.prod(shape)):
            raise ValueError(f"{folder}: damaged")
        decoded = np.memmap(folder / "pixels.bin", np.uint8, "r", shape=(len(kept), *shape)) if kept else None
        return Images(codec, [examples[i].path for i in kept], decoded), kept, about["skipped"]

    recipe = ["images", 1, geometry, list(keys), config.damaged]  # 1: the version of the format
    return cached(folders.cache(), f"{len(examples):,} images", recipe, fill, opened)


def _decoded(codec: Pixels, examples: Sequence[ImageExample], damaged: str) -> Iterator[Pixel | str]:
    """The pixels of each image, or why it cannot be read."""

    def one(example: ImageExample) -> Pixel | str:
        try:
            return codec.pixels(example.path)
        except RegardError as error:
            if damaged == "error":
                raise RegardError(f"{error}; remove the file, or set data.damaged=skip") from None
            return str(error)

    with ThreadPoolExecutor(DECODERS) as pool:
        # in portions, because `map` would hold all results at once
        for start in range(0, len(examples), 256):
            yield from pool.map(one, examples[start : start + 256])


@dataclass(frozen=True)
class ImageBatch(Batch):
    """Images, each with the index of its label; a mixed image has two labels."""

    targets: ClassVar = {"label_B": IGNORED, "other_B": IGNORED}
    images_BCYX: Tensor
    label_B: Tensor
    other_B: Tensor | None = None
    """The label of the image that it is mixed with."""
    weight_B: Tensor | None = None
    """The weight of the first label."""

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The arguments of the model."""
        return (self.images_BCYX,)


class LabelledImages:
    """A dataset of images.

    Args:
        label_N: the index of the label of each image.
        patches: number of patches of an image, by which batches are measured.
        augment: data augmentation, seeded by `seed`, the epoch and the batch; None for validation.
    """

    def __init__(
        self,
        images: Images,
        label_N: npt.NDArray[np.int64],
        patches: int,
        augment: AugmentConfig | None = None,
        seed: int = 0,
    ) -> None:
        self.images, self.label_N, self.augment, self.seed = images, label_N, augment, seed
        self.lengths: Lengths = np.full((len(images), 1), patches, np.int32)

    @property
    def max_length(self) -> int:
        """The number of patches of an image."""
        return int(self.lengths.max(initial=0))

    def epoch(self, number: int) -> "ImageEpoch":
        """The images as an epoch sees them."""
        return ImageEpoch(self, number)


@dataclass(frozen=True)
class ImageEpoch:
    """An epoch of images, with its own random changes."""

    data: LabelledImages
    number: int

    @property
    def lengths(self) -> Lengths:
        """The number of patches of each image."""
        return self.data.lengths

    def fetch(self, indices: Indices) -> ImageBatch:
        """The images with these indices, augmented and normalised."""
        data, codec, config = self.data, self.data.images.codec, self.data.augment
        images_BCYX, label_B = data.images.fetch(indices), torch.from_numpy(data.label_N[indices])
        if config is None:
            return ImageBatch(codec.normalized(images_BCYX), label_B)
        # an image is in one batch of an epoch, so its index identifies the batch
        numbers = np.random.SeedSequence([data.seed, self.number, int(indices[0])]).generate_state(1, np.uint64)
        random = torch.Generator().manual_seed(int(numbers[0]) >> 1)
        changed = codec.normalized(augmented(images_BCYX.float(), config, random))
        if not config.mixes:
            return ImageBatch(changed, label_B)
        found = mixed(changed, config, random)
        return ImageBatch(found.images_BCYX, label_B, label_B[found.partner_B], found.weight_B)
