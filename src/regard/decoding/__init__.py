"""Writing with a model: beam search (greedy is a beam of one) and sampling, for every model that can start and step."""
