"""What a model is trained for and used for: a batch becomes a loss, a text becomes an answer."""
