"""Between the world and tensors: tokenizers today, pixels and sound later. Codecs are saved inside model folders."""
