"""Pipelines, searches and scores that begin with the encoder of a schema."""

import pickle
import warnings
from contextlib import suppress
from decimal import Decimal
from unittest.mock import patch

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdirdp import (
    DirichletBernoulliNB,
    DirichletCategoricalNB,
    PrivacyAccountant,
    PrivacyLeakWarning,
    PrivatePipeline,
    PrivateTableClassifier,
    Schema,
    check_pipeline,
    make_private_pipeline,
)
from skdirdp.mechanisms import GaussianMechanism
from skdirdp.model_selection import PrivateGridSearchCV, make_private_scorer, private_score
from skdirdp.pipeline import public_steps

from .probes import Recorder, drawn_tables, outside_bounds

N = 60
COLUMNS = {
    "age": Schema.numbers(0, 100, bins=4),
    "sex": ["f", "m"],
    "day": ("2020-01-01", "2020-12-31"),
    "patient": Schema.key(),
    "label": ["yes", "no"],
}
SCHEMA = Schema(COLUMNS)
PERSONS = Schema(COLUMNS, person="patient", max_rows=2)
ODD = [
    None,
    np.nan,
    pd.NA,
    "",
    "x",
    "yes",
    1,
    True,
    -0.0,
    1e300,
    10**30,
    Decimal(1),
    b"1",
    (1,),
    {},
]


