"""Tasks: the training loss and metrics of each task, and the pipelines that apply a trained model."""
