"""scikit-learn's own tests of its searches, with our searches at infinite epsilon.

Most of them search over estimators that are not private. The check that refuses such estimators is
left out here. Tests that rest on what a private search cannot have are listed with the reason.
"""

import inspect

import pytest
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.model_selection.tests import test_search as theirs

from skdirdp.model_selection import PrivateGridSearchCV, PrivateRandomizedSearchCV

from .sklearn_cases import cases, functions_of, run

#: Tests that make no sense for a private search, by the reason.
EXCEPTIONS = {
    "there is no cv_results_: only the best run is charged": """
        test_custom_run_search test_cv_results_dtype_issue_29074 test_cv_results_multi_size_array
        test_grid_search test_grid_search_cv_results test_grid_search_pipeline_steps
        test_gridsearch_nd test_random_search_cv_results test_search_cv_results_none_param
        test_search_cv_results_rank_tie_breaking test_search_cv_timing
        test_search_train_scores_set_to_false test_search_with_2d_array
        test_search_with_estimators_issue_29157 test_trivial_cv_results_attr
        test_stochastic_gradient_loss_param
    """,
    "cv gives one split: each split would be a private fit of its own": """
        test_X_as_list test_y_as_list test_empty_cv_iterator_error test_grid_search_groups
        test_grid_search_cv_splits_consistency test_grid_search_with_multioutput_data
        test_random_search_bad_cv test_search_cv_sample_weight_equivalence test_search_default_iid
    """,
    "the split is drawn at random, and ties are broken at random": """
        test_grid_search_no_score test_grid_search_sparse test_predict_proba_disabled
        test_grid_search_when_param_grid_includes_range
    """,
    "scores need a public range, and there is one score": """
        test_callable_multimetric_clf_all_fits_fail test_callable_multimetric_confusion_matrix
        test_callable_multimetric_error_failing_clf test_callable_multimetric_error_on_invalid_key
        test_callable_multimetric_same_as_list_of_strings
        test_callable_single_metric_same_as_single_string test_grid_search_correct_score_results
        test_grid_search_cv_results_multimetric test_grid_search_score_method
        test_grid_search_sparse_scoring test_gridsearch_no_predict
        test_multi_metric_search_forwards_metadata test_random_search_cv_results_multimetric
        test_refit test_searchcv_raise_warning_with_non_finite_score test_unsupervised_grid_search
        test_unsupported_sample_weight_scorer test_search_estimator_param test_no_refit
        test_search_cv_score_samples_method
    """,
    "refit is True, False, 'all' or 'run': a function would see all scores": """
        test_refit_callable test_refit_callable_invalid_type test_refit_callable_multi_metric
        test_refit_callable_out_bound
    """,
    "errors and warnings of a run may contain data, and a failed run counts as a run": """
        test_SearchCV_with_fit_params test_grid_search_classifier_all_fits_fail
        test_grid_search_failing_classifier test_grid_search_failing_classifier_raise
        test_grid_search_precomputed_kernel_error_nonsquare test_search_cv_score_samples_error
    """,
    "there are no precomputed kernels of private estimators": """
        test_grid_search_precomputed_kernel
        test_search_cv_pairwise_property_equivalence_of_precomputed
    """,
    "a callback would see exact scores": """
        test_search_callbacks_no_propagation test_search_callbacks_propagation
        test_search_callbacks_receive_sample_weight test_search_callbacks_receive_search_instance
        test_search_callbacks_with_partial_fit_failures
    """,
    "score takes no metadata": "test_score_rejects_params_with_no_routing_enabled",
    "containers of labels are those of scikit-learn, not any object": "test_pandas_input",
    "the parameter Xt of scikit-learn 1.6 is deprecated": "test_inverse_transform_Xt_deprecation",
    "the progress is a bar": "test_search_cv_verbose_3",
    "the page of a fitted search shows the private parameters": "test_search_html_repr",
}
NOT_RUN = {name for names in EXCEPTIONS.values() for name in names.split()}
# Parameters that ours do not have. They are accepted and not used.
UNUSED = ("error_score", "pre_dispatch", "return_train_score")


def without_noise(name, ours, theirs):
    """Return our class with the signature of theirs, and no noise."""
    signature = inspect.signature(theirs)

    def __init__(self, *args, **kwargs):
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        for unused in UNUSED:
            setattr(self, unused, given.arguments.pop(unused))
        cv = given.arguments.pop("cv")
        given.arguments["cv"] = 5 if cv is None else cv
        ours.__init__(self, **given.arguments, epsilon=float("inf"))

    __init__.__signature__ = inspect.signature(theirs.__init__)
    return type(name, (ours,), {"__init__": __init__})


# Pickles find the classes by these names.
ExactGrid = without_noise("ExactGrid", PrivateGridSearchCV, GridSearchCV)
ExactRandomized = without_noise("ExactRandomized", PrivateRandomizedSearchCV, RandomizedSearchCV)
CLASSES = {GridSearchCV: ExactGrid, RandomizedSearchCV: ExactRandomized}


def as_private(value):
    """Return a class, or an instance of one, with ours in the place of theirs."""
    for original, ours in CLASSES.items():
        if value is original:
            return ours
        if type(value) is original:
            return ours(**value.get_params(deep=False))
    return value


def is_about_ours(function):
    if function.__name__ in NOT_RUN or "array_api" in function.__name__:
        return False
    marks = getattr(function, "pytestmark", ())
    source = inspect.getsource(function)
    return "SearchCV" in source or any("SearchCV" in str(mark.args) for mark in marks)


@pytest.mark.parametrize(("function", "values"), [*cases(functions_of(theirs, is_about_ours), {})])
def test_scikit_learns_tests_of_its_searches_pass(function, values, request, monkeypatch):
    for original, ours in CLASSES.items():
        monkeypatch.setattr(theirs, original.__name__, ours)
    monkeypatch.setattr("skdirdp.model_selection.runs.rehearse", lambda *args: (None, []))
    run(function, {name: as_private(value) for name, value in values.items()}, request)


def test_scikit_learn_tests_its_searches_as_much_as_we_think():
    names = {name for name, _ in functions_of(theirs, is_about_ours)}
    assert len(names) > 12
    everything = {name for name, _ in functions_of(theirs, lambda function: True)}
    assert len(NOT_RUN & everything) > 40  # versions of scikit-learn differ
