"""A count vectorizer whose vocabulary is private."""

from collections.abc import Iterable, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

from .._contributions import count_names
from .._messages import errors_without_data, warn
from .._persons import CountedRows, select_rows
from .._sklearn_compat import Interval, _fit_context
from ..base import Budget, CountingEstimator, ReleasePlan
from ..mechanisms.additive import SelectionMechanism
from ..mechanisms.splitting import calibrate_selection
from ..mechanisms.tables import ContributionBound, CountTable
from ..records import UNKNOWN, rebuild, type_and_value

# What the vocabulary holds where no word was found: no analyzer of scikit-learn gives it.
_NO_WORD = ""


class PrivateCountVectorizer(CountingEstimator, CountVectorizer):
    """A `CountVectorizer` whose vocabulary is learnt privately.

    Each record gives at most `max_words` of its words, the first ones. How many records give
    a word is counted, with noise; words whose noisy count is above a threshold, which follows
    from the budget, become the vocabulary. What `transform` gives is as exact as its input:
    only a private model may see it, as `DirichletNB` in the same pipeline.

    Parameters
    ----------
    input, encoding, decode_error, strip_accents, lowercase, preprocessor, tokenizer, \
stop_words, token_pattern, ngram_range, analyzer, vocabulary, binary, dtype
        As for `CountVectorizer`. With a `vocabulary` nothing is learnt or spent.
    max_words : int, default=20
        How many different words of a record are counted for the vocabulary. The noise grows
        with its square root: where texts are shorter, fewer are better.
    max_df, min_df : float in [0, 1] or int, default=1.0 and 1
        As for `CountVectorizer`, but compared with noisy counts of the words that records
        gave. `min_df` can raise the threshold and not lower it.
    max_features : int, default=10000
        The largest vocabulary; if more words are found, those of the largest noisy counts.
        It is also the public number of columns for the steps that follow in a
        `PrivatePipeline`.
    epsilon : float, default=1.0
        The budget of one `fit`. Infinite for no noise: then every word that some record
        gave is in the vocabulary.
    delta : float, default=1e-5
        The fit is (epsilon, delta)-differentially private.
    adjacency : {"replace", "add_remove"}, default="replace"
        Whether a neighbouring data set has one record replaced, or one more or fewer.
    n_samples : float, default=None
        A public number of records, for a `max_df` or `min_df` that is a part of them. None
        takes the actual one, which is public under replacement only.
    max_rows : int, default=1
        A public bound on the records of one person, who is then protected with all of them.
        Given `groups`, `fit` counts no more; otherwise it is a declaration.
    accountant : PrivacyAccountant, default=None
        Charged by every fit before any noise is drawn.
    label : str, default=None
        What the accountant's history calls the fit; by default, the name of the class.
    random_state : None, int, Generator or RandomState, default=None
        None draws cryptographically secure noise. Anything else is reproducible, and
        whoever knows it can remove the noise.

    Attributes
    ----------
    vocabulary_ : dict
        The column of each word, in the order of the alphabet. Released. Where no word was
        found it holds the empty one alone, whose column is empty too.
    document_count_ : ndarray of shape (n_words,)
        The noisy number of records that gave each word. Released.
    threshold_ : float
        The noisy count that a word needed. It follows from the budget.
    fixed_vocabulary_ : bool
        Whether the vocabulary was given.
    privacy_ : PrivacyReport
        What was guaranteed.

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
        "max_features": [Interval(Integral, 1, None, closed="left")],
    }

    _releases_columns = True

    # A threshold fails with some probability, which no Renyi divergence allows for.
    order: ClassVar[None] = None  # type: ignore[misc]
    calibration: ClassVar[str] = "exact"  # type: ignore[misc]
    _selects_names: ClassVar[bool] = True

    def __init__(
        self,
        *,
        input="content",
        encoding="utf-8",
        decode_error="strict",
        strip_accents=None,
        lowercase=True,
        preprocessor=None,
        tokenizer=None,
        stop_words=None,
        token_pattern=r"(?u)\b\w\w+\b",
        ngram_range=(1, 1),
        analyzer="word",
        max_words=20,
        max_df=1.0,
        min_df=1,
        max_features=10_000,
        vocabulary=None,
        binary=False,
        dtype=np.int64,
        epsilon=1.0,
        delta=1e-5,
        adjacency="replace",
        n_samples=None,
        max_rows=1,
        accountant=None,
        label=None,
        random_state=None,
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
    def fit(self, raw_documents, y=None, groups=None):
        """Learn the vocabulary, and release it.

        Parameters
        ----------
        raw_documents : iterable of str, bytes, file names or files
            As `input` says.
        y : Ignored
        groups : array-like of shape (n_samples,), default=None
            The person that each record is of, by whole numbers or strings. Only the first
            `max_rows` records of each are counted. None if no person has more.

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
            with errors_without_data(raw_documents=raw_documents):
                documents = list(raw_documents)
            counted = select_rows(groups, len(documents), self.max_rows)
            if self.fixed_vocabulary_:
                context.release(ReleasePlan(self, context, [], counted))
                return self
            if counted.rows is not None:
                documents = [documents[row] for row in counted.rows]
            analyze = self.build_analyzer()
            with errors_without_data(raw_documents=raw_documents):
                names: dict[tuple, Any] = {}
                keys_of = partial(_keys, names=names)
                found = count_names(map(keys_of, map(analyze, documents)), int(self.max_words))
                keys = sorted(found, key=lambda key: key if key in names else type_and_value(key))
                words = [names.get(key, key) for key in keys]
            lowest, highest, leaks = self._frequencies(counted, context.budget)
            # One count of a word that no record gave, so that there is a table in any case.
            counts = np.array([[0, *(found[key] for key in keys)]], dtype=float)
            size = int(self.max_features) + 1
            table = CountTable(float(self.n_samples or 1), size, 1, self._contribution)
            plan = ReleasePlan(self, context, [(table, counts)], counted, leaks)
            (release,) = context.release(plan)
            published = release.drawn[0, 1:]
            if not isinstance(release.mechanism, SelectionMechanism):
                # The rehearsal of a pipeline, of which nothing is kept, and nothing said.
                self._set_fitted_attributes(words, published, 0.0, np.inf)
                return self
            self.threshold_ = release.mechanism.threshold
            self._set_fitted_attributes(words, published, lowest, highest)
            if _NO_WORD in self.vocabulary_ and not self.document_count_.any():
                warn(
                    "no word was given by enough records to be published: the vocabulary is "
                    "empty, but for a column that stands for no word. More records, a larger "
                    "budget or a smaller max_words help; so does a public vocabulary, or hashing"
                )
        return self

    def fit_transform(self, raw_documents, y=None, groups=None):
        """Learn the vocabulary, release it, and count its words in each record.

        Parameters
        ----------
        raw_documents : iterable of str, bytes, file names or files
            As `input` says.
        y : Ignored
        groups : array-like of shape (n_samples,), default=None
            As for `fit`.

        Returns
        -------
        sparse matrix of shape (n_samples, n_words)
            Exact.
        """
        raw_documents = raw_documents if isinstance(raw_documents, str) else [*raw_documents]
        return self.fit(raw_documents, y, groups).transform(raw_documents)

    def decode(self, doc):
        """The text of a record; a file is left where it was, to be read again.

        Parameters
        ----------
        doc : str, bytes, file name or file
            As `input` says.

        Returns
        -------
        str
        """
        if self.input != "file":
            return super().decode(doc)
        start = doc.tell()
        try:
            return super().decode(doc)
        finally:
            doc.seek(start)

    @property
    def _contribution(self) -> ContributionBound:
        return ContributionBound(1.0, float(self.max_words))

    def _frequencies(self, counted: CountedRows, budget: Budget) -> tuple[float, float, list[str]]:
        """The least and the largest count of a word, and what finding them leaks."""
        leaks: list[str] = []
        lowest, highest = float(self.min_df), float(self.max_df)
        parts = [not isinstance(value, Integral) for value in (self.min_df, self.max_df)]
        if parts[1] and highest == 1:  # the default: no limit, and no need to know of how many
            parts[1], highest = False, np.inf
        if any(parts):
            n_samples, leaks = self._public_n_samples(counted, budget)
            lowest *= n_samples if parts[0] else 1
            highest *= n_samples if parts[1] else 1
        return lowest, highest, leaks

    def _calibrate(self, tables: Sequence[CountTable], budget: Budget) -> list[Any]:
        if budget.order is not None and np.isfinite(budget.epsilon):
            raise ValueError(
                "order must be None for a PrivateCountVectorizer: a word of one record is "
                "published with a small probability, which no Renyi divergence allows for. State "
                "the budget with delta"
            )
        return [
            calibrate_selection(
                budget.epsilon, budget.delta, table.relation(budget.adjacency), table.contribution
            )
            for table in tables
        ]

    def _public_output(self) -> dict[str, Any]:
        # A vocabulary that is given is as large as it is.
        size = len(self.vocabulary_) if self.fixed_vocabulary_ else int(self.max_features)
        return {"n_columns": size}

    def _set_fitted_attributes(
        self, words: Sequence[Any], counts: np.ndarray, lowest: float, highest: float
    ) -> None:
        """Set the vocabulary from what was published; from here on nothing else is known."""
        within = np.flatnonzero((counts > 0) & (counts >= lowest) & (counts <= highest))
        largest = within[np.argsort(-counts[within], kind="stable")[: int(self.max_features)]]
        # Of equal words of several types, as 1 and True, the first is the name of all.
        first: dict[Any, int] = {}
        for i in np.sort(largest).tolist():
            first.setdefault(words[i], i)
        self.vocabulary_ = {word: column for column, word in enumerate(first)}
        self.document_count_ = counts[list(first.values())]
        if not self.vocabulary_:
            # A column, so that a next step which was paid for can be fitted.
            self.vocabulary_, self.document_count_ = {_NO_WORD: 0}, np.zeros(1)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags


def _keys(words: Iterable[Any], names: dict[tuple, Any]) -> list[Any]:
    """The words of a record to count by: texts, and type and value of other words.

    Other words are rebuilt, and kept in `names`. A word that cannot be rebuilt is not counted.
    """
    words = list(words)
    if {str}.issuperset(map(type, words)):
        return words
    keys: list[Any] = []
    for word in map(rebuild, words):
        if word is not np.nan and word is not UNKNOWN:
            keys.append(word if type(word) is str else type_and_value(word))
            if type(word) is not str:
                names[keys[-1]] = word
    return keys
