"""Constraints of a schema, keys of synthetic records, and types in files."""

import pickle
from copy import copy

import numpy as np
import pandas as pd
import pytest

from skdirdp import PrivateBayesNet, Schema
from skdirdp.inference import combine
from skdirdp.schema.files import csv_text

from .transcripts import fit_beside, squared_distance

COLUMNS = {
    "id": Schema.key(form="P{:05d}"),
    "decile": (1, 10),
    "score": ["Low", "Mid", "High"],
    "start": ("2015-01-01", "2024-12-31"),
    "end": ("2015-01-01", "2024-12-31"),
    "rate": (0.0, 1.0),
    "grade": [1, 2, 3],
    "again": bool,
    "two words": (0, 5),
}
RULES = ["decile <= 3 implies score == 'Low'", "start <= end", "rate is missing or rate > .01"]


def visits(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    decile = rng.integers(1, 11, n)
    start = np.datetime64("2015-01-01") + rng.integers(0, 3000, n)
    return pd.DataFrame(
        {
            "id": np.arange(n),
            "decile": decile,
            "score": np.where(decile <= 3, "Low", np.where(decile <= 7, "Mid", "High")),
            "start": start.astype("M8[s]"),
            "end": (start + rng.integers(0, 300, n)).astype("M8[s]"),
            "rate": np.where(rng.random(n) < 0.3, np.nan, rng.uniform(0.05, 1, n)),
            "grade": rng.integers(1, 4, n),
            "again": rng.random(n) < 0.5,
            "two words": rng.poisson(1, n).clip(0, 5),
        }
    )


@pytest.fixture(scope="module")
def fitted():
    schema = Schema(COLUMNS, constraints=RULES)
    return schema, PrivateBayesNet(schema, epsilon=1.0).fit(visits())


# The language --------------------------------------------------------------------------

ROW = {"decile": 3, "score": "Mid", "start": "2020-01-02", "end": "2020-01-01", "rate": None}
ROW |= {"grade": 2, "again": True, "two words": 4}


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        ("decile <= 3", True),
        ("decile < 3", False),
        ("3 >= decile", True),
        ("1 < decile <= 3", True),
        ("3 < decile <= 5", False),
        ("decile != 3", False),
        ("score == 'Mid'", True),
        ('score != "Mid"', False),
        ("score in ['Low', 'High']", False),
        ("score not in ['Low', 'High']", True),
        ("not score == 'Low'", True),
        ("not not score == 'Low'", False),
        ("start <= end", False),
        ("start > end", True),
        ("start == '2020-01-02'", True),
        ("end < '2020-01-01'", False),
        ("grade >= 2 and decile < 4", True),
        ("grade > 2 or decile < 3", False),
        ("grade < decile", True),
        ("grade == 2", True),
        ("again == True", True),
        ("again == false", False),
        ("`two words` > decile", True),
        # `and` binds more than `or`, and both more than `implies`, which is right-associative.
        ("grade == 2 or grade == 1 and decile == 9", True),
        ("decile <= 3 implies score == 'Low'", False),
        ("decile > 3 implies score == 'Low'", True),
        ("decile == 9 implies decile == 3 implies grade == 9e9", True),
        ("(decile == 9 implies decile == 3) implies grade == 3", False),
        # A comparison with a missing value is unknown, and only what is false is violated.
        ("rate > .5", True),
        ("rate <= .5", True),
        ("not rate > .5", True),
        ("rate > .5 or decile == 9", True),
        ("rate > .5 and decile == 9", False),
        ("rate > .5 implies decile == 9", True),
        ("rate is missing", True),
        ("rate is not missing", False),
        ("not (rate is missing)", False),
    ],
)
def test_constraints_hold_as_written(rule, holds):
    rule = rule.replace("grade == 9e9", "grade == 3")
    schema = Schema(COLUMNS, constraints=[rule])
    assert schema.satisfies(pd.DataFrame([ROW])).tolist() == [holds]


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        ("", "value at the end"),
        ("decile", "a comparison such as"),
        ("decile <", "value at the end"),
        ("(decile < 3", "expected ')'"),
        ("decile < 3)", "unexpected"),
        ("decile is 3", "expected 'missing'"),
        ("3 is missing", "must follow a column"),
        ("income < 3", "'income' is not a column"),
        ("id == 3", "its values are not counted"),
        ("score == 'low'", "'low' is not a category of 'score'"),
        ("score < 'Mid'", "must compare two numbers"),
        ("score == decile", "must compare two numbers"),
        ("start <= decile", "must compare two numbers"),
        ("start <= 'soon'", "must compare two numbers"),
        ("1 < 2", "must contain a column"),
        ("__import__('os').system('true')", "unexpected character"),
        ("decile < 3; start < end", "unexpected character"),
        ("(" * 60 + "decile < 3" + ")" * 60, "nested"),
        ("decile < 3 or " * 1000 + "decile < 3", "at most 10000 characters"),
    ],
)
def test_wrong_constraints_are_errors_of_the_schema(rule, fault):
    with pytest.raises(ValueError, match="constraints must be comparisons") as error:
        Schema(COLUMNS, constraints=[rule])
    assert fault in str(error.value)