def visits(n=N):
    rng = np.random.default_rng(0)
    columns = {
        "age": rng.integers(0, 100, n).tolist(),
        "sex": rng.choice(["f", "m"], n).tolist(),
        "day": ["2020-02-03", "2020-08-09"] * (n // 2),
        "patient": (np.arange(n) // 2).tolist(),
        "label": rng.choice(["no", "yes"], n).tolist(),
    }
    return pd.DataFrame({name: pd.Series(each, dtype=object) for name, each in columns.items()})


def with_rows(frame, *rows):
    """The frame with further rows at its start, in columns of objects."""
    added = pd.DataFrame(
        {name: pd.Series([row[name] for row in rows], dtype=object) for name in frame}
    )
    return pd.concat([added, frame], ignore_index=True)


ROW = {"age": 50, "sex": "f", "day": "2020-03-03", "patient": "new", "label": "yes"}


def pipeline(schema=SCHEMA, *, model=None, adjacency="add_remove", **parameters):
    model = DirichletCategoricalNB(n_samples=N) if model is None else model
    return make_private_pipeline(schema.encoder(), model, adjacency=adjacency, **parameters)


def exact_tables(pipe, X, y="label"):
    """The exact tables of the charged fit, each with its mechanism."""
    with drawn_tables() as tables:
        pipe.fit(X, y)
    return tables[len(tables) // 2 :]  # the first half belongs to the rehearsal


def changes(pipe, before, after):
    """Return the contribution to each table, with its mechanism."""
    pairs = zip(exact_tables(pipe, before), exact_tables(pipe, after), strict=True)
    return [(mechanism, new - old) for (mechanism, old), (_, new) in pairs]


# Records ---------------------------------------------------------------------------


def test_a_pipeline_needs_no_other_declaration_than_the_schema():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipe = make_private_pipeline(SCHEMA.encoder(), DirichletCategoricalNB(), epsilon=2.0)
        pipe.fit(visits(), y="label")
    assert pipe.privacy_.not_covered == ()
    assert pipe.privacy_.composition().epsilon(1e-5) <= 2.0
    assert pipe[-1].n_categories_.tolist() == [5, 3, 11]
    assert not any(finding.verdict == "leaks" for finding in check_pipeline(pipe))


def test_the_encoder_learns_nothing_in_any_pipeline():
    (finding,) = check_pipeline(make_pipeline(SCHEMA.encoder()))
    assert (finding.verdict, finding.reason) == ("learns nothing", "")


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("column", COLUMNS)
def test_neighbouring_tables_give_the_encoder_one_state_and_other_records_one_code(column, odd):
    frame = visits()
    neighbour = frame.copy()
    neighbour.at[7, column] = odd
    one, other = SCHEMA.encoder().fit(frame), SCHEMA.encoder().fit(neighbour)
    assert pickle.dumps(vars(one)) == pickle.dumps(vars(other))
    codes, others = one.transform(frame), other.transform(neighbour)
    assert codes.dtype == others.dtype
    np.testing.assert_array_equal(np.delete(codes, 7, axis=0), np.delete(others, 7, axis=0))


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("column", COLUMNS)
def test_an_odd_record_adds_its_own_count_to_each_exact_table(column, odd):
    frame = visits()
    for mechanism, change in changes(pipeline(), frame, with_rows(frame, {**ROW, column: odd})):
        assert outside_bounds(change, mechanism) is None


def test_a_record_fills_the_bound_that_is_charged():
    frame = visits()
    for mechanism, change in changes(pipeline(), frame, with_rows(frame, ROW)):
        assert change.max() == mechanism.max_count > mechanism.max_count / 2


@pytest.mark.parametrize("label", [None, "perhaps", 3, ""])
def test_a_record_without_a_declared_label_is_not_counted(label):
    frame = visits()
    for _, change in changes(pipeline(), frame, with_rows(frame, {**ROW, "label": label})):
        assert not change.any()


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_a_missing_label_changes_neither_the_noise_nor_the_reported_number(adjacency):
    frame, neighbour = visits(), visits()
    neighbour.at[0, "label"] = None
    model = DirichletCategoricalNB(n_samples=None if adjacency == "replace" else N)
    reports = [
        pipeline(model=model, adjacency=adjacency).fit(X, "label").privacy_
        for X in (frame, neighbour)
    ]
    assert reports[0].mechanisms == reports[1].mechanisms
    assert reports[0].n_records is reports[1].n_records is None


def test_an_array_of_labels_behaves_as_in_scikit_learn():
    frame = visits()
    X, y = frame.drop(columns="label"), frame["label"].to_numpy(copy=True)
    pipe = pipeline(model=DirichletCategoricalNB(classes=["no", "yes"], n_samples=N))
    assert pipe.fit(X, y).privacy_.not_covered == ()
    y[3] = "perhaps"
    with pytest.raises(ValueError, match="labels that are in classes"):
        pipe.fit(X, y)
    with pytest.warns(PrivacyLeakWarning, match="classes"):
        pipeline().fit(X, frame["label"].replace("perhaps", "no"))


@pytest.mark.parametrize("values", [[0, 1], [False, True], ["b", "a"], [1.5, 2.5]])
def test_predictions_are_declared_values_in_their_types(values):
    schema = SCHEMA.replace(columns={**COLUMNS, "label": values})
    frame = visits()
    frame["label"] = [str(values[i % 2]) for i in range(N)]
    pipe = pipeline(schema, epsilon=np.inf).fit(frame, "label")
    assert {type(label) for label in pipe.predict(frame).tolist()} == {type(values[0])}
    assert pipe.classes_.tolist() == sorted(values)


def test_the_label_of_other_values_is_a_class():
    label = Schema.categories(["yes", "no"], other="else")
    frame = with_rows(visits(), {**ROW, "label": "perhaps"})
    pipe = pipeline(SCHEMA.replace(columns={**COLUMNS, "label": label}), epsilon=np.inf)
    pipe.fit(frame, "label")
    assert pipe[-1].class_count_[list(pipe.classes_).index("else")] == 1


@pytest.mark.parametrize("drop", [[], ["label"], ["patient"], ["label", "patient"]])
def test_predictions_accept_frames_with_or_without_label_and_key(drop):
    frame = visits()
    pipe = pipeline(PERSONS).fit(frame, "label")
    expected = pipe.predict(frame)
    np.testing.assert_array_equal(pipe.predict(frame.drop(columns=drop)), expected)


def test_containers_give_the_same_exact_tables():
    frame = visits().astype({"age": int, "patient": int})
    expected = exact_tables(pipeline(PERSONS), frame)
    others = [pl.from_pandas(frame), pa.Table.from_pandas(frame), frame.to_numpy(object)]
    for table in others:
        for (_, old), (_, new) in zip(
            expected, exact_tables(pipeline(PERSONS), table), strict=True
        ):
            np.testing.assert_array_equal(old, new)


def test_no_conversion_runs_before_the_encoder():
    def refuse(*_):
        raise AssertionError("converted")

    frame = pl.from_pandas(visits().astype({"age": int, "patient": int}))
    with (
        patch.object(public_steps, "record_wise", refuse),
        patch("skdirdp.pipeline.pipeline.record_wise", refuse),
    ):
        pipeline().fit(frame, "label").predict(frame)


def test_classes_that_contradict_the_schema_are_refused():
    recorder = Recorder()
    model = DirichletCategoricalNB(classes=["no", "maybe"], n_samples=N)
    with pytest.raises(ValueError, match="classes must be the declared values"):
        pipeline(model=model, accountant=recorder).fit(visits(), "label")
    assert recorder.charges == []
    model = DirichletCategoricalNB(classes=["no", "yes"], n_samples=N)
    assert pipeline(model=model).fit(visits(), "label").classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize("name", ["age", "patient", "nothing"])
def test_a_label_must_be_a_column_of_categories(name):
    with pytest.raises(ValueError, match="y must be"):
        pipeline().fit(visits(), name)


def test_names_that_are_not_public_are_refused_with_the_name_of_the_column():
    schema = SCHEMA.replace(columns={**COLUMNS, "sex": Schema.names()})
    with pytest.raises(ValueError, match="'sex'"):
        pipeline(schema).fit(visits(), "label")


def test_facts_of_the_encoder_do_not_reach_estimators_inside_another_step():
    from sklearn.multiclass import OneVsRestClassifier

    frame = visits()
    pipe = PrivatePipeline(
        [
            ("encoder", SCHEMA.encoder()),
            ("model", OneVsRestClassifier(DirichletCategoricalNB(n_samples=N))),
        ],
        adjacency="add_remove",
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pipe.fit(frame, "label")
    assert any("n_categories" in str(each.message) for each in caught)
    assert set(pipe.predict(frame)) <= {"no", "yes"}


def test_a_score_by_name_leaves_out_records_without_a_label():
    frame = visits()
    pipe = pipeline(epsilon=np.inf).fit(frame, "label")
    labelled = frame.drop(index=0)
    expected = np.mean(pipe.predict(labelled) == labelled["label"])
    frame.at[0, "label"] = None
    assert pipe.score(frame, "label") == expected


def test_a_cached_fit_is_the_same(tmp_path):
    frame = visits()
    fits = [
        PrivatePipeline(
            [("encoder", SCHEMA.encoder()), ("model", DirichletCategoricalNB())],
            epsilon=np.inf,
            memory=memory,
        ).fit(frame, "label")
        for memory in (None, str(tmp_path), str(tmp_path))
    ]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.predict_proba(frame), fits[0].predict_proba(frame))


# Persons ---------------------------------------------------------------------------


def test_the_report_names_the_person_and_the_bound_of_the_schema():
    accountant = PrivacyAccountant()
    pipe = pipeline(PERSONS, accountant=accountant).fit(visits(), "label")
    assert (pipe.privacy_.unit.max_rows, pipe.privacy_.unit.by_ids) == (2, True)
    assert all(mechanism.max_count == 2 for mechanism, _ in pipe.privacy_.mechanisms)
    assert pipe.privacy_.not_covered == ()
    assert accountant.total(1e-5) <= 1.0


@pytest.mark.parametrize("column", ["age", "sex", "day", "label"])
@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_a_person_with_many_rows_adds_no_more_than_the_bound(column, odd):
    frame = visits()
    rows = [{**ROW, column: odd}, *[ROW] * 9]
    for mechanism, change in changes(pipeline(PERSONS), frame, with_rows(frame, *rows)):
        assert mechanism.max_total == 2
        assert outside_bounds(change, mechanism) is None


def test_a_person_fills_the_bound_so_that_half_of_it_would_be_wrong():
    frame = visits()
    for mechanism, change in changes(pipeline(PERSONS), frame, with_rows(frame, *[ROW] * 9)):
        assert change.sum() == mechanism.max_total > mechanism.max_total / 2


def test_ids_of_several_types_are_one_person():
    frame = visits()
    rows = [
        {**ROW, "patient": same} for same in (1234, "1234", Decimal(1234), np.int8(12), "12", 12)
    ]
    for _, change in changes(pipeline(PERSONS), frame, with_rows(frame, *rows)):
        assert change.sum() == 2  # of 1234; person 12 is in the table already


DECIMALS = [Decimal("0.5"), Decimal("NaN"), Decimal("sNaN"), Decimal("1E+999999")]


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, "", True, 0.5, b"1", (), *DECIMALS])
def test_records_without_an_id_are_not_counted(missing):
    frame = visits()
    rows = [{**ROW, "patient": missing}] * 5
    for _, change in changes(pipeline(PERSONS), frame, with_rows(frame, *rows)):
        assert not change.any()


def test_the_number_of_records_is_not_taken_from_records_that_may_lack_an_id():
    schema = PERSONS.replace(max_rows=1)
    pipe = pipeline(schema, model=DirichletCategoricalNB(), adjacency="replace")
    with pytest.warns(PrivacyLeakWarning, match="n_samples"):
        pipe.fit(visits(), "label")
    assert pipe.privacy_.n_records is None


@pytest.mark.parametrize("max_rows", [1, 2])
def test_a_step_counts_the_persons_of_the_schema(max_rows):
    model = DirichletCategoricalNB(n_samples=N, max_rows=max_rows)
    assert pipeline(PERSONS, model=model).fit(visits(), "label").privacy_.unit.max_rows == 2


def test_another_bound_or_other_ids_are_refused_before_the_charge():
    recorder, frame = Recorder(), visits()
    model = DirichletCategoricalNB(n_samples=N, max_rows=3)
    with pytest.raises(ValueError, match="max_rows must be that of the schema, 2"):
        pipeline(PERSONS, model=model, accountant=recorder).fit(frame, "label")
    with pytest.raises(ValueError, match="groups must not be given"):
        pipeline(PERSONS, accountant=recorder).fit(frame, "label", groups=frame["patient"])
    with pytest.raises(ValueError, match="the person key"):
        pipeline(PERSONS, accountant=recorder).fit(frame.drop(columns="patient"), "label")
    assert recorder.charges == []


def test_groups_and_labels_by_name_leave_out_records_without_a_label():
    frame = visits()
    added = with_rows(frame, {**ROW, "label": None})
    model = DirichletCategoricalNB(n_samples=N, max_rows=2)
    counts = []
    for table in (frame, added):
        with drawn_tables() as tables:
            pipeline(model=model).fit(
                table, "label", groups=[str(each) for each in table["patient"]]
            )
        counts.append([each for _, each in tables])
    for old, new in zip(*counts, strict=True):
        np.testing.assert_array_equal(old, new)


def test_a_schema_with_persons_must_be_that_of_the_first_step():
    inner = make_pipeline(PERSONS.encoder(), OneHotEncoder(categories=[range(20)] * 4))
    recorder = Recorder()
    for steps in ([inner], [inner.steps[1][1], PERSONS.encoder()]):
        pipe = make_private_pipeline(*steps, DirichletBernoulliNB(), accountant=recorder)
        with pytest.raises(ValueError, match="first step of the PrivatePipeline"):
            pipe.fit(visits(), "label")
    assert recorder.charges == []


def test_persons_are_refused_if_a_step_may_fit_to_other_rows():
    from sklearn.multiclass import OneVsOneClassifier

    pipe = make_private_pipeline(
        PERSONS.encoder(), OneVsOneClassifier(DirichletCategoricalNB(n_categories=20))
    )
    with pytest.warns(PrivacyLeakWarning), pytest.raises(ValueError, match="to other rows"):
        pipe.fit(visits(), "label")


# Searches and scores ---------------------------------------------------------------

GRID = {"dirichletcategoricalnb__alpha": [0.1, 1.0]}


def large(n=1200):
    frame = visits(n)
    frame["label"] = np.where(frame["age"].astype(int) > 50, "yes", "no")
    return frame


@pytest.mark.parametrize("route", ["composition", "repetition"])
@pytest.mark.parametrize("schema", [SCHEMA, PERSONS], ids=["records", "persons"])
def test_a_search_accepts_labels_by_name_and_protects_persons(schema, route):
    recorder, frame = PrivacyAccountant(), large()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search = PrivateGridSearchCV(
            pipeline(schema, model=DirichletCategoricalNB(n_samples=1200)),
            GRID,
            route=route,
            epsilon=3.0,
            accountant=recorder,
        ).fit(frame, "label")
    assert search.privacy_.unit.is_person == (schema is PERSONS)
    assert search.privacy_.not_covered == ()
    assert search.privacy_.composition().epsilon(1e-5) <= 3.0
    assert search.best_estimator_.score(frame, "label") > 0.8
    assert len(recorder) == 1


@pytest.mark.parametrize("container", [pd.DataFrame, lambda frame: frame.to_numpy(object).tolist()])
def test_a_search_that_happens_to_hold_out_nobody_is_published(container):
    model = pipeline(PERSONS, model=DirichletCategoricalNB(n_samples=N))
    split = np.arange(N), np.arange(0)
    with patch("skdirdp.model_selection.planning.split_persons", return_value=split):
        search = PrivateGridSearchCV(model, GRID, epsilon=3.0).fit(container(visits()), "label")
    assert search.privacy_.unit.is_person


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_a_search_holds_out_persons_with_all_their_counted_records(adjacency):
    frame = with_rows(large(), *[ROW] * 9, {**ROW, "patient": None})
    model = pipeline(PERSONS, model=DirichletCategoricalNB(n_samples=1200))
    search = PrivateGridSearchCV(model, GRID, adjacency=adjacency)
    with (
        patch("skdirdp.model_selection.runs.run_candidates", side_effect=KeyboardInterrupt) as runs,
        pytest.raises(KeyboardInterrupt),
    ):
        search.fit(frame, "label")
    data = runs.call_args.args[1]
    train, test = data.train.X["patient"], data.test[0]["patient"]
    assert not set(train) & set(test)
    assert max(train.value_counts().max(), test.value_counts().max()) == 2
    assert None not in {*train, *test}
    assert 0.1 < len(test) / len(frame) < 0.3
    assert data.n_test is None


def scored_tables(model, frame, **parameters):
    tables = []
    noisy = GaussianMechanism.noisy

    def listening(self, table, *others):
        tables.append((self, np.array(table)))
        return noisy(self, table, *others)

    with patch.object(GaussianMechanism, "noisy", listening):
        score = private_score(model, frame, "label", **parameters)
    (found,) = tables
    return (*found, score)


@pytest.mark.parametrize("scoring", ["accuracy", "balanced_accuracy", "neg_log_loss"])
@pytest.mark.parametrize("schema", [SCHEMA, PERSONS], ids=["records", "persons"])
def test_a_score_counts_no_more_of_a_person_than_is_charged(schema, scoring):
    frame = large()
    model = pipeline(schema, model=DirichletCategoricalNB(n_samples=1200)).fit(frame, "label")
    rows = [ROW] * 9 if schema is PERSONS else [ROW]
    options = {"scoring": scoring, "adjacency": "add_remove"}
    mechanism, before, _ = scored_tables(model, frame, **options)
    _, after, score = scored_tables(model, with_rows(frame, *rows), **options)
    change = after - before
    assert change.min() >= 0
    assert np.linalg.norm(change) <= mechanism.max_total
    assert change.sum() == mechanism.max_total == schema.max_rows
    assert score.privacy.unit.is_person == (schema is PERSONS)


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_the_noise_of_a_score_grows_with_the_records_of_a_person(adjacency):
    frame = large()
    model = DirichletCategoricalNB(n_samples=1200)
    sigmas = [
        scored_tables(
            pipeline(schema, model=model).fit(frame, "label"), frame, adjacency=adjacency
        )[0].sigma
        for schema in (SCHEMA, PERSONS)
    ]
    assert sigmas[1] == pytest.approx(2 * sigmas[0])


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
@pytest.mark.parametrize("schema", [SCHEMA, PERSONS], ids=["records", "persons"])
def test_the_noise_of_a_score_is_that_of_the_charge_and_of_the_budget(schema, adjacency):
    frame, recorder = large(), Recorder()
    model = pipeline(schema, model=DirichletCategoricalNB(n_samples=1200)).fit(frame, "label")
    options = {"adjacency": adjacency, "epsilon": 0.7, "accountant": recorder}
    drawn, _, score = scored_tables(model, frame, **options)
    assert [(drawn, 1)] == [charge[:2] for charge in recorder.charges]
    assert score.privacy.mechanisms == ((drawn, 1),)
    # The largest change of gain and loss by one record, from Gaussian noise of variance 1.
    distance = schema.max_rows * (np.sqrt(2) if adjacency == "replace" else 1) / drawn.sigma
    above, below = (norm.cdf(sign * distance / 2 - 0.7 / distance) for sign in (1, -1))
    assert 0.99e-5 < above - np.exp(0.7) * below <= 1e-5


@pytest.mark.parametrize("schema", [SCHEMA, PERSONS], ids=["records", "persons"])
def test_the_scores_of_a_search_have_the_noise_that_is_charged(schema):
    model, recorder = pipeline(schema, model=DirichletCategoricalNB(n_samples=1200)), Recorder()
    with patch.object(GaussianMechanism, "noisy", autospec=True) as noisy:
        noisy.side_effect = lambda self, table, *others: np.array(table)
        search = PrivateGridSearchCV(model, GRID, epsilon=3.0, accountant=recorder)
        search.fit(large(), "label")
    ((charge, _, _),) = recorder.charges
    drawn = {call.args[0] for call in noisy.call_args_list}
    assert len(drawn) == 1
    assert all(repr(mechanism) in repr(charge) for mechanism in drawn)


@pytest.mark.parametrize("scoring", ["accuracy", "balanced_accuracy", "neg_log_loss"])
def test_a_score_leaves_out_records_without_a_label(scoring):
    frame, neighbour = large(), large()
    neighbour.at[0, "label"] = "perhaps"
    model = pipeline(epsilon=np.inf).fit(frame, "label")
    _, before, _ = scored_tables(model, frame, scoring=scoring)
    _, after, _ = scored_tables(model, neighbour, scoring=scoring)
    assert (before - after).min() >= 0
    assert (before - after).sum() == 1
    assert before.sum() == len(frame)
    neighbour.loc[1:300, "label"] = None
    found = private_score(model, neighbour, "label", scoring=scoring, epsilon=np.inf)
    rest = neighbour.loc[301:].reset_index(drop=True)
    expected = private_score(model, rest, "label", scoring=scoring, epsilon=np.inf)
    assert found.value == pytest.approx(expected.value)


def test_the_number_of_labelled_records_is_not_public_in_a_score():
    # The interval of a score must not use the number of records that have a label.
    frame = large()
    model = pipeline(epsilon=np.inf).fit(frame, "label")
    with patch("skdirdp.model_selection.scoring.estimate_score") as estimate, suppress(TypeError):
        private_score(model, frame, "label")
    assert estimate.call_args.kwargs["n_records"] is None


@pytest.mark.parametrize("by_name", [True, False])
def test_a_score_of_a_classifier_with_a_schema_protects_its_persons(by_name):
    frame = large()
    sigmas = []
    for schema in (SCHEMA, PERSONS):
        model = PrivateTableClassifier(schema, epsilon=9.0).fit(frame, "label")
        y = "label" if by_name else frame["label"].to_numpy()
        with patch.object(GaussianMechanism, "noisy", autospec=True) as noisy:
            noisy.side_effect = lambda self, table, *others: np.array(table)
            score = private_score(model, frame, y)
        sigmas.append(noisy.call_args.args[0].sigma)
        assert score.privacy.unit.is_person == (schema is PERSONS)
        assert noisy.call_args.args[1].sum() <= len(frame)
    assert sigmas[1] == pytest.approx(2 * sigmas[0])


def test_a_declared_sensitivity_or_a_splitter_is_refused_for_persons():
    from sklearn.model_selection import ShuffleSplit

    frame, recorder = large(), Recorder()
    model = pipeline(PERSONS, model=DirichletCategoricalNB(n_samples=1200))
    scorer = make_private_scorer(lambda *_: 0.5, low=0, high=1, sensitivity=0.1)
    with pytest.raises(ValueError, match="a value for each record"):
        PrivateGridSearchCV(model, GRID, scoring=scorer, accountant=recorder).fit(frame, "label")
    with pytest.raises(ValueError, match="a value for each record"):
        private_score(
            model.fit(frame, "label"), frame, "label", scoring=scorer, accountant=recorder
        )
    for cv in (ShuffleSplit(n_splits=1), True, 1):
        with pytest.raises((TypeError, ValueError), match="cv must be an integer"):
            PrivateGridSearchCV(model, GRID, cv=cv, accountant=recorder).fit(frame, "label")
    assert recorder.charges == []


def test_candidates_must_protect_the_same_persons():
    model = pipeline(PERSONS, model=DirichletCategoricalNB(n_samples=1200))
    for other in (SCHEMA, PERSONS.replace(max_rows=3)):
        grid = {"schemaencoder__schema": [PERSONS, other]}
        with pytest.raises(ValueError, match="the same person, max_rows"):
            PrivateGridSearchCV(model, grid).fit(large(), "label")
    finer = PERSONS.replace(columns={**COLUMNS, "age": Schema.numbers(0, 100, bins=10)})
    grid = {"schemaencoder__schema": [PERSONS, finer]}
    search = PrivateGridSearchCV(model, grid, epsilon=3.0).fit(large(), "label")
    assert search.privacy_.unit.max_rows == 2


def test_a_name_is_no_label_without_a_schema():
    X = np.zeros((20, 1), int)
    model = DirichletCategoricalNB(classes=[0, 1], n_categories=1)
    with pytest.raises(TypeError, match=r"schema\.encoder\(\)"):
        private_score(model.fit(X, np.arange(20) % 2), X, "label")


# The encoder alone -----------------------------------------------------------------


def test_the_encoder_is_cloned_pickled_and_returns_frames():
    frame = visits()
    encoder = clone(SCHEMA.encoder()).set_output(transform="pandas").fit(frame)
    found = pickle.loads(pickle.dumps(encoder)).transform(frame)
    assert list(found.columns) == ["age", "sex", "day", "label"]
    assert found.index.equals(frame.index)
    np.testing.assert_array_equal(found, SCHEMA.encoder().fit_transform(frame))


def test_the_encoder_accepts_arrays_in_the_order_of_the_schema():
    frame = visits()
    expected = SCHEMA.encoder().fit_transform(frame)
    shuffled = frame[["label", "sex", "patient", "day", "age"]]
    for table in (frame.to_numpy(object), frame.to_numpy(object).tolist(), shuffled):
        np.testing.assert_array_equal(SCHEMA.encoder().fit_transform(table), expected)
    with pytest.raises(ValueError, match="X must have 5 columns"):
        SCHEMA.encoder().fit(frame.to_numpy(object)[:, :4])


def test_the_encoder_refuses_undeclared_and_missing_columns_by_name():
    frame = visits()
    advice = r"X\[list\(schema\)\].*Schema\.ignore\(\):\n  'extra': is not declared"
    with pytest.raises(ValueError, match=advice):
        SCHEMA.encoder().fit(frame.assign(extra=1))
    with pytest.raises(ValueError, match=r"it lacks .*'sex'"):
        SCHEMA.encoder().fit(frame).transform(frame.drop(columns="sex"))


def test_the_encoder_works_in_a_pipeline_of_scikit_learn():
    frame = visits()
    X, y = frame.drop(columns="label"), frame["label"]
    model = DirichletCategoricalNB(classes=["no", "yes"], n_categories=[5, 3, 11])
    assert make_pipeline(SCHEMA.encoder(), model).fit(X, y).predict(X).shape == (N,)
