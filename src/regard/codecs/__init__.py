"""Codecs convert between text and tensors: tokenizers today, images and audio later. Model folders contain them."""