def test_constraints_are_a_list_of_strings():
    with pytest.raises(TypeError, match="must be a list of strings; got str"):
        Schema(COLUMNS, constraints="start <= end")
    with pytest.raises(ValueError, match="it is not a string"):
        Schema(COLUMNS, constraints=[3])


def test_schemas_keep_their_constraints(tmp_path):
    schema = Schema(COLUMNS, constraints=RULES)
    schema.save(tmp_path / "schema.toml")
    for same in (
        Schema.load(tmp_path / "schema.toml"),
        pickle.loads(pickle.dumps(schema)),
        eval(repr(schema), {"Schema": Schema}),
    ):
        assert same == schema
        assert same.constraints == tuple(RULES)
    assert schema != schema.replace(constraints=())
    assert schema.select("decile", "start", "end").constraints == ("start <= end",)


# Synthetic records ----------------------------------------------------------------------


def test_all_records_satisfy_the_constraints(fitted):
    schema, model = fitted
    records = model.sample(20_000, random_state=0)
    assert len(records) == 20_000
    assert schema.satisfies(records).all()
    assert not ((records["decile"] <= 3) & (records["score"] != "Low")).any()
    assert not (records["start"] > records["end"]).any()
    assert not (records["rate"] <= 0.01).any()
    assert records["rate"].isna().any()
    assert not Schema(COLUMNS, constraints=["score == 'Low'"]).satisfies(records).all()


def test_constraints_hold_with_conditions(fitted):
    schema, model = fitted
    records = model.sample(500, given={"score": ["Mid", "High"]}, where=lambda r: r["grade"] > 1)
    assert len(records) == 500
    assert (records["decile"] > 3).all()
    assert (records["grade"] > 1).all()
    assert schema.satisfies(records).all()
    with pytest.raises(ValueError, match="constraints of the schema must hold for at least one"):
        model.sample(5, given={"score": "High", "decile": (1, 3)})


def test_constraints_on_names_are_about_the_names_that_are_found():
    columns = {"city": Schema.names(), "size": (0, 9)}
    schema = Schema(columns, constraints=["city == 'Cork' implies size < 5", "city != 'Delft'"])
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"city": rng.choice(["Cork", "Delft"], 4000), "size": rng.integers(0, 10, 4000)}
    )
    records = PrivateBayesNet(schema, epsilon=5.0).fit(X).sample(1000)
    assert set(records["city"]) <= {"Cork", "other"}
    assert (records["size"][records["city"] == "Cork"] < 5).all()


