"""One file per paper. A model composes blocks; it does not depend on losses, devices, files or other models."""
