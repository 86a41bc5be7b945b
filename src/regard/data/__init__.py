"""Text in, batches out: readers, tokenizers, the encoded corpus, and batches whose position can be saved."""
