"""Statements and HTML pages about guarantees, from numbers and names, never from a model."""