def test_keys_are_new_and_unique(fitted):
    _, model = fitted
    records = model.sample(3000)
    assert list(records) == list(COLUMNS)
    assert records["id"].is_unique
    assert records["id"].iloc[0] == "P00001"
    plain = PrivateBayesNet(Schema({"id": Schema.key(), "a": [0, 1]}))
    X = pd.DataFrame({"a": [0, 1] * 50, "id": range(100)})
    drawn = plain.fit(X).sample(20)
    assert list(drawn) == ["a", "id"]
    assert drawn["id"].tolist() == [f"synthetic-{i}" for i in range(1, 21)]


def test_keys_are_no_unknown_columns_if_another_column_is_left_out():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 400)
    X = pd.DataFrame({"id": range(400), "a": a, "b": a, "c": rng.integers(0, 2, 400), "note": "x"})
    columns = {"id": Schema.key(), "note": Schema.ignore(), "a": [0, 1], "b": [0, 1], "c": [0, 1]}
    model = PrivateBayesNet(Schema(columns), target="a", epsilon=10.0).fit(X)
    assert list(model.sample(5)) == ["id", "a", "b", "c"]
    assert (model.predict(X.drop(columns="c")) == a).mean() > 0.9
    with pytest.raises(ValueError, match=r"has \['d'\], which fit did not see"):
        model.predict(X.rename(columns={"c": "d"}))


@pytest.mark.parametrize("form", ["P", "{", "{}{}", "{x}", "{:d}{:d}", 3])
def test_the_form_of_keys_has_one_field(form):
    with pytest.raises(ValueError, match="form must be a string with one field"):
        Schema.key(form=form)


def assert_survives_files(records, schema, folder):
    """Assert that Parquet, CSV files of pandas and of the command, and pickles keep a table."""
    records.to_parquet(folder / "records.parquet")
    records.to_csv(folder / "plain.csv", index=False)
    (folder / "records.csv").write_text(csv_text(records, schema), newline="")
    for again in (
        pd.read_parquet(folder / "records.parquet"),
        schema.read_csv(folder / "plain.csv"),
        schema.read_csv(folder / "records.csv"),
        pickle.loads(pickle.dumps(records)),
    ):
        pd.testing.assert_frame_equal(again, records)


def test_types_survive_files(fitted, tmp_path):
    schema, model = fitted
    records = model.sample(2000, random_state=0)
    assert_survives_files(records, schema, tmp_path)
    features = records[schema.features]
    pd.testing.assert_frame_equal(schema.decode(schema.encode(records)), features)


TIMES = ("year", "day", "second", "microsecond")
KINDS = {
    "whole": (0, 5),
    "number": (0.0, 1.0),
    "truth": bool,
    "text": ["a", "b"],
    "code": ["00123", "7"],
    "whole code": [1, 2**60],
    "fraction": [1.5, 2.0],
    "mixed fraction": [0, 0.5],
    "other": Schema.categories(["a", "b"], other="rest"),
    "name": Schema.names(),
    "key": Schema.key(),
    "formatted": Schema.dates("01/02/2020", "31/12/2022", format="%d/%m/%Y"),
    **{
        resolution: Schema.dates("2020-01-01", "2022-12-31", resolution=resolution)
        for resolution in TIMES
    },
}


@pytest.mark.parametrize("share_missing", [0.0, 0.2])
def test_each_kind_of_column_survives_files(share_missing, tmp_path):
    rng, n = np.random.default_rng(0), 600
    times = pd.date_range("2020-01-01", "2022-12-31", periods=n)
    columns = {
        "whole": rng.integers(0, 6, n),
        "number": rng.random(n),
        "truth": rng.random(n) < 0.5,
        **{name: rng.choice(["a", "b"], n) for name in ("text", "other", "name")},
        "code": rng.choice(["00123", "7"], n),
        "whole code": rng.choice([1, 2**60], n),
        "fraction": rng.choice([1.5, 2.0], n),
        "mixed fraction": rng.choice([0, 0.5], n),
        "formatted": times.strftime("%d/%m/%Y"),
        **dict.fromkeys(TIMES, times),
        "second": times.tz_localize(
            "America/New_York", ambiguous=True, nonexistent="shift_forward"
        ),
    }
    X = pd.DataFrame(columns).astype(object)
    X = X.mask(rng.random(X.shape) < share_missing, None).assign(key=range(n))
    schema = Schema(KINDS)
    model = PrivateBayesNet(schema, max_parents=0, epsilon=100.0).fit(X)
    records = model.sample(300, random_state=0)
    assert records.drop(columns="key").isna().any().all() == (share_missing > 0)
    assert_survives_files(records, schema, tmp_path)
    for n_samples in (0, 1, 20):  # missing values may be left out
        few = model.sample(n_samples, random_state=0, where=lambda r: r["whole"].notna())
        assert_survives_files(few, schema, tmp_path)


