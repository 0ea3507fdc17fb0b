"""Numerical functions that are independent of privacy."""
