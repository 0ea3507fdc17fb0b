"""Replace links to examples and benchmark results by links to pages of the documentation."""

import re

_SCRIPT = re.compile(r"\]\(examples/(plot_\w+)\.py\)")


def replace_links(app, docname, source):
    text = _SCRIPT.sub(r"](gallery/\1.rst)", source[0])
    text = text.replace("](examples/)", "](gallery/index.rst)")
    source[0] = text.replace("](../benchmarks/RESULTS.md)", "](results.md)")


def setup(app):
    app.connect("source-read", replace_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
