"""Style of figures and tables."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd

_DPI = 90

#: One look per method in every figure: colour, line style and marker.
STYLES: dict[str, dict] = {
    "no privacy": {"color": "black", "linestyle": "--"},
    "random guess": {"color": "0.6", "linestyle": ":"},
    "Dirichlet, exact": {"color": "#0b61a4", "marker": "o"},
    "Dirichlet, Algorithm 1": {"color": "#6fb1e0", "marker": "o", "linestyle": "--"},
    "Gaussian, smoothed": {"color": "#c1440e", "marker": "s"},
    "Gaussian, clipped": {"color": "#eda17f", "marker": "s", "linestyle": "--"},
    "Laplace, smoothed": {"color": "#2e7d32", "marker": "^"},
    "Laplace, clipped": {"color": "#9ccc9c", "marker": "^", "linestyle": "--"},
    "auto": {"color": "#7b1fa2", "marker": "x", "linestyle": ":"},
    "Dirichlet, post-processed": {"color": "#00838f", "marker": "o"},
    "auto, post-processed": {"color": "#ad1457", "marker": "x"},
    # Other analyses of the same noise
    "exact r, Algorithm 1's α": {"color": "#7b1fa2", "linestyle": "-."},
    "Gohari et al.": {"color": "#8d6e63", "marker": "v", "linestyle": "--"},
    "exact": {"color": "#0b61a4", "marker": "o"},
    "RDP, best order": {"color": "#7b1fa2", "marker": "d", "linestyle": "-."},
    "Algorithm 1, split evenly": {"color": "#6fb1e0", "marker": "o", "linestyle": "--"},
    # Histograms as paper B calibrates them
    "Dirichlet, tCDP": {"color": "#6fb1e0", "marker": "o", "linestyle": "--"},
    "Gaussian, as drawn": {"color": "#eda17f", "marker": "s", "linestyle": "--"},
    # Releases of a posterior
    "LSZhang": {"color": "#9ccc9c", "marker": "v", "linestyle": ":"},
    "LSDim (lapMech)": {"color": "#9ccc9c", "marker": "^", "linestyle": "--"},
    "LSHist (ilapMech)": {"color": "#2e7d32", "marker": "^"},
    "EHD": {"color": "#6fb1e0", "marker": "o", "linestyle": "--"},
    "EHDL (not private)": {"color": "0.6", "marker": "x", "linestyle": ":"},
    "EHDS (expMech smooth)": {"color": "#eda17f", "marker": "s", "linestyle": "--"},
    "EHD, exact": {"color": "#0b61a4", "marker": "o"},
    "EHDS, exact": {"color": "#c1440e", "marker": "s"},
    "EHD, √(1 − π/4)": {"color": "#7b1fa2", "marker": "d", "linestyle": "-."},
}


def panels(n: int, columns: int = 4, width: float = 3.4, height: float = 2.9):
    """A figure with n axes on a grid, and the axes as a flat list."""
    rows = -(-n // columns)
    figure, axes = plt.subplots(
        rows,
        min(columns, n),
        figsize=(width * min(columns, n), height * rows),
        squeeze=False,
        layout="constrained",
    )
    flat = axes.ravel().tolist()
    for empty in flat[n:]:
        empty.set_axis_off()
    return figure, flat[:n]


def style(method: str) -> dict:
    return {"markersize": 3.5, "linewidth": 1.3, **STYLES.get(method, {})}


def legend_below(figure, axes, columns: int = 5) -> None:
    """One legend for all panels, outside them."""
    entries: dict[str, object] = {}
    for axis in axes:
        handles, labels = axis.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=columns)


def save(figure, folder: Path, name: str) -> None:
    # The layout takes as long as the drawing: once is enough for both files.
    if (engine := figure.get_layout_engine()) is not None:
        figure.set_dpi(_DPI)  # the widths of labels hang on it
        engine.execute(figure)
        figure.set_layout_engine("none")
    # Without a date and with fixed names, the same results give the same file.
    with plt.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    figure.savefig(folder / f"{name}.png", dpi=_DPI)
    plt.close(figure)


def markdown(table: pd.DataFrame, digits: int = 3) -> str:
    """A Markdown table of the columns and the named levels of the index."""
    if any(name is not None for name in table.index.names):
        table = table.reset_index()
    lines = [[str(name) for name in table.columns], ["---"] * table.shape[1]]
    lines += [[_cell(value, digits) for value in row] for row in table.itertuples(index=False)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _cell(value, digits: int) -> str:
    if isinstance(value, float):
        if value != value:
            return ""
        if value.is_integer() and abs(value) < 1e15:
            return f"{int(value)}"
        return f"{value:.{digits}g}"
    return str(value).replace("|", "\\|")
