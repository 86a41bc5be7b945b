"""Model folders, run folders and checkpoints: written atomically, verified when read, for any kind of model."""
