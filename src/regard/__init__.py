"""Regard: train a Transformer, trust it, look inside it."""

from typing import TYPE_CHECKING, Any

from regard.version import __version__

if TYPE_CHECKING:
    from regard.library import load

__all__ = ["__version__", "load"]


def __getattr__(name: str) -> Any:
    # torch is imported when a model is asked for, not before
    if name == "load":
        from regard.library import load

        return load
    raise AttributeError(f"module 'regard' has no attribute {name!r}")
