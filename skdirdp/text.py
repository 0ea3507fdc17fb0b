"""Count vectorizer with a private vocabulary."""

from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.utils.validation import check_is_fitted

from ._contributions import count_names
from ._docs import shared_docs
from ._messages import errors_without_data, warn
from ._persons import CountedRows, select_rows
from ._sklearn_compat import Interval, _fit_context
from .base import Budget, CountingEstimator, ReleasePlan
from .mechanisms.additive import SelectionMechanism
from .mechanisms.splitting import calibrate_selection
from .mechanisms.tables import ContributionBound, CountTable
from .schema import UNKNOWN, rebuild, type_and_value

# Entry of a vocabulary without words: no analyzer of scikit-learn returns it.
_NO_WORD = ""


@shared_docs
class PrivateCountVectorizer(CountingEstimator, CountVectorizer):
    """Count vectorizer that learns its vocabulary privately.

    The vocabulary has the words whose noisy number of records exceeds a threshold, which depends
    on the budget. Each record contributes at most its first `max_words` different words. The
    output of `transform` is exact: fit only private models on it, such as `DirichletNB`.

    Parameters
    ----------
    input, encoding, decode_error, strip_accents, lowercase, preprocessor, tokenizer, \
stop_words, token_pattern, ngram_range, analyzer, vocabulary, binary, dtype
        As for `CountVectorizer`. With a `vocabulary` nothing is learnt or charged.
    max_words : int, default=20
        Number of different words of a record that are counted. The noise grows with its
        square root.
    max_df, min_df : float in [0, 1] or int, default=1.0 and 1
        As for `CountVectorizer`, but compared with noisy counts. `min_df` can raise the
        threshold but not lower it.
    max_features : int or None, default=10000
        Largest vocabulary; the words with the largest noisy counts are kept. In a
        `PrivatePipeline` it is the public number of columns of the next step, and must be given.
        None means no limit.
    {epsilon, delta, adjacency}
    n_samples : float, default=None
        Public number of records, used if `max_df` or `min_df` is a fraction. If None, the
        actual number is used, which is public only under replacement.
    {max_rows, accountant, label, random_state}

    Attributes
    ----------
    vocabulary_ : dict
        Released column of each word, in alphabetical order; only the empty word if none
        was found.
    document_count_ : ndarray of shape (n_words,)
        Released noisy number of records with each word.
    threshold_ : float
        Noisy count that a word needs. It depends on the budget alone.
    fixed_vocabulary_ : bool
        Whether the vocabulary was given.
    {privacy_}

    Examples
    --------
    >>> from skdirdp import PrivateCountVectorizer
    >>> texts = ["a good film", "a very good film", "a bad film"] * 500 + ["jane doe saw it"]
    >>> words = PrivateCountVectorizer(epsilon=1.0, max_words=5).fit(texts)
    >>> sorted(words.vocabulary_)
    ['bad', 'film', 'good', 'very']
    >>> words.privacy_.epsilon, words.privacy_.delta
    (1.0, 1e-05)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CountVectorizer._parameter_constraints,
        **{
            name: constraint
            for name, constraint in CountingEstimator._parameter_constraints.items()
            if name not in ("order", "mechanism", "calibration")
        },
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "max_words": [Interval(Integral, 1, None, closed="left")],
        "max_features": [Interval(Integral, 1, None, closed="left"), None],
    }

    # A threshold fails with a small probability, which no Renyi divergence allows.
    order: ClassVar[None] = None  # type: ignore[misc]
    calibration: ClassVar[str] = "exact"  # type: ignore[misc]
    _selects_names: ClassVar[bool] = True

    def __init__(
        self,
        *,
        input: str = "content",
        encoding: str = "utf-8",
        decode_error: str = "strict",
        strip_accents: Any = None,
        lowercase: bool = True,
        preprocessor: Any = None,
        tokenizer: Any = None,
        stop_words: Any = None,
        token_pattern: str | None = r"(?u)\b\w\w+\b",
        ngram_range: tuple[int, int] = (1, 1),
        analyzer: Any = "word",
        max_words: int = 20,
        max_df: float = 1.0,
        min_df: float = 1,
        max_features: int | None = 10_000,
        vocabulary: Any = None,
        binary: bool = False,
        dtype: Any = np.int64,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        adjacency: str = "replace",
        n_samples: float | None = None,
        max_rows: int = 1,
        accountant: Any = None,
        label: str | None = None,
        random_state: Any = None,
    ):
        CountVectorizer.__init__(
            self,
            input=input,
            encoding=encoding,
            decode_error=decode_error,
            strip_accents=strip_accents,
            lowercase=lowercase,
            preprocessor=preprocessor,
            tokenizer=tokenizer,
            stop_words=stop_words,
            token_pattern=token_pattern,
            ngram_range=ngram_range,
            analyzer=analyzer,
            max_df=max_df,
            min_df=min_df,
            max_features=max_features,
            vocabulary=vocabulary,
            binary=binary,
            dtype=dtype,
        )
        self.max_words = max_words
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.n_samples = n_samples
        self.max_rows = max_rows
        self.accountant = accountant
        self.label = label
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, raw_documents: Iterable[Any], y: Any = None, groups: Any = None
    ) -> "PrivateCountVectorizer":
        """Learn and release the vocabulary.

        Parameters
        ----------
        raw_documents : iterable of str, bytes, file names or files
            Depends on `input`.
        y : Ignored
        groups : array-like of shape (n_samples,), default=None
            Person of each record, as whole numbers or strings. Only the first `max_rows` records of
            each person are counted. If None, each person is assumed to have at most `max_rows`
            records.

        Returns
        -------
        self
        """
        if isinstance(raw_documents, str):
            raise ValueError("Iterable over raw text documents expected, string object received.")
        self._validate_ngram_range()
        self._warn_for_unused_params()
        with self._fitting() as context:
            self._validate_vocabulary()
            analyze = self.build_analyzer()  # errors of parameters are shown
            with errors_without_data(raw_documents=raw_documents):
                documents = list(raw_documents)
            counted = select_rows(groups, len(documents), self.max_rows)
            if self.fixed_vocabulary_:
                self._warn_of_upper_case()
                context.release(ReleasePlan(self, context, [], counted))
                return self
            if counted.rows is not None:
                documents = [documents[row] for row in counted.rows]
            with errors_without_data(raw_documents=raw_documents):
                words, counts = self._count(map(analyze, documents))
            lowest, highest, leaks = self._frequencies(counted, context.budget)
            # The noise depends only on the bound. The number of words of the data is not public.
            size = 2 if self.max_features is None else int(self.max_features) + 1
            bound = ContributionBound(1.0, float(self.max_words))
            table = CountTable(float(self.n_samples or 1), size, 1, bound)
            plan = ReleasePlan(self, context, [(table, counts)], counted, leaks)
            (release,) = context.release(plan)
            published = release.drawn[0, 1:]
            if not isinstance(release.mechanism, SelectionMechanism):
                # The first pass of a pipeline, whose result is discarded without a warning.
                self._set_fitted_attributes(words, published, 0.0, np.inf)
                return self
            self.threshold_ = release.mechanism.threshold
            self._set_fitted_attributes(words, published, lowest, highest)
            if _NO_WORD in self.vocabulary_ and not self.document_count_.any():
                warn(
                    "no word is in enough records to be published: the vocabulary is empty. Use "
                    "more records, a larger budget, a smaller max_words or a public vocabulary"
                )
        return self

    def _warn_of_upper_case(self) -> None:
        """Warn about vocabulary words that are never found, as `CountVectorizer` does."""
        words = self.vocabulary_ if self.lowercase else ()
        if any(character.isupper() for word in words for character in str(word)):
            warn(
                "Upper case characters found in vocabulary while 'lowercase' is True. These "
                "entries will not be matched with any documents"
            )

    def _count(self, documents: Iterable[Iterable[Any]]) -> tuple[list[Any], np.ndarray]:
        """Return the sorted words, and the exact number of records with each."""
        other_words: dict[tuple, Any] = {}
        keys = (_word_keys(words, other_words) for words in documents)
        counter = count_names(keys, int(self.max_words))
        order = sorted(counter, key=lambda key: key if key in other_words else type_and_value(key))
        # An additional count without a word, so that the table is never empty.
        counts = np.array([[0, *(counter[key] for key in order)]], dtype=float)
        return [other_words.get(key, key) for key in order], counts

    def fit_transform(self, raw_documents: Iterable[Any], y: Any = None, groups: Any = None) -> Any:
        """Learn and release the vocabulary, and count its words in each record.

        Parameters
        ----------
        raw_documents : iterable of str, bytes, file names or files
        y : Ignored
        groups : array-like of shape (n_samples,), default=None
            As for `fit`.

        Returns
        -------
        sparse matrix of shape (n_samples, n_words)
            Exact counts.
        """
        raw_documents = raw_documents if isinstance(raw_documents, str) else [*raw_documents]
        return self.fit(raw_documents, y, groups).transform(raw_documents)

    def to_sklearn(self) -> CountVectorizer:
        """Return the released vocabulary as a `CountVectorizer`.

        Returns
        -------
        CountVectorizer
            Fitted.
        """
        check_is_fitted(self, "vocabulary_")
        parameters = self.get_params(deep=False)
        names = CountVectorizer().get_params()
        words = CountVectorizer(**{name: parameters[name] for name in names})
        words.vocabulary_, words.fixed_vocabulary_ = dict(self.vocabulary_), self.fixed_vocabulary_
        return words

    def decode(self, doc: Any) -> str:
        """Return the text of a record; the position in a file is restored.

        Parameters
        ----------
        doc : str, bytes, file name or file
        """
        if self.input != "file":
            return super().decode(doc)
        start = doc.tell()
        try:
            return super().decode(doc)
        finally:
            doc.seek(start)

    def _frequencies(self, counted: CountedRows, budget: Budget) -> tuple[float, float, list[str]]:
        """Return the smallest and largest count of a word, and the parameters that they leak."""
        leaks: list[str] = []
        lowest, highest = float(self.min_df), float(self.max_df)
        parts = [not isinstance(value, Integral) for value in (self.min_df, self.max_df)]
        if parts[1] and highest == 1:  # the default means no limit
            parts[1], highest = False, np.inf
        if any(parts):
            n_samples, leaks = self._public_n_samples(counted, budget)
            lowest *= n_samples if parts[0] else 1
            highest *= n_samples if parts[1] else 1
        return lowest, highest, leaks

    def _calibrate(self, tables: Sequence[CountTable], budget: Budget) -> list[Any]:
        if budget.order is not None and np.isfinite(budget.epsilon):
            raise ValueError(
                "order must be None for a PrivateCountVectorizer: the threshold fails with a small "
                "probability, which no Renyi divergence allows. State the budget with delta"
            )
        (table,) = tables
        relation = table.relation(budget.adjacency)
        return [calibrate_selection(budget.epsilon, budget.delta, relation, table.contribution)]

    def _public_output(self) -> dict[str, Any]:
        if self.fixed_vocabulary_:
            return {"n_columns": len(self.vocabulary_)}
        return {} if self.max_features is None else {"n_columns": int(self.max_features)}

    def _set_fitted_attributes(
        self, words: Sequence[Any], counts: np.ndarray, lowest: float, highest: float
    ) -> None:
        within = np.flatnonzero((counts > 0) & (counts >= lowest) & (counts <= highest))
        largest = within[np.argsort(-counts[within], kind="stable")[: self.max_features]]
        # Equal words of different types, such as 1 and True, share a column, named by the first.
        first: dict[Any, int] = {}
        for i in np.sort(largest).tolist():
            first.setdefault(words[i], i)
        self.vocabulary_ = {word: column for column, word in enumerate(first)}
        self.document_count_ = counts[list(first.values())]
        if not self.vocabulary_:
            # One column, so that a next step that was charged can be fitted.
            self.vocabulary_, self.document_count_ = {_NO_WORD: 0}, np.zeros(1)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags


def _word_keys(words: Iterable[Any], other_words: dict[tuple, Any]) -> list[Any]:
    """Return the keys by which the words of a record are counted."""
    # The key of a word that is not a string is its type and value, and the rebuilt word is stored
    # in `other_words`. A word that cannot be rebuilt is not counted.
    words = list(words)
    if {str}.issuperset(map(type, words)):
        return words
    keys: list[Any] = []
    for word in map(rebuild, words):
        if type(word) is str:
            keys.append(word)
        elif word is not np.nan and word is not UNKNOWN:
            keys.append(type_and_value(word))
            other_words[keys[-1]] = word
    return keys
