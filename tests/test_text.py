"""PrivateCountVectorizer: vocabularies that do not depend on a single record."""

import io
import itertools
import math
import pickle
import warnings
from collections import Counter

import numpy as np
import pytest
from scipy import sparse
from scipy.special import ndtr
from scipy.stats import norm
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import Binarizer, FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from skdirdp import (
    BudgetExceededError,
    DirichletBernoulliNB,
    DirichletComplementNB,
    DirichletNB,
    PrivacyAccountant,
    PrivacyLeakWarning,
    PrivateCountVectorizer,
    PrivatePipeline,
    check_pipeline,
    make_private_pipeline,
)
from skdirdp._contributions import count_names
from skdirdp.accountant.codec import decode, encode
from skdirdp.accounting import Composition
from skdirdp.mechanisms.additive import SelectionMechanism
from skdirdp.mechanisms.splitting import calibrate_selection
from skdirdp.mechanisms.tables import ContributionBound
from tests.probes import Recorder

INF = float("inf")
ADJACENCIES = ("replace", "add_remove")


def corpus(n=900, seed=0):
    rng = np.random.default_rng(seed)
    words = np.array([f"word{i:03d}" for i in range(300)])
    shares = [rng.dirichlet(np.full(300, 0.1)) for _ in range(3)]
    y = np.arange(n) % 3
    return [" ".join(rng.choice(words, 20, p=shares[label])) for label in y], y


# --- The mechanism --------------------------------------------------------------


def publishing(counts, mechanism):
    """The probability of every set of published names, from the noise as it is defined."""
    threshold = mechanism.threshold
    tail = {name: ndtr((count - threshold) / mechanism.sigma) for name, count in counts.items()}
    sets = {}
    for chosen in itertools.product([False, True], repeat=len(counts)):
        names = frozenset(name for name, is_in in zip(counts, chosen, strict=True) if is_in)
        sets[names] = math.prod(
            tail[name] if is_in else 1 - tail[name]
            for name, is_in in zip(counts, chosen, strict=True)
        )
    return sets


def hockey_stick(first, second, epsilon):
    return sum(max(p - math.exp(epsilon) * second.get(names, 0.0), 0) for names, p in first.items())


#: Records, each of two names at most, that are in both data sets, or in one of them.
SHARED = [(), ("a",), ("a", "b"), ("b", "c")]


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_sets_of_published_names_of_neighbours_are_as_close_as_claimed(adjacency, epsilon):
    """Over all small corpora; the claim is nearly reached where a record's names are its own."""
    mechanism = calibrate_selection(epsilon, 0.05, adjacency, ContributionBound(1.0, 2.0))
    claims = {level: mechanism.delta(level) for level in (0.0, 0.1, epsilon, 2 * epsilon)}
    records = [("a", "b"), ("c", "d"), ("d",), ()]
    largest = 0.0
    for size in range(3):
        for others in itertools.combinations_with_replacement(SHARED, size):
            for first, second in itertools.permutations(records, 2):
                if adjacency == "add_remove" and () not in (first, second):
                    continue
                tables = [
                    publishing(count_names([*others, record], 2), mechanism)
                    for record in (first, second)
                ]
                for level, claim in claims.items():
                    found = hockey_stick(*tables, level)
                    assert found <= claim + 1e-12
                    largest = max(largest, found / claim)
    assert largest > 0.5  # a claim half as large would have been caught


def test_a_name_of_one_record_is_published_as_rarely_as_is_claimed():
    for sigma, failure, names in [(1.0, 0.3, 1), (5.0, 1e-3, 7), (40.0, 1e-9, 500)]:
        mechanism = SelectionMechanism(sigma, failure=failure, max_total=names)
        alone = norm.sf((mechanism.threshold - 1) / sigma)
        published = -math.expm1(names * math.log1p(-alone))
        assert 0.8 * failure < published <= failure


def test_the_noise_of_a_small_corpus_agrees_with_enumeration():
    mechanism = SelectionMechanism(2.0, failure=0.2, max_total=2.0)
    counts = {"a": 3.0, "b": 1.0}
    expected = publishing(counts, mechanism)
    generator, n = np.random.default_rng(0), 20_000
    table = np.tile([3.0, 1.0], (n, 1))
    drawn = Counter(
        frozenset(name for name, count in zip("ab", row, strict=True) if count > 0)
        for row in mechanism.draw(table, generator)
    )
    for names, p in expected.items():
        assert abs(drawn[names] - n * p) < 5 * math.sqrt(n * p) + 5


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_budget_is_used_up_and_not_exceeded(adjacency):
    for epsilon, delta, words in [(0.1, 1e-9, 1), (1.0, 1e-5, 50), (8.0, 1e-2, 3)]:
        mechanism = calibrate_selection(
            epsilon, delta, adjacency, ContributionBound(1.0, float(words))
        )
        assert 0.999 * delta < mechanism.delta(epsilon) <= delta
        assert Composition([(mechanism, 3)]).epsilon(3 * delta) <= 3.01 * epsilon
        assert decode(encode(mechanism)) == mechanism
        assert mechanism.rdp(2.0) == INF


