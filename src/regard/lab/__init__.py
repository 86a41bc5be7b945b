"""The lectures' claims as experiments."""
