"""Configuration of the documentation site; scripts/build_site.py gathers the pages and says which
language it builds."""

import os
import re
from typing import Any

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
        "code-font-size": ".735rem",  # 100 columns, the widest output of a command, fit beside both side bars at 1280 pixels
    },
    "dark_css_variables": {"color-brand-primary": "#7fb4ee", "color-brand-content": "#7fb4ee"},
}
lexers["csv"] = TextLexer()
html_static_path = ["static"]
html_css_files = ["code.css"]


if language.startswith("zh"):
    from sphinx.search.zh import SearchChinese

    class PairsOfCharacters(SearchChinese):
        """Chinese text is indexed by pairs of characters, and so is what is looked for: without a
        dictionary of words Sphinx indexes none of it, and its own page asks for a stemmer that is
        not there."""

        language_name = "English"  # of the stemmer
        js_splitter_code = """
function splitQuery(query) {
  const found = [];
  for (const run of query.match(/[\\u4e00-\\u9fff]+|[\\p{Letter}\\p{Number}_]+/gu) || []) {
    if (!/[\\u4e00-\\u9fff]/.test(run) || run.length < 3) found.push(run);
    else for (let at = 0; at + 2 <= run.length; at++) found.push(run.slice(at, at + 2));
  }
  return found;
}
"""

        def split(self, input: str) -> list[str]:  # noqa: A002  (the name that Sphinx gives)
            runs = re.findall(r"[\u4e00-\u9fff]+", input)
            pairs = [run[at : at + 2] for run in runs for at in range(max(1, len(run) - 1))]
            return [*pairs, *super().split(input)]

    def setup(app: Any) -> None:
        """The search of the Chinese pages."""
        app.add_search_language(PairsOfCharacters)
