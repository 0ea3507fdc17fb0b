"""In which order examples are shown, and what they may not do."""

import warnings

from sphinx_gallery.sorting import ExplicitOrder

from skdirdp import PrivacyLeakWarning

ORDER = ExplicitOrder(
    [
        "plot_text.py",
        "plot_tabular.py",
        "plot_grid_search.py",
        "plot_private_search.py",
        "plot_bayes_net.py",
        "plot_synthesis.py",
        "plot_histogram.py",
        "plot_scale.py",
        "plot_posterior.py",
    ]
)


def leaks_are_errors(gallery_conf, name):
    """Every example gives what is public; one that does not fails."""
    warnings.filterwarnings("error", category=PrivacyLeakWarning)
    # What other packages announce among themselves is not for the reader.
    warnings.filterwarnings("ignore", category=FutureWarning, module="pgmpy")
