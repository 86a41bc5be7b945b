"""Image classification: a label and its probability for each image."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, overload

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.codecs.interface import CodecExamples
from regard.codecs.pixels import Pixels
from regard.config import Config
from regard.data.batches import IGNORED
from regard.data.images import ImageBatch, Images, ImagesConfig, LabelledImages, decode, hashes
from regard.errors import RegardError
from regard.evaluation.comparison import Examples, percent, rows
from regard.evaluation.confusion import confusion
from regard.explain.media import image as medium
from regard.explain.media.text import TextLayout, text_stream
from regard.explain.trace import Alternative, Inputs, PartialOutput, Trace, by_role
from regard.explain.view import Viewable
from regard.models.vit import ImageClassificationHead
from regard.tasks.evaluation import EvaluatedWith, Evaluation
from regard.tasks.pipeline import Pipeline
from regard.training.setup import Setup
from regard.training.task import Curve, SummedLoss, Task, listed, means

AT_ONCE = 64  # images in a forward pass
ImageFile = str | Path | bytes
"""A path, a data URL, or the bytes of a file."""


@dataclass(frozen=True)
class ImagePrediction:
    """The prediction for an image."""

    label: str
    value: float
    """The probability of the label."""
    probabilities: dict[str, float]
    """The probability of each label, most probable first."""


@dataclass(frozen=True, kw_only=True)
class ImageSettings(Config):
    """The columns of a table, and what happens to damaged images."""

    path: str = "path"
    """The path column of a table."""
    label: str = "label"
    """The label column of a table."""
    damaged: Literal["error", "skip"] = "error"
    """What happens to an image that cannot be read: an error, or it is left out and reported."""


class ImageClassifier(Viewable, Pipeline):
    """A ViT that classifies images."""

    evaluated_with: ClassVar = EvaluatedWith("an image classifier", ("data",), ImageSettings)
    accepts: ClassVar[Mapping[str, str]] = {"image": "image"}

    def __init__(self, model: nn.Module, codec: Pixels) -> None:
        self.model: Any = model.eval()
        self.codec = codec
        self.device = next(model.parameters()).device

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels."""
        return tuple(self.model.config.labels)

    @overload
    def classify(self, images: ImageFile) -> ImagePrediction: ...  # type: ignore[overload-overlap]
    @overload
    def classify(self, images: Sequence[ImageFile]) -> list[ImagePrediction]: ...

    def classify(self, images: ImageFile | Sequence[ImageFile]) -> Any:
        """The prediction for an image file; for a list, one for each."""
        if isinstance(images, ImageFile):
            return self.classify([images])[0]
        return list(self._predictions(self.codec.pixels(medium.source(image)) for image in images))

    @torch.no_grad()
    def _predictions(self, images: Any) -> Iterator[ImagePrediction]:
        pending: list[Any] = []
        for pixels in images:
            pending.append(pixels)
            if len(pending) == AT_ONCE:
                yield from self._batch(pending)
                pending = []
        if pending:
            yield from self._batch(pending)

    def _batch(self, pixels: Sequence[Any]) -> Iterator[ImagePrediction]:
        logits_BV = self.model(self._input(np.stack(pixels)))[:, 0].cpu()
        return (self.prediction(logits_V) for logits_V in logits_BV)

    def _input(self, pixels: Any) -> Tensor:
        images_BCYX = self.codec.normalized(torch.from_numpy(pixels).to(self.device))
        return images_BCYX.to(next(self.model.parameters()).dtype)

    def prediction(self, logits_V: Tensor) -> ImagePrediction:
        """The prediction for an image, given its logits."""
        pairs = zip(self.labels, logits_V.softmax(0).tolist(), strict=True)
        probabilities = dict(sorted(pairs, key=lambda pair: -pair[1]))
        best = next(iter(probabilities))
        return ImagePrediction(best, probabilities[best], probabilities)

    def evaluate(self, files: Mapping[str, Path], settings: ImageSettings) -> Evaluation:
        """Accuracy, and precision, recall and F1 of each class."""
        (path,) = self.evaluated_with.paths(files)
        config = ImagesConfig(train=str(path), path=settings.path, label=settings.label, damaged=settings.damaged)
        examples = config.read(str(path), "--data")
        if unknown := sorted({example.label for example in examples} - set(self.labels)):
            known = ", ".join(self.labels[:20])
            raise RegardError(f"{path}: the model does not know the class {unknown[0]!r}; it knows {known}")
        images, kept, skipped = decode(self.codec, examples, hashes(examples), config)
        gold = [examples[i].label for i in kept]
        predicted = [each.label for each in self._predictions(images.fetch([i])[0].numpy() for i in range(len(kept)))]
        found = confusion(gold, predicted, self.labels)
        return Evaluation(
            found.scores(),
            found.lines(),
            predicted,
            [f"skipped: {reason}" for reason in skipped],
            Examples(rows(predicted), lambda predicted: percent({"accuracy": float(np.mean(predicted == rows(gold)))})),
        )

    # the interface for traces

    def count(self, inputs: Inputs) -> int:
        """The number of tokens of an image."""
        by_role(self.accepts, inputs)
        tokens: int = self.model.config.tokens
        return tokens

    @torch.no_grad()
    def trace(self, inputs: Inputs, target: str | Sequence[int] | None = None) -> Trace:
        """The model applied to an image, with the predicted label or a given one as output."""
        pixels = self.codec.pixels(medium.source(by_role(self.accepts, inputs)["image"]))
        images_BCYX = self._input(pixels[None])
        logits_V = self.model(images_BCYX)[0, 0]
        if isinstance(target, str):
            if target not in self.labels:
                raise RegardError(f"{target!r} is not a label of this model; it has {', '.join(self.labels)}")
            label = self.labels.index(target)
        else:
            label = target[0] if target else int(logits_V.argmax())

        def pieces(tokens: Sequence[int]) -> list[str]:
            return [self.labels[token] for token in tokens]

        name = self.labels[label]
        prediction = text_stream((label,), (name,), TextLayout((0,), (name,)))
        patches = medium.image_stream(pixels, self.model.grid, self.model.config.extra)
        streams = {"image": patches, "prediction": prediction}
        return Trace(self.model, (images_BCYX,), streams, "prediction", prediction, (label,), pieces)

    def alternatives(self, _inputs: Inputs, _count: int) -> Sequence[Alternative]:
        """None: a classifier generates no text."""
        return ()

    def generate(self, _inputs: Inputs) -> Iterator[PartialOutput]:
        """Nothing: a classifier generates no text."""
        return iter(())


