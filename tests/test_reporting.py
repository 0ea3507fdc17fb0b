"""Statements, pages and notebooks: claims, and escaping of texts."""

import fcntl
import inspect
import os
import re
import sys
import warnings
from fractions import Fraction
from html.parser import HTMLParser

import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skdirdp
from skdirdp import (
    DirichletBernoulliNB,
    DirichletCategoricalNB,
    DirichletComplementNB,
    DirichletHistogramTransformer,
    DirichletNB,
    PrivacyAccountant,
    PrivacyLeakWarning,
    PrivacyReport,
    PrivateBayesNet,
    PrivateBayesNetMLE,
    PrivateCountVectorizer,
    PrivateDirichletPosterior,
    make_private_pipeline,
)
from skdirdp.accounting import AllOf, NoPrivacy, OneOf, PureDP, RenyiDP, RepeatedSelection
from skdirdp.displays import LedgerDisplay
from skdirdp.displays.privacy import evenly_spaced
from skdirdp.mechanisms import DirichletMechanism, GaussianMechanism, JointMechanism
from skdirdp.model_selection import PrivateGridSearchCV
from skdirdp.reporting.pages import Markup, ledger_figure, profile_figure, tag
from skdirdp.reporting.redact import looks_like_database_url, without_password
from skdirdp.reporting.statements import (
    Claim,
    LedgerFacts,
    factor_up,
    ledger_statement,
    model_statement,
    number,
    rounded_down,
    rounded_up,
    visible,
)

MECHANISM = DirichletMechanism(r=0.5, alpha=5.0)
POWER = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def exact(text: str) -> Fraction:
    """The number that a text shows."""
    if "10" in text and any(character in text for character in "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"):
        leading, _, power = text.rpartition("10")
        leading = leading.removesuffix(" × ") or "1"
        return Fraction(leading) * Fraction(10) ** int(power.translate(POWER))
    return Fraction(text)


# Numbers


@given(st.floats(min_value=0, allow_infinity=False, allow_nan=False))
def test_a_number_that_is_rounded_up_is_never_below_and_hardly_above(value):
    up, down = exact(rounded_up(value)), exact(rounded_down(value))
    assert down <= Fraction(value) <= up
    assert up - down <= max(Fraction(value) / 500, Fraction(0))


@given(st.floats(min_value=0, max_value=2000))
def test_the_factor_is_never_below_the_exponential(epsilon):
    with mpmath.workdps(400):
        truth = mpmath.exp(mpmath.mpf(epsilon))
        shown = exact(factor_up(epsilon))
        assert mpmath.mpf(shown.numerator) / shown.denominator >= truth
        assert mpmath.mpf(shown.numerator) / shown.denominator <= truth * 1.0101


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_a_chosen_number_is_shown_with_all_its_digits(value):
    assert float(number(value)) == value


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1.0, "1"), (0.78651, "0.7866"), (0.00012345, "0.0001235"), (1e-9, "1.001 × 10⁻⁹")],
)
def test_rounded_numbers_have_few_digits(value, shown):
    assert rounded_up(value) == shown


def test_an_infinite_number_is_called_that():
    shown = rounded_up(np.inf), factor_up(np.inf), number(np.inf)
    assert set(shown) == {"infinite"}


@given(st.text())
def test_a_text_of_others_has_no_character_that_does_not_show(text):
    shown = visible(text)
    assert all(c.isprintable() or c in "\u200c\u200d\u00a0\u2009" for c in shown)
    shown.encode("utf-8")


# Sentences


def test_the_statement_names_the_guarantee_the_change_and_the_factor():
    sentence = model_statement(Claim(1.0, 1e-5, None, "replace"), [])
    assert "(ε = 1, δ = 0.00001)-differentially private" in sentence
    assert "the replacement of one record by any other" in sentence
    assert "at most e^ε = 2.72, up to an additive δ = 0.00001" in sentence


