"""Regard: train a Transformer, trust it, look inside it.

    model = regard.load("en-es")                       # a bundled model, a run folder, a model folder, or hf:PATH
    model.translate("We are eating bread.")[0].text
    regard.train("translate/dates", run="runs/dates", train={"steps": 500})

The names listed here are the public API; everything else may change until version 1.0.
"""

from typing import TYPE_CHECKING

from regard.errors import RegardError
from regard.version import __version__

if TYPE_CHECKING:
    from regard.library import load
    from regard.recipe import train
    from regard.tasks.classification import Classifier
    from regard.tasks.completion import Completer
    from regard.tasks.embedding import Embedder
    from regard.tasks.image_classification import ImageClassifier
    from regard.tasks.pipeline import Pipeline
    from regard.tasks.pretraining import MaskFiller
    from regard.tasks.tagging import Tagger
    from regard.tasks.translation import Translator

__all__ = [
    "Classifier",
    "Completer",
    "Embedder",
    "ImageClassifier",
    "MaskFiller",
    "Pipeline",
    "RegardError",
    "Tagger",
    "Translator",
    "__version__",
    "load",
    "train",
]
_MODULES = {
    "Classifier": "regard.tasks.classification",
    "Completer": "regard.tasks.completion",
    "Embedder": "regard.tasks.embedding",
    "ImageClassifier": "regard.tasks.image_classification",
    "MaskFiller": "regard.tasks.pretraining",
    "Pipeline": "regard.tasks.pipeline",
    "Tagger": "regard.tasks.tagging",
    "Translator": "regard.tasks.translation",
    "load": "regard.library",
    "train": "regard.recipe",
}


def __getattr__(name: str) -> object:
    # lazy: torch is imported only when one of these names is used
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
