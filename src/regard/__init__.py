"""Regard: train a Transformer, trust it, look inside it."""

__version__ = "0.1.0"
