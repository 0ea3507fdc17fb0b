"""Render formulas as MathML, which needs neither scripts nor a network connection."""

import re
from html import escape

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

logger = logging.getLogger(__name__)

_FUNCTION = re.compile(r"(<mi>(?:ln|sin|sinh)</mi>)(?!<mo stretchy)")
# The converter treats a prime as a letter in the exponent, which many fonts draw too small, and
# "is distributed as" as an accent without surrounding space.
_PRIME = '<mo lspace="0" rspace="0">&#x2032;</mo>'
_REPLACEMENTS = (
    (re.compile(r"<msup>(<mi>[^<]*</mi>)<mi>&#x0?2032;</mi></msup>"), rf"<mrow>\1{_PRIME}</mrow>"),
    (
        re.compile(r"<msubsup>(<mi>[^<]*</mi>)(<mi>[^<]*</mi>)<mi>&#x0?2032;</mi></msubsup>"),
        rf"<msub><mrow>\1{_PRIME}</mrow>\2</msub>",
    ),
    (re.compile(r"<mi>&#x0?007E;</mi>"), "<mo>&#x223C;</mo>"),
    # The converter omits the space before an argument without parentheses.
    (_FUNCTION, r'\1<mspace width="0.17em"/>'),
)


def _mathml(node: nodes.Node, display: str) -> str:
    latex = node.astext().strip()
    try:
        formula = convert(latex, display=display)
        for pattern, replacement in _REPLACEMENTS:
            formula = pattern.sub(replacement, formula)
        return formula
    except Exception as error:  # any error of the converter is an error of the formula
        logger.warning("cannot convert formula: %s (%s)", latex, error, location=node)
        return f"<code>{escape(latex)}</code>"


def visit_inline(writer, node):
    writer.body.append(_mathml(node, "inline"))
    raise nodes.SkipNode


def visit_block(writer, node):
    number = ""
    if node["number"]:
        number = f'<span class="eqno">({get_node_equation_number(writer, node)})</span>'
    writer.body.append(writer.starttag(node, "div", CLASS="math-display"))
    writer.body.append(f"{_mathml(node, 'block')}{number}</div>")
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer(
        "mathml", inline_renderers=(visit_inline, None), block_renderers=(visit_block, None)
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
