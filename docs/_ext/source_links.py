"""Links that a code host can follow lead to this site's own pages: the gallery, the results."""

import re

_SCRIPT = re.compile(r"\]\(examples/(plot_\w+)\.py\)")


def lead_to_pages(app, docname, source):
    text = _SCRIPT.sub(r"](gallery/\1.rst)", source[0])
    text = text.replace("](examples/)", "](gallery/index.rst)")
    source[0] = text.replace("](../benchmarks/RESULTS.md)", "](results.md)")


def setup(app):
    app.connect("source-read", lead_to_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