@dataclass(frozen=True)
class LoadedImages:
    """The data of a run: images for training and validation."""

    codec: Pixels
    train: Images
    valid: Images
    train_labels: list[str]
    valid_labels: list[str]


def load_images(setup: Setup) -> LoadedImages:
    """Reads, hashes and decodes the images of a run; trains the codec if it is new."""
    data: ImagesConfig = setup.data
    parts = data.parts(setup.say)
    keys = [hashes(part) for part in parts]
    names = [
        [f"{key} {example.label}" for key, example in zip(*both, strict=True)] for both in zip(keys, parts, strict=True)
    ]
    setup.claim(*(digest(part) for part in names))
    codec: Pixels = setup.codecs(image=CodecExamples(lambda: (example.path for example in parts[0])))["image"]
    images: list[Images] = []
    labels: list[list[str]] = []
    for what, part, key in zip(("training", "validation"), parts, keys, strict=True):
        found, kept, skipped = decode(codec, part, key, data)
        for reason in skipped:
            setup.say(f"skipped: {reason}")
        images.append(found)
        labels.append([part[i].label for i in kept])
        counts = {"kept": len(kept), "skipped": len(skipped)}
        setup.count(what, f"{len(kept):,} images, {len(skipped):,} skipped", images=what, **counts)
        if not kept:
            raise RegardError(f"none of the {what} images can be read")
    return LoadedImages(codec, images[0], images[1], labels[0], labels[1])


