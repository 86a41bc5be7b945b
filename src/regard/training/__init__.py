"""Training: turns a recipe into a run folder; an interrupted run resumes with bit-identical results."""
