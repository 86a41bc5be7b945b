"""The explorer: look inside a model in the browser."""