class ImageClassificationTask(Task):
    """Images with labels; cross-entropy; accuracy."""

    name = "image_classification"
    verbs = ("classify", "evaluate", "look")
    data = (ImagesConfig,)
    unknown: ClassVar = {"head": {"kind": "classification", "labels": ["0", "1"]}}

    def __init__(self, setup: Setup) -> None:
        data: ImagesConfig = setup.data
        found = load_images(setup)
        self.codecs = {"image": found.codec}
        self.label_smoothing = setup.train.label_smoothing
        labels = tuple(sorted(set(found.train_labels)))
        if len(labels) < 2:
            raise RegardError(
                f"data.train = {data.train!r}: all images are of the class {labels[0]!r}; add another class"
            )
        if unknown := sorted(set(found.valid_labels) - set(labels)):
            raise RegardError(f"validation images are of the class {unknown[0]!r}, which has no training images")
        few = [label for label, count in Counter(found.train_labels).items() if count == 1]
        if few:
            setup.say(f"classes with a single training image: {', '.join(few[:10])}")
        config = replace(setup.fitted(**found.codec.sizes()), head=ImageClassificationHead(labels=labels))
        self.config = config
        index = {label: i for i, label in enumerate(labels)}
        train, self.valid_images = (
            LabelledImages(images, np.array([index[label] for label in names]), config.tokens, augment, setup.seed)
            for images, names, augment in (
                (found.train, found.train_labels, data.augment),
                (found.valid, found.valid_labels, None),
            )
        )
        self.batches, self.valid = setup.batches(train, self.valid_images)
        self.curves = (Curve(score="valid_accuracy", label="accuracy"),)

    @classmethod
    def open(cls, model: nn.Module, codecs: Mapping[str, Any]) -> ImageClassifier:
        """A classifier of images."""
        return ImageClassifier(model, codecs["image"])

    def units(self, batch: ImageBatch) -> dict[str, int]:
        """Tokens, and labelled images."""
        images = int((batch.label_B != IGNORED).sum())
        return {"tokens": images * self.config.tokens, "images": images}

    def loss(self, model: Any, batch: ImageBatch) -> dict[str, SummedLoss]:
        """The loss of each image; a mixed image has that of both labels, by their weights."""
        logits_BV = model(*batch.inputs)[:, 0]
        smoothing = self.label_smoothing
        if batch.other_B is None or batch.weight_B is None:
            losses_B = cross_entropy(logits_BV, batch.label_B, smoothing)
        else:
            one_B, other_B = (
                cross_entropy(logits_BV, label_B, smoothing) for label_B in (batch.label_B, batch.other_B)
            )
            losses_B = batch.weight_B * one_B + (1 - batch.weight_B) * other_B
        with torch.no_grad():
            plain = cross_entropy(logits_BV, batch.label_B, 0.0).sum()
            hits = (logits_BV.argmax(1) == batch.label_B).sum()
        return {"images": SummedLoss(losses_B.sum(), {"loss": plain, "accuracy": hits})}

    def validate(self, model: Any) -> dict[str, float]:
        """The loss and the accuracy."""
        found = means(self, model, self.valid.epoch(0))
        return {"valid_loss": found["loss"], "valid_accuracy": found["accuracy"]}

    def selection_loss(self, values: Mapping[str, float]) -> float:
        """The accuracy, negated."""
        return -values["valid_accuracy"]

    def describe(self, values: Mapping[str, float]) -> str:
        """Loss and accuracy."""
        return f"valid loss {values['valid_loss']:.3f}  accuracy {values['valid_accuracy']:.2%}"

    def card(self, values: Mapping[str, float]) -> list[str]:
        """Loss and accuracy on the validation images."""
        return listed(f"On {len(self.valid_images.images):,} validation images:", values)


def cross_entropy(logits_BV: Tensor, label_B: Tensor, label_smoothing: float) -> Tensor:
    """The loss of each image."""
    return F.cross_entropy(logits_BV, label_B, reduction="none", label_smoothing=label_smoothing)


def digest(names: Sequence[str]) -> str:
    """One hash of many."""
    return hashlib.sha256("\n".join(names).encode()).hexdigest()
