"""Explains a model's predictions: attention, traces, importance of heads, step-by-step walks."""