@pytest.mark.parametrize(
    ("adjacency", "unit", "change"),
    [
        ("add_remove", None, "adding or removing one record."),
        ("add_remove", "person", "adding or removing the data of one person."),
        ("replace", "one person with up to 3 records", "of one person with up to 3 records by"),
        ("replace", "record", "the replacement of one record by any other."),
        ("replace_person", None, "the replacement of the data of one person by any other."),
        ("replace_vector(b=1.0)", None, "within its limits, replace_vector(b=1.0)."),
    ],
)
def test_the_statement_names_the_protected_unit_and_the_change(adjacency, unit, change):
    assert change in model_statement(Claim(1.0, 1e-5, None, adjacency, unit), [])


def test_a_unit_with_a_relative_clause_ends_with_a_comma():
    unit = "one person, of whom up to 2 records are counted"
    sentence = model_statement(Claim(1.0, 1e-5, None, "replace", unit), [], n_records=500)
    assert "the data of one person, of whom up to 2 records are counted, by any" in sentence
    assert "computed from 500 records by" in sentence


def test_a_pure_guarantee_has_no_delta():
    sentence = model_statement(Claim(0.5, 0.0, None, "replace"), [])
    assert "(ε = 0.5)-differentially private" in sentence
    assert "δ" not in sentence


def test_a_renyi_guarantee_is_explained_by_a_valid_epsilon_and_delta():
    sentence = model_statement(Claim(0.1, None, 5.0, "replace"), [])
    assert "(λ = 5, ε = 0.1)-Rényi differentially private" in sentence
    converted = RenyiDP(5.0, 0.1).to_approximate(1e-5).epsilon
    shown = float(re.search(r"\(ε = ([\d.]+)\)", sentence)[1])
    assert converted <= shown <= converted * 1.001
    factor = float(re.search(r"at most ([\d.]+),", sentence)[1])
    assert np.exp(converted) <= factor <= 1.01 * np.exp(converted)


def test_the_statement_ends_with_what_is_not_covered():
    sentence = model_statement(Claim(1.0, 1e-5, None, "replace"), ["classes", "random_state"])
    assert "Not covered: classes, which was taken from the data." in sentence
    assert "anyone who knows it can remove the noise" in sentence


@pytest.mark.parametrize("epsilon", [1e6, 1.1e6, 1e9, 1e13, 1e99, 1e308])
def test_a_huge_epsilon_has_a_statement(epsilon):
    sentence = model_statement(Claim(epsilon, 1e-5, None, "replace"), [])
    assert "by a factor of at most e^ε = " in sentence


def test_an_infinite_epsilon_is_no_guarantee():
    sentence = model_statement(Claim(np.inf, 1e-5, None, "replace"), [])
    assert "no guarantee of differential privacy" in sentence
    assert "(ε" not in sentence


TOTAL = Claim(0.7, 1e-5, None, "replace", chosen=False)
LIMIT = Claim(3.0, 1e-5, None, "replace")


def test_a_plan_fixed_beforehand_states_the_total_and_its_condition():
    sentence = ledger_statement(LedgerFacts("study", 3, LIMIT, TOTAL, adaptive=False))
    assert "(ε = 0.7, δ = 0.00001)" in sentence
    assert "if every budget was fixed before the first publication" in sentence


def test_the_statement_of_an_adaptive_ledger_is_its_limit():
    sentence = ledger_statement(LedgerFacts("study", 3, LIMIT, TOTAL, adaptive=True))
    assert "(ε = 3, δ = 0.00001)" in sentence
    assert "0.7" not in sentence
    assert "however the budgets were chosen" in sentence


def test_the_statement_of_a_ledger_excludes_leaks_of_its_models():
    accountant = PrivacyAccountant(epsilon=3.0)
    model = DirichletBernoulliNB(accountant=accountant, random_state=0)
    with pytest.warns(PrivacyLeakWarning):
        model.fit([[0, 1], [1, 0]], [0, 1])
    assert model.privacy_.not_covered == ("classes", "random_state")
    assert "Not covered" in model.privacy_.statement()
    assert "Not covered: what a published result took from the data" in accountant.statement()


@pytest.mark.parametrize(("limit", "admitted"), [(None, True), (LIMIT, False)])
def test_adaptive_charges_without_a_limit_have_no_statement(limit, admitted):
    facts = LedgerFacts(None, 3, limit, TOTAL, adaptive=True, admitted=admitted)
    sentence = ledger_statement(facts)
    assert "(ε = 3" not in sentence
    assert "Nothing can be stated for adaptively chosen budgets" in sentence


