"""Text from raw words, with a vocabulary that is learnt privately."""

from .vectorizer import PrivateCountVectorizer

__all__ = ["PrivateCountVectorizer"]
