"""Order and warning filters of the example gallery."""

import warnings

from sphinx_gallery.sorting import ExplicitOrder

from skdirdp import PrivacyLeakWarning

ORDER = ExplicitOrder(
    [
        "plot_hospital.py",
        "plot_text.py",
        "plot_synthesis.py",
        "plot_steward.py",
        "plot_tabular.py",
        "plot_grid_search.py",
        "plot_private_search.py",
        "plot_bayes_net.py",
        "plot_histogram.py",
        "plot_scale.py",
        "plot_posterior.py",
    ]
)


def raise_leak_warnings(gallery_conf, name):
    """Raise an error if an example does not set all public parameters."""
    warnings.filterwarnings("error", category=PrivacyLeakWarning)
    # Deprecation warnings between dependencies do not concern readers.
    warnings.filterwarnings("ignore", category=FutureWarning, module="pgmpy")