def test_all_names_of_a_person_together_stay_hidden():
    """Persons have up to three records of two words each, and may repeat words."""
    bound = ContributionBound(1.0, 2.0).for_person(3)
    for sigma in (0.5, 3.0, 60.0):
        mechanism = SelectionMechanism(
            sigma, failure=0.01, max_count=bound.max_count, max_total=bound.max_total
        )
        for counts in ([3, 3], [1] * 6, [2, 2, 2], [3, 1, 1, 1], [2, 1, 1, 1, 1]):
            hidden = math.prod(
                1 - norm.sf((mechanism.threshold - count) / sigma) for count in counts
            )
            assert 1 - hidden <= 0.01
    # The threshold for one record would not suffice for one person.
    alone = SelectionMechanism(0.5, failure=0.01, max_total=2.0)
    assert norm.sf((alone.threshold - 3) / 0.5) > 0.1


def test_records_of_one_person_count_as_far_as_declared():
    texts = ["rare"] * 400 + ["usual"] * 2000
    ids = [0] * 400 + list(range(1, 2001))
    model = PrivateCountVectorizer(max_words=5, max_rows=2).fit(texts, groups=ids)
    assert set(model.vocabulary_) == {"usual"}
    assert "of whom up to 2 records are counted" in str(model.privacy_)
    assert "rare" in PrivateCountVectorizer(max_words=5).fit(texts).vocabulary_


# --- The vocabulary -------------------------------------------------------------


def test_a_record_gives_its_first_different_words():
    records = [["b", "a", "b", "c", "d"], [], ["a"]]
    assert count_names(records, 2) == Counter({"a": 2, "b": 1})


def test_without_noise_the_vocabulary_is_scikit_learns():
    texts, _ = corpus()
    ours = PrivateCountVectorizer(epsilon=INF, max_words=20).fit(texts)
    theirs = CountVectorizer().fit(texts)
    assert ours.vocabulary_ == theirs.vocabulary_
    np.testing.assert_array_equal(
        ours.transform(texts).toarray(), theirs.transform(texts).toarray()
    )
    few = PrivateCountVectorizer(epsilon=INF, max_words=20, min_df=30, max_df=0.3).fit(texts)
    assert few.vocabulary_ == CountVectorizer(min_df=30, max_df=0.3).fit(texts).vocabulary_


def test_words_of_many_are_found_and_words_of_one_are_not():
    texts, _ = corpus(6000)
    texts.append("secret001 secret002 secret003")
    model = PrivateCountVectorizer(max_words=20).fit(texts)
    frequency = Counter(word for text in texts for word in dict.fromkeys(text.split()))
    noise = 6 * model.privacy_.mechanism.sigma  # of 301 words, none is further off
    for word, count in frequency.items():
        if count > model.threshold_ + noise:
            assert word in model.vocabulary_
        if count < model.threshold_ - noise:
            assert word not in model.vocabulary_
    assert len(model.vocabulary_) > 20
    errors = model.document_count_ - [frequency[word] for word in model.get_feature_names_out()]
    assert np.all(np.abs(errors) < noise)


def test_only_the_release_is_stored():
    texts, _ = corpus(6000)
    texts.append("jabberwocky")
    kept = pickle.dumps(PrivateCountVectorizer(max_words=20).fit(texts))
    assert b"jabberwocky" not in kept
    assert b"jabberwocky" in pickle.dumps(PrivateCountVectorizer(epsilon=INF).fit(texts))


class Note(str):
    """A text that carries a document."""

    def __new__(cls, text):
        made = super().__new__(cls, text)
        made.document = "patient 86753"
        return made


def identity(words):
    return words


def test_published_words_are_not_objects_of_records():
    documents = [[Note("ache"), np.str_("back"), "cough"]] * 300
    vectorizer = PrivateCountVectorizer(analyzer=identity, max_words=3).fit(documents)
    assert vectorizer.vocabulary_ == {"ache": 0, "back": 1, "cough": 2}
    assert {type(word) for word in vectorizer.vocabulary_} == {str}
    assert b"86753" not in pickle.dumps(vectorizer)


