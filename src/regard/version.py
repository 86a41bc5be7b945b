"""The version of Regard, as model folders and `regard --version` have it."""

__version__ = "0.1.0"
