"""Links to example scripts, which a code host can follow, lead to the gallery here."""

import re

_SCRIPT = re.compile(r"\]\(examples/(plot_\w+)\.py\)")


def lead_to_gallery(app, docname, source):
    text = _SCRIPT.sub(r"](gallery/\1.rst)", source[0])
    source[0] = text.replace("](examples/)", "](gallery/index.rst)")


def setup(app):
    app.connect("source-read", lead_to_gallery)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