@pytest.mark.parametrize("epsilon", [1.0, INF])
def test_the_first_of_equal_objects_names_no_word(epsilon):
    for first in (True, 1.0, np.int64(1), 1):
        documents = [[first], *[[1, 2]] * 300]
        vectorizer = PrivateCountVectorizer(analyzer=identity, epsilon=epsilon).fit(documents)
        assert [(type(word), column) for word, column in vectorizer.vocabulary_.items()] == [
            (int, 0),
            (int, 1),
        ]
        assert vectorizer.transform([[True, 2]]).toarray().tolist() == [[1, 1]]


def test_a_word_that_is_no_plain_value_affects_only_its_record():
    for odd in (None, [1], object(), np.nan, 7, ("a", 1), b"a"):
        documents = [["ache", "back"]] * 300 + [["ache", odd]]
        vectorizer = PrivateCountVectorizer(analyzer=identity, max_words=3).fit(documents)
        assert vectorizer.vocabulary_ == {"ache": 0, "back": 1}


def test_words_of_rows_that_are_not_counted_are_no_candidates(monkeypatch):
    """Without a threshold, half of all candidates that no record holds would be published."""
    monkeypatch.setattr(SelectionMechanism, "threshold", -np.inf)
    documents = ["ache"] * 50 + [f"secret{i}" for i in range(200)]
    vectorizer = PrivateCountVectorizer(max_rows=2, epsilon=50.0, adjacency="add_remove")
    vectorizer.fit(documents, groups=[*range(50), *[7] * 200])
    assert {"ache"} <= set(vectorizer.vocabulary_) <= {"ache", "secret0"}


