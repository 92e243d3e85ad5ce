"""Configuration of the documentation site; scripts/build_site.py gathers the pages and says which
language it builds."""

import os

from pygments.lexers.special import TextLexer
from sphinx.highlighting import lexers

project = "rightfit"
author = "the rightfit authors"
copyright = "Apache-2.0"  # noqa: A001  (the name that Sphinx reads)
language = os.environ["RIGHTFIT_SITE_LANGUAGE"]  # en or zh_CN
version = release = os.environ["RIGHTFIT_SITE_VERSION"]

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns = ["site"]
templates_path = ["templates"]
nitpicky = True
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False

myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]
suppress_warnings = ["misc.highlighting_failure"]  # excerpts of exported files begin and end in the middle of a document

html_theme = "furo"
html_title = "rightfit"
html_last_updated_fmt = None
html_context = {
    "other_language": "en" if language.startswith("zh") else "zh",
    "other_name": "English" if language.startswith("zh") else "中文",
}
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "language.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
# Fonts of the reader's machine: nothing is fetched from elsewhere.
_fonts = 'system-ui, "Noto Sans CJK SC", "Microsoft YaHei", sans-serif'
_mono = 'ui-monospace, "DejaVu Sans Mono", "Noto Sans Mono CJK SC", monospace'
html_theme_options = {
    "light_css_variables": {
        "font-stack": _fonts,
        "font-stack--monospace": _mono,
        "color-brand-primary": "#1f5fa8",
        "color-brand-content": "#1f5fa8",
    },
    "dark_css_variables": {"color-brand-primary": "#7fb4ee", "color-brand-content": "#7fb4ee"},
}
lexers["csv"] = TextLexer()
