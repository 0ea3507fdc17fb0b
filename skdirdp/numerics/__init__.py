"""Numerical work that knows nothing of privacy."""
