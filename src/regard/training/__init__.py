"""Training: a recipe in, a run's folder out, and after any interruption the same run goes on to the bit."""
