"""Statements and HTML pages about privacy guarantees.

Functions take numbers and names only, never a model or an accountant.
"""