# Numbers --------------------------------------------------------------------------------


def skewed(n=6000, seed=0):
    """Three dependent columns with outliers, many zeros and whole numbers, and one without."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=n)
    spent = np.where(rng.random(n) < 0.6, 0.0, np.exp(0.6 * base + 0.6 * rng.normal(size=n)))
    visits = rng.poisson(np.exp(0.5 * base))
    return pd.DataFrame(
        {"base": base, "spent": spent, "visits": visits, "other": rng.gamma(2, 1, n)}
    )


BOUNDS = {"base": (-8.0, 8.0), "spent": (0.0, 100.0), "visits": (0, 100), "other": (0.0, 50.0)}


def test_correlations_and_deviations_are_kept_within_wide_bounds():
    X = skewed()
    model = PrivateBayesNet(bounds=BOUNDS, epsilon=10.0).fit(X)
    records = model.sample(50_000)
    assert np.abs(records.corr() - X.corr()).to_numpy().max() < 0.05
    assert records.std().to_numpy() == pytest.approx(X.std().to_numpy(), rel=0.1)
    assert (records["spent"] == 0).mean() == pytest.approx((X["spent"] == 0).mean(), abs=0.02)


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_moments_of_opposite_records_are_within_the_charge(adjacency):
    """A record at one corner of the bounds becomes one at another corner, or is removed."""
    X = skewed(200)
    low, high = (pd.Series({n: b[i] for n, b in BOUNDS.items()}) for i in (0, 1))
    for first, second in ((low, high), (high, low), (low, low.where(low != 0, high))):
        X.loc[0] = first.astype(float)
        other = X.copy()
        if adjacency == "replace":
            other.loc[0] = second.astype(float)
        else:
            other = other.drop(index=0)
        model = PrivateBayesNet(bounds=BOUNDS, epsilon=20.0, adjacency=adjacency)
        fitted, _, steps, replayed = fit_beside(model, X, other)
        assert "moments" in fitted.sigma_
        ((charged, _),) = fitted.privacy_.mechanisms
        allowed = charged.contribution.squared_norm(adjacency) / charged.sigma**2
        assert squared_distance(steps, replayed) <= allowed


def test_one_column_of_numbers_has_no_moments():
    X = skewed(500)[["base"]]
    model = PrivateBayesNet(bounds={"base": (-8.0, 8.0)}).fit(X)
    assert "moments" not in model.sigma_
    assert len(model.sample(10)) == 10


# Margins of columns in constraints ------------------------------------------------------

CRASHES = {"airbag": ["front", "none"], "deploy": [0, 1], "speed": (0, 99), "limit": (0, 99)}
CRASH_RULES = ["airbag == 'none' implies deploy == 0", "limit <= speed"]


def crashes(n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    airbag = np.where(rng.random(n) < 0.45, "none", "front")
    speed = rng.integers(0, 100, n)
    return pd.DataFrame(
        {
            "airbag": airbag,
            "deploy": ((airbag == "front") & (rng.random(n) < 0.6)).astype(int),
            "speed": speed,
            "limit": (speed * rng.beta(2, 2, n)).astype(int),
        }
    )


@pytest.fixture(scope="module")
def independent():
    """A network that does not know the dependences of the columns in constraints."""
    schema = Schema(CRASHES, constraints=CRASH_RULES)
    return schema, PrivateBayesNet(schema, max_parents=0, epsilon=100.0).fit(crashes())


def test_columns_in_constraints_keep_their_margins(independent):
    schema, model = independent
    X, records = crashes(), model.sample(100_000, random_state=0)
    assert schema.satisfies(records).all()
    # The margins and the constraint determine the table of both columns.
    for nodes in (["airbag"], ["deploy"], ["airbag", "deploy"]):
        wanted, found = (each.groupby(nodes).size() / len(each) for each in (X, records))
        assert wanted.sub(found, fill_value=0.0).abs().max() < 0.005
    drawn = unconstrained(model).sample(100_000, random_state=1)
    for name in ("speed", "limit"):
        cuts = X[name].quantile([0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98])
        wanted, found = ([(each[name] <= cut).mean() for cut in cuts] for each in (drawn, records))
        assert found == pytest.approx(wanted, abs=0.005)
    wanted, found = (each["speed"].corr(each["limit"]) for each in (drawn, records))
    assert found == pytest.approx(wanted, abs=0.03)


def test_conditions_are_those_of_records_with_constraints(independent):
    schema, model = independent
    X, records = crashes(), model.sample(20_000, given={"airbag": "front"}, random_state=0)
    assert schema.satisfies(records).all()
    wanted = X["deploy"][X["airbag"] == "front"].mean()
    assert records["deploy"].mean() == pytest.approx(wanted, abs=0.02)
    assert (model.sample(2000, given={"deploy": 1})["airbag"] == "front").all()


def test_intervals_for_columns_in_constraints_contain_the_share(independent):
    schema, model = independent
    tables = model.sample_tables(10, random_state=0)
    assert all(schema.satisfies(table).all() for table in tables)
    for name, value in (("airbag", "none"), ("deploy", 1)):
        shares = [(table[name] == value).mean() for table in tables]
        variances = [p * (1 - p) / len(tables[0]) for p in shares]
        found = combine(shares, variances)
        share = (crashes()[name] == value).mean()
        assert found.low < share < found.high
        assert found.high - found.low < 0.03


def test_values_that_no_allowed_record_has_are_left_out():
    columns = {**CRASHES, "speed": Schema.numbers(0, 99, missing=True)}
    schema = Schema(columns, constraints=["airbag != 'none'", "speed is missing or speed < 40"])
    X = crashes(4000)
    X["speed"] = X["speed"].astype(float).where(np.arange(4000) % 5 > 0)
    model = PrivateBayesNet(schema, epsilon=10.0).fit(X)
    with pytest.warns(UserWarning, match="reject more than half"):
        records = model.sample(3000, random_state=0)
    assert schema.satisfies(records).all()
    assert (records["airbag"] == "front").all()
    quality = model.quality()
    assert quality.rejected > 0.5
    assert "reject more than half" in quality.warnings[-1]
    assert "rejected by constraints" in quality.to_html()


def test_measured_errors_are_those_of_records_with_constraints(independent):
    schema, model = independent
    X = crashes()
    quality = model.quality(X, measure_epsilon=np.inf)
    records = model.sample(100_000, random_state=0)
    assert quality.rejected == pytest.approx(
        1 - np.mean(schema.satisfies(unconstrained(model).sample(50_000))), abs=0.01
    )
    errors = quality.errors.set_index("columns")["measured"]
    for nodes in [("airbag",), ("airbag", "deploy"), ("speed", "limit"), ("deploy", "limit")]:
        shares = [model.empirical_marginals(each, [nodes])[nodes] for each in (X, records)]
        error = np.abs(shares[0] - shares[1]).sum() / 2
        assert errors[nodes] == pytest.approx(error, abs=0.02)
    assert errors["airbag", "deploy"] < 0.01
    before = unconstrained(model).quality(X, measure_epsilon=np.inf)
    assert before.errors.set_index("columns")["measured"]["airbag", "deploy"] > 0.1
    assert before.rejected == 0


def unconstrained(model):
    """Return the same model without its constraints."""
    other = copy(model)
    other._constraints_ = ()
    return other