# Pages


class Tags(HTMLParser):
    """Every tag and attribute of a page."""

    def __init__(self, page):
        super().__init__()
        self.seen, self.attributes, self.open = set(), [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def assert_loads_nothing(page):
    tags = Tags(page)
    assert not tags.seen & {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
    names = {name for name, _ in tags.attributes}
    assert not [name for name in names if name.startswith("on")]
    assert not names & {"src", "action", "srcset"}
    # A plot refers to its own parts, and to nothing else.
    links = [value for name, value in tags.attributes if name in ("href", "xlink:href")]
    links += re.findall(r"url\(([^)]*)", page)
    ids = {f"#{value}" for name, value in tags.attributes if name == "id"}
    assert set(links) <= ids
    assert "@import" not in page
    assert "default-src &#x27;none&#x27;" in page
    return tags


ATTACKS = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</style><b>", "'&amp;"]


@pytest.mark.parametrize("text", ATTACKS)
def test_a_text_inside_markup_stays_a_text(text):
    made = tag("p", text, title=text)
    assert Tags(made).seen == {"p"}
    assert dict(Tags(made).attributes) == {"title": text}


def test_text_is_escaped_and_markup_is_not():
    assert tag("p", tag("b", "x"), "<b>") == "<p><b>x</b>&lt;b&gt;</p>"
    assert isinstance(tag("p"), Markup)


X = np.random.default_rng(0).integers(0, 3, (300, 2))
Y = (X[:, 0] > 0).astype(int)
FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
PUBLIC = {"classes": [0, 1]}


def categorical(**more):
    return DirichletCategoricalNB(n_categories=3, **PUBLIC, **more)


def network(**more):
    states = {"a": [0, 1, 2], "b": [0, 1, 2]}
    return PrivateBayesNetMLE([("a", "b")], states=states, **more)


def steps():
    return (
        DirichletHistogramTransformer(3, encode="ordinal", bounds=(0, 3)),
        DirichletCategoricalNB(n_categories=3, **PUBLIC),
    )


#: A fit of every private estimator, by its class.
FITS = {
    "DirichletNB": lambda **more: DirichletNB(max_count=2, max_total=4, **PUBLIC, **more).fit(X, Y),
    "DirichletComplementNB": lambda **more: DirichletComplementNB(
        max_count=2, max_total=4, **PUBLIC, **more
    ).fit(X, Y),
    "DirichletBernoulliNB": lambda **more: DirichletBernoulliNB(**PUBLIC, **more).fit(X, Y),
    "PrivateCountVectorizer": lambda **more: PrivateCountVectorizer(**more).fit(["word"] * 900),
    "DirichletCategoricalNB": lambda **more: categorical(**more).fit(X, Y),
    "DirichletHistogramTransformer": lambda **more: DirichletHistogramTransformer(
        bounds=(0, 3), **more
    ).fit(X),
    "PrivateBayesNet": lambda **more: PrivateBayesNet({"a": [0, 1, 2], "b": [0, 1, 2]}, **more).fit(
        FRAME
    ),
    "PrivateBayesNetMLE": lambda **more: network(**more).fit(FRAME),
    "PrivateCrosstab": lambda **more: skdirdp.PrivateCrosstab(
        {"a": [0, 1, 2], "b": [0, 1, 2]}, **more
    ).fit(FRAME),
    "PrivateTableClassifier": lambda **more: skdirdp.PrivateTableClassifier(
        skdirdp.Schema({"a": [0, 1, 2], "b": [0, 1, 2]}), **more
    ).fit(FRAME, y="b"),
    "PrivateDirichletPosterior": lambda **more: PrivateDirichletPosterior(
        mechanism="lshist", **more
    ).fit_counts([7, 2, 1]),
    "PrivatePipeline": lambda **more: make_private_pipeline(*steps(), **more).fit(X, Y),
}


def test_every_private_estimator_is_among_those_that_are_reported():
    classes = [getattr(skdirdp, name) for name in skdirdp.__all__]
    private = {each.__name__ for each in classes if inspect.isclass(each) and hasattr(each, "fit")}
    assert private - set(FITS) == set(), "each estimator needs a fit in FITS"


@pytest.mark.parametrize("epsilon", [1.0, np.inf])
@pytest.mark.parametrize("name", FITS)
def test_every_estimator_states_and_reports_its_guarantee(name, epsilon, tmp_path):
    privacy = FITS[name](epsilon=epsilon).privacy_
    sentence = privacy.statement()
    claimed = "(ε = 1" in sentence
    assert claimed == np.isfinite(epsilon)
    path = privacy.report(tmp_path / "model.html")
    page = (tmp_path / "model.html").read_text(encoding="utf-8")
    assert path == str(tmp_path / "model.html")
    assert_loads_nothing(page)
    assert ("no guarantee" in page) == np.isinf(epsilon)
    assert ("<svg" in page) == np.isfinite(epsilon)
    Tags(privacy._repr_html_())


@pytest.mark.parametrize("name", ["DirichletNB", "PrivateBayesNetMLE", "PrivatePipeline"])
def test_a_renyi_budget_and_the_other_adjacency_are_reported_too(name, tmp_path):
    more = {"order": 5.0, "adjacency": "add_remove"}
    if name != "PrivatePipeline":
        more["n_samples"] = 300
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        privacy = FITS[name](**more).privacy_
    assert "(λ = 5, ε = 1)-Rényi" in privacy.statement()
    assert "the presence or absence of one record" in privacy.statement()
    privacy.report(tmp_path / "model.html")
    assert_loads_nothing((tmp_path / "model.html").read_text(encoding="utf-8"))


def test_a_pipelines_page_names_its_steps(tmp_path):
    FITS["PrivatePipeline"]().privacy_.report(tmp_path / "model.html")
    page = (tmp_path / "model.html").read_text(encoding="utf-8")
    assert "dirichlethistogramtransformer" in page
    assert "dirichletcategoricalnb" in page


def test_leaked_parameters_are_on_the_page(tmp_path):
    report = PrivacyReport(1.0, 1e-5, None, "replace", ((MECHANISM, 2),), ("<b>classes</b>",))
    report.report(tmp_path / "model.html")
    page = (tmp_path / "model.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;classes&lt;/b&gt;, which was taken from the data" in page
    assert "b" not in Tags(page).seen


@pytest.mark.parametrize("mechanisms", [(), ((NoPrivacy(), 1),), ((PureDP(800.0), 3),)])
def test_a_model_of_nothing_or_without_noise_has_a_page(mechanisms, tmp_path):
    epsilon = np.inf if mechanisms else 1.0
    PrivacyReport(epsilon, 1e-5, None, "replace", mechanisms).report(tmp_path / "model.html")
    assert_loads_nothing((tmp_path / "model.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize("epsilon", [1e20, 1e308])
def test_a_ledger_with_a_huge_limit_has_a_page(epsilon, tmp_path):
    accountant = PrivacyAccountant(epsilon=epsilon)
    accountant.charge(PureDP(0.1))
    accountant.report(tmp_path / "page.html")
    assert_loads_nothing((tmp_path / "page.html").read_text(encoding="utf-8"))


def test_a_page_may_be_written_into_a_pipe_by_the_number_of_its_file():
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 1 << 20)
    with os.fdopen(read, encoding="utf-8") as pipe:
        PrivacyReport(1.0, 1e-5, None, "replace", ((MECHANISM, 1),)).report(f"/dev/fd/{write}")
        os.close(write)
        assert pipe.read().startswith("<!doctype html>")


def test_a_page_is_its_owners_alone_and_replaces_the_old_one_whole(tmp_path):
    path = tmp_path / "model.html"
    path.write_text("old")
    report = PrivacyReport(1.0, 1e-5, None, "replace", ((MECHANISM, 1),))
    report.report(path)
    assert path.stat().st_mode & 0o077 == 0
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [each.name for each in tmp_path.iterdir()] == ["model.html"]
    with pytest.raises(OSError, match="No such file"):
        report.report(tmp_path / "missing" / "model.html")


# Plots


def coordinates(figure: str) -> str:
    """Return all coordinates of a plot."""
    attributes = Tags(figure).attributes
    places = [value for name, value in attributes if name in ("d", "x", "y", "transform")]
    assert places
    return " ".join(places)


def figure_of_totals(totals, limit=None, n_charges=None):
    n_charges = n_charges or len(totals)
    return ledger_figure(lambda _: totals, n_charges, len(totals), limit, "δ = 0", "caption")


def test_a_drawn_total_is_never_below_the_truth_between_two_points():
    # After 10 charges 1 is used, after 20 charges 2: from charge 11 on, 2 is drawn.
    pytest.importorskip("matplotlib")
    display = LedgerDisplay(range(1, 21), None, np.array([9, 19]), np.array([1.0, 2.0])).plot()
    assert display.line_.get_drawstyle() == "steps-pre"
    np.testing.assert_array_equal(display.line_.get_xydata(), [[0, 0], [10, 1], [20, 2]])


@pytest.mark.parametrize("limit", [None, 1.0, 1e308])
@pytest.mark.parametrize("totals", [[0.0], [np.inf], [1e-12], [5e300], [0.5, np.inf, np.inf]])
def test_extreme_totals_are_drawn_within_the_plot(totals, limit):
    pytest.importorskip("matplotlib")
    figure = figure_of_totals(totals, limit)
    assert "nan" not in coordinates(figure)
    assert "inf" not in coordinates(figure)
    assert ("infinite from here on" in figure) == (np.inf in totals)


@pytest.mark.parametrize("without_plots", [False, True])
def test_totals_that_are_not_all_shown_end_the_caption(without_plots, monkeypatch):
    if without_plots:
        monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "3 totals are shown" in figure_of_totals([1.0, 2.0, 3.0], n_charges=9)
    assert "are shown" not in figure_of_totals([1.0, 2.0, 3.0])


class Curve:
    """A profile through given points."""

    def __init__(self, end, deltas):
        self.end, self.deltas = end, deltas

    def epsilon(self, delta):
        return self.end

    def delta(self, epsilons):
        return np.interp(epsilons, np.linspace(0, self.end, len(self.deltas)), self.deltas)


@pytest.mark.parametrize(
    ("end", "deltas", "mark"),
    [
        (1.0, [1e-3, 0.0], (1.0, 0.0)),
        (1.0, [0.0, 0.0], None),
        (1e-9, [1e-300, 1e-320], (1e-10, 1e-30)),
        (500.0, [1.0, 0.9], (400.0, 0.5)),
    ],
)
def test_extreme_profiles_are_drawn_within_the_plot(end, deltas, mark):
    pytest.importorskip("matplotlib")
    figure = profile_figure([Curve(end, deltas)], mark, "budget", "caption", 2)
    assert "nan" not in coordinates(figure)
    assert "inf" not in coordinates(figure)
    assert ("budget" in figure) == (mark is not None)


def test_without_matplotlib_a_page_has_tables_of_the_same_numbers(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    accountant = PrivacyAccountant(epsilon=2.0, adaptive=False)
    accountant.charge(MECHANISM)
    accountant.charge(PureDP(0.1))
    accountant.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert_loads_nothing(page)
    assert "<svg" not in page
    for total in accountant.running_total():
        assert f">{rounded_up(total)}</td>" in page
    cells = re.findall(r">([^<]*)</td>", profile_figure([MECHANISM], None, "", ""))
    epsilons, deltas = map(float, map(exact, cells[::2])), map(exact, cells[1::2])
    assert all(MECHANISM.delta(each) <= delta for each, delta in zip(epsilons, deltas, strict=True))


def test_a_plot_is_reproducible_and_leaves_the_style_of_the_user(monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.close("all")
    first = figure_of_totals([1.0, 2.0])
    with matplotlib.rc_context({"axes.edgecolor": "red", "font.size": 30.0}):
        before = dict(matplotlib.rcParams)
        assert figure_of_totals([1.0, 2.0]) == first
        assert dict(matplotlib.rcParams) == before
    assert plt.get_fignums() == []


def test_ids_of_two_plots_on_a_page_differ(tmp_path):
    pytest.importorskip("matplotlib")
    accountant = PrivacyAccountant(epsilon=2.0)
    accountant.charge(MECHANISM)
    accountant.report(tmp_path / "page.html")
    tags = assert_loads_nothing((tmp_path / "page.html").read_text(encoding="utf-8"))
    ids = [value for name, value in tags.attributes if name == "id"]
    assert len(ids) == len(set(ids))


@given(st.integers(1, 10**6), st.integers(2, 60))
def test_chosen_numbers_are_few_and_end_with_the_last(size, most):
    chosen = evenly_spaced(size, most)
    assert len(chosen) <= most
    assert chosen[-1] == size - 1
    assert chosen[0] >= 0


# Passwords


@pytest.mark.parametrize(
    "address",
    [
        "postgresql+psycopg://ana:s3kret@host/db",
        "postgresql://ana:s3kret@host:5432/db?sslmode=require",
        "postgresql://ana:s3kret@x@host/db",
        "postgresql://:s3kret@host/db",
        "postgresql://ana@host/db?password=s3kret&x=1",
        "host=h password='s3kret x' user=ana",
        "cannot connect: postgresql://ana:s3kret/x@host/db refused",
        "postgres:/ana:s3kret@host/db",
        "postgresql://ana@host/db?sslpassword=s3kret",
        "postgresql://ana@host/db?PASSWORD=s3kret",
    ],
)
def test_no_password_is_shown(address):
    assert "s3kret" not in without_password(address)
    assert "ana" in without_password(address) or "ana" not in address


@pytest.mark.parametrize(
    "name",
    [
        " postgresql://ana:s3kret@host/db",
        "\ufeffpostgresql+psycopg://ana:s3kret@host/db",
        "postgres:/ana:s3kret@host/db",
        "Postgresql:ana:s3kret@host/db",
        "mysql:/ana:s3kret@host/db",
        "postgresql%3A//ana:s3kret@host/db",
        "//ana:s3kret@host/db",
        "ana:s3kret@host/db",
        "'mysql//ana:s3 kret@host/db",
        "postgresql//ana/s3kret@host/db",
        "/home/ana/postgresql:/ana:s3kret@host/db",
        "host=h password=s3kret",
        "user=ana",
        "dbname = d sslpassword = s3kret",
        "x.sqlite?password=s3kret",
        "PGPASSWORD=s3kret",
    ],
)
def test_names_like_addresses_are_recognised(name):
    assert looks_like_database_url(name)


@pytest.mark.parametrize(
    "name",
    [
        "study.sqlite",
        "/data/2026/study.sqlite",
        "50% of? my #files & more/ledger",
        "/runs/user=5/host=a/ledger.sqlite",
        "C:/data/study.sqlite",
        "C:\\data\\ana@host\\study.sqlite",
        "/mail/ana@host/ledger.sqlite",
        "ana@host.sqlite",
        "/backup/10:30 by ana@host/ledger.sqlite",
        "bypass=1/ledger.sqlite",
        "postgres ledger.sqlite",
        "/images/postgres:16/ledger.sqlite",
        "./user=ana",
    ],
)
def test_the_names_of_files_are_no_addresses(name):
    assert not looks_like_database_url(name)


def test_searches_are_described_in_words():
    fits = [JointMechanism(((DirichletMechanism(1.0, alpha), 3),)) for alpha in range(20, 26)]
    run = OneOf((*fits[:1], GaussianMechanism(5.0)))
    assert str(run) == (
        "either 3 x DirichletMechanism(r=1, alpha=20) or GaussianMechanism(sigma=5)"
    )
    search = AllOf((RepeatedSelection(run, 0.1), OneOf(fits[1:2])))
    assert str(search) == (
        f"the best of 10 runs on average, each {run}, then 3 x DirichletMechanism(r=1, alpha=21)"
    )
    assert str(OneOf(tuple(fits))).endswith(" or one of 3 others")


def test_the_notebook_page_of_a_search_contains_no_nested_objects():
    X = np.random.default_rng(0).integers(3, size=(300, 2))
    model = DirichletCategoricalNB(classes=[0, 1], n_categories=3)
    search = PrivateGridSearchCV(model, {"alpha": [0.1, 1.0]}).fit(X, X[:, 0] % 2)
    page = search.privacy_._repr_html_()
    assert "DirichletMechanism(r=" in page
    for name in ("AllOf", "OneOf", "JointMechanism", "RepeatedSelection"):
        assert name not in page
        assert name not in str(search.privacy_)