def test_the_largest_vocabulary_is_of_the_most_frequent_words():
    texts, _ = corpus(6000)
    whole = PrivateCountVectorizer(max_words=20, random_state=0)
    small = PrivateCountVectorizer(max_words=20, max_features=5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        whole.fit(texts)
        small.fit(texts)
    top = np.argsort(-whole.document_count_)[:5]
    assert set(small.vocabulary_) == set(whole.get_feature_names_out()[top])


def test_the_charge_equals_the_report_and_precedes_the_release():
    texts, _ = corpus()
    recorder = Recorder()
    model = PrivateCountVectorizer(max_words=20, epsilon=2.0, accountant=recorder).fit(texts)
    ((charged, releases, _),) = recorder.charges
    assert (charged, releases) == (model.privacy_.mechanism, 1)
    assert 1.99 < model.privacy_.composition().epsilon(1e-5) <= 2.0
    limited = PrivacyAccountant(epsilon=1.0)
    with pytest.raises(BudgetExceededError):
        model.set_params(accountant=limited).fit(texts)
    assert "vocabulary_" in vars(model)  # the fit before
    assert len(limited) == 0


def test_a_given_vocabulary_costs_nothing():
    texts, _ = corpus()
    recorder = Recorder()
    model = PrivateCountVectorizer(vocabulary=["word001", "word007"], accountant=recorder)
    assert model.fit_transform(texts).shape == (900, 2)
    assert recorder.charges == []
    assert model.privacy_.releases == 0


def test_shares_of_an_unknown_number_of_records_are_named():
    texts, _ = corpus()
    with pytest.warns(PrivacyLeakWarning, match="n_samples"):
        PrivateCountVectorizer(adjacency="add_remove", min_df=0.1).fit(texts)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        PrivateCountVectorizer(adjacency="add_remove").fit(texts)
        PrivateCountVectorizer(adjacency="add_remove", min_df=0.1, n_samples=900).fit(texts)


def test_an_empty_vocabulary_is_a_warning_and_no_error():
    with pytest.warns(UserWarning, match="the vocabulary is empty"):
        model = PrivateCountVectorizer().fit(["one", "two"])
    assert model.vocabulary_ == {"": 0}
    assert model.transform(["one two", ""]).toarray().tolist() == [[0], [0]]
    assert model.get_feature_names_out().tolist() == [""]
    with pytest.warns(UserWarning, match="the vocabulary is empty"):
        PrivateCountVectorizer().fit([])


def test_a_pipeline_without_a_word_has_the_released_prior():
    pipe = make_private_pipeline(
        PrivateCountVectorizer(), DirichletNB(classes=[0, 1], max_count=1, max_total=5), epsilon=1.0
    )
    with pytest.warns(UserWarning, match="the vocabulary is empty"):
        pipe.fit([f"only{i}" for i in range(3000)], np.arange(3000) < 2900)
    assert pipe.predict(["only7"]) == [1]
    assert pipe.privacy_.composition().epsilon(1e-5) <= 1.0


def test_a_vocabulary_gets_half_of_the_budget_as_a_variance():
    texts, y = corpus(3000)
    words = PrivateCountVectorizer(max_words=20, epsilon=1.0)
    model = DirichletNB(classes=[0, 1, 2], max_count=1, max_total=20, mechanism="gaussian")
    pipe = make_private_pipeline(words, model, epsilon=1.0).fit(texts, y)
    (alone,) = words.fit(texts).privacy_.mechanisms
    (together,) = pipe[0].privacy_.mechanisms
    assert together[0].sigma ** 2 / alone[0].sigma ** 2 == pytest.approx(2, rel=0.05)
    assert len(pipe[0].vocabulary_) > 30


def test_files_can_be_read_repeatedly():
    files = [io.StringIO(text) for text in ["good film", "bad film"] * 300]
    words = PrivateCountVectorizer(input="file", epsilon=9.0, max_words=3)
    assert words.fit_transform(files).sum() == 1200
    pipe = make_private_pipeline(words, LAST[0], epsilon=9.0).fit(files, [0, 1] * 300)
    assert pipe.score(files, [0, 1] * 300) == 1.0


@pytest.mark.parametrize("bad", [[1, 2], [None], ["good", 17.5], np.array([["a", "b"]]), 5])
def test_invalid_texts_are_rejected_without_a_charge(bad):
    recorder = Recorder()
    model = PrivateCountVectorizer(accountant=recorder)
    with pytest.raises((TypeError, ValueError, AttributeError)) as caught:
        model.fit(bad)
    assert "17.5" not in str(caught.value)
    assert recorder.charges == []


def test_one_string_is_not_a_corpus():
    with pytest.raises(ValueError, match="string object received"):
        PrivateCountVectorizer().fit("one text")


@pytest.mark.filterwarnings("ignore:no word is in enough")
@parametrize_with_checks([PrivateCountVectorizer(), PrivateCountVectorizer(epsilon=INF)])
def test_scikit_learn_accepts_the_vectorizer(estimator, check):
    check(estimator)


# --- From raw words to a model --------------------------------------------------

LAST = [
    DirichletNB(classes=[0, 1, 2], max_count=5, max_total=20),
    DirichletComplementNB(classes=[0, 1, 2], max_count=5, max_total=20),
    DirichletBernoulliNB(classes=[0, 1, 2], max_total=20),
    DirichletBernoulliNB(classes=[0, 1, 2]),
]


@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_text_is_private_from_its_raw_words_on(last, adjacency):
    texts, y = corpus(6000)
    accountant = PrivacyAccountant(epsilon=2.0, delta=1e-5)
    words = PrivateCountVectorizer(max_words=20, max_features=200)
    pipe = make_private_pipeline(
        words,
        last.set_params(n_samples=6000),
        epsilon=2.0,
        delta=1e-5,
        adjacency=adjacency,
        accountant=accountant,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        pipe.fit(texts, y)
    assert len(accountant) == 1
    assert 0.999 * 2.0 <= accountant.total() <= 2.0
    assert pipe.privacy_.not_covered == ()
    assert pipe.score(texts, y) > 0.8
    assert [step.verdict for step in check_pipeline(pipe)] == ["private", "private"]


def test_noise_does_not_follow_the_size_of_the_vocabulary():
    reports = []
    for n in (2000, 6000):
        texts, y = corpus(n)
        words = PrivateCountVectorizer(max_words=20, max_features=200)
        last = DirichletNB(classes=[0, 1, 2], max_count=5, max_total=20, n_samples=3000)
        pipe = make_private_pipeline(words, last, epsilon=2.0, delta=1e-5).fit(texts, y)
        reports.append((len(pipe[0].vocabulary_), pipe.privacy_.mechanisms))
    assert reports[0][0] != reports[1][0]
    assert reports[0][1] == reports[1][1]


@pytest.mark.parametrize("last", LAST)
def test_a_vocabulary_smaller_than_max_words_is_fitted(last):
    texts = ["good film", "bad film"] * 3000
    words = PrivateCountVectorizer(max_words=20, max_features=200)
    pipe = make_private_pipeline(words, last, epsilon=2.0, delta=1e-5)
    pipe.fit(texts, [0, 1] * 3000)
    assert len(pipe[0].vocabulary_) == 3
    assert pipe.score(texts, [0, 1] * 3000) == 1.0


def moved(pipe, texts, other, y):
    """Return the total change of the counts of features if the first text is replaced."""
    tables = []
    for first in (texts[0], other):
        exact = clone(pipe).set_params(epsilon=INF, accountant=None)
        last = exact.fit([first, *texts[1:]], y)[-1]
        last = last[-1] if isinstance(last, Pipeline) else last
        absent = last.class_count_[:, np.newaxis] - last.feature_count_
        tables.append(np.stack([absent, last.feature_count_]))
    return np.abs(tables[0] - tables[1]).sum()


def test_a_given_vocabulary_is_calibrated_with_all_of_its_words():
    words = [f"word{i:03d}" for i in range(20)]
    texts, y = [" ".join(words), "word001"] * 20, [0, 1] * 20
    pipe = make_private_pipeline(
        PrivateCountVectorizer(vocabulary=words, max_features=5),
        DirichletBernoulliNB(classes=[0, 1]),
    )
    paid = pipe.fit(texts, y).privacy_.mechanism.contribution.total("replace")
    assert moved(pipe, texts, "", y) == 40 == paid


def test_columns_that_a_step_adds_to_those_of_a_vocabulary_are_rejected_before_the_charge():
    texts, y = ["good film", "bad film"] * 300, [0, 1] * 300
    twice = FunctionTransformer(lambda X: sparse.hstack([X, X]).tocsr(), accept_sparse=True)
    recorder = Recorder()
    pipe = make_private_pipeline(
        PrivateCountVectorizer(max_features=3),
        make_pipeline(twice, DirichletBernoulliNB(classes=[0, 1])),
        accountant=recorder,
        epsilon=9.0,
    )
    assert moved(pipe, texts, "", y) > 2 * 3  # more than the vectorizer's columns would pay for
    with pytest.raises(ValueError, match="more columns than the previous private step declares"):
        pipe.fit(texts, y)
    assert recorder.charges == []


@pytest.mark.parametrize(
    "steps",
    [
        [FeatureUnion([("words", PrivateCountVectorizer())]), LAST[0]],
        [PrivateCountVectorizer(), Binarizer(), LAST[0]],
        [make_pipeline(PrivateCountVectorizer(), LAST[0])],
    ],
    ids=["inside", "between", "both inside"],
)
def test_noise_that_would_follow_from_the_exact_vocabulary_is_rejected_before_the_charge(steps):
    texts, y = corpus()
    recorder = Recorder()
    with pytest.raises(ValueError, match="Nothing was charged"):
        make_private_pipeline(*steps, accountant=recorder).fit(texts, y)
    assert recorder.charges == []


def test_hashed_words_need_no_budget():
    texts, y = corpus(6000)
    hashing = HashingVectorizer(n_features=256, alternate_sign=False, norm=None)
    last = DirichletNB(classes=[0, 1, 2], max_count=5, max_total=20)
    pipe = make_private_pipeline(hashing, last, epsilon=2.0, delta=1e-5).fit(texts, y)
    assert pipe.privacy_.not_covered == ()
    assert pipe.privacy_.releases == 2
    assert pipe.score(texts, y) > 0.8


# Parameters of CountVectorizer --------------------------------------------------------


def test_without_max_features_the_vocabulary_has_no_limit():
    texts = ["common words here", "other words here"] * 2000
    settings = {"max_words": 5, "epsilon": 3.0, "random_state": 0}
    with pytest.warns(PrivacyLeakWarning):
        limited = PrivateCountVectorizer(max_features=10_000, **settings).fit(texts)
    with pytest.warns(PrivacyLeakWarning):
        unlimited = PrivateCountVectorizer(max_features=None, **settings).fit(texts)
    assert unlimited.vocabulary_ == limited.vocabulary_
    np.testing.assert_array_equal(unlimited.document_count_, limited.document_count_)
    assert unlimited.privacy_ == limited.privacy_


def test_a_pipeline_needs_max_features_before_anything_is_charged():
    accountant = PrivacyAccountant(epsilon=3.0, delta=1e-4)
    steps = [("words", PrivateCountVectorizer(max_features=None)), ("model", DirichletNB())]
    pipeline = PrivatePipeline(steps, accountant=accountant)
    pipeline.set_params(model__classes=[0, 1], model__max_total=5)
    with pytest.raises(ValueError, match="max_features if it is None"):
        pipeline.fit(["some words", "other words"] * 100, [0, 1] * 100)
    assert len(accountant) == 0


def test_words_of_a_vocabulary_that_are_never_found_cause_a_warning():
    with pytest.warns(UserWarning, match="Upper case characters found in vocabulary"):
        PrivateCountVectorizer(vocabulary=["Spam"]).fit(["spam"])
