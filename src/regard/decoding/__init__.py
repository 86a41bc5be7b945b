"""Decoding: beam search (greedy search is a beam of one) and sampling, for every model with `start` and `step`."""
