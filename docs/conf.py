"""The book: Sphinx with MyST and Furo. No page loads anything from elsewhere: formulas become MathML."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

project = "Raycipe"
author = "The Raycipe authors"
extensions = ["myst_parser", "sphinx_copybutton"]
copybutton_prompt_text = "$ "  # a command is copied without it
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "figures"]
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["book.css"]
html_title = "Raycipe"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_math_renderer = "mathml"
suppress_warnings = ["misc.highlighting_failure"]


def inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def block(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True}
