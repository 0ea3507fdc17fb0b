"""Quote the names of fitted attributes in parameter types.

Otherwise the underscore in ``ndarray of shape (n_features_in_,)`` is parsed as a reference.
"""

import re

_NAME = re.compile(r"(?<=[(, ])([a-z]\w*_)(?=[,)])")


def quote_names(app, what, name, obj, options, lines):
    for number, line in enumerate(lines):
        label, colon, kind = line.partition(" : ")
        lines[number] = label + colon + _NAME.sub(r"`\1`", kind)


def setup(app):
    # Run before numpydoc, which uses the default priority of 500.
    app.connect("autodoc-process-docstring", quote_names, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
