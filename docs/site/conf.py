"""Settings of Sphinx for the course's site. The pages are generated: see __main__.py in this folder."""

import tomllib
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_PYPROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))

project = "KV cache and generation"
author = "kvlab contributors"
project_copyright = author
version = release = _PYPROJECT["project"]["version"]
language = "en"

extensions = ["myst_nb"]
nb_execution_mode = "off"  # the pages come executed
nb_merge_streams = True
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # a still page needs no widget manager, and the usual one is on a CDN
nb_mime_priority_overrides = [("html", "text/html", 0)]
myst_heading_anchors = 3
myst_url_schemes = ["http", "https", "mailto"]
myst_enable_extensions = ["colon_fence"]
# GitHub and Jupyter show these pages too, and there a deeper heading may follow a higher one.
suppress_warnings = ["myst.header"]

html_theme = "pydata_sphinx_theme"
html_title = project
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_favicon = "static/favicon.svg"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_use_index = False
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": "KV cache course"},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "icon_links": [
        {"name": "Source code", "url": _PYPROJECT["tool"]["kvlab"]["repository"], "icon": "fa-brands fa-github"}
    ],
    "search_bar_text": "Search the course",
    "primary_sidebar_end": [],
    "navbar_persistent": ["search-button"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
}
html_sidebars: dict[str, list[str]] = {name: [] for name in ("index", "glossary", "claims", "search")}
