"""The explorer: a model opened up in a browser."""
