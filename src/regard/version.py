"""The version of Regard, as in model folders and `regard --version`."""

__version__ = "0.1.0"
