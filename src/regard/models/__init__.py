"""One file for each paper. A model composes blocks; it knows nothing of losses, devices, files or other models."""
