"""How good is it? Scores with their signatures, and which of two systems is better."""
