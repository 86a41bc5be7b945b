"""Evaluation: metrics with their signatures, and significance tests between two systems."""
