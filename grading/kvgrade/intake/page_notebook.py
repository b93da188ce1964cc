"""A feedback page as a notebook with one text cell, for a platform that gives feedback the name of the hand-in."""

from __future__ import annotations

import re

from kvlab.handin.repair import dump

from .. import pages

_SAID = re.compile(r'(?<=<p class="said">).*?(?=</p>)', re.S)
_OUTSIDE_TAGS = re.compile(r"[$\\](?![^<>]*>)")
_NOTE = "<p>This is feedback, not your notebook: keep it beside your own, under another name.</p>\n"


def as_notebook(page: bytes) -> bytes:
    """A page of `kvgrade feedback` as a notebook file. Its words are those of the page; its colours are not kept.

    The page's HTML is one block for Markdown, which reads no marks in it. A blank line would end the block, and `$` or
    a backslash in what an answer said could begin a formula; both are written so that they do not.
    """
    html = _SAID.sub(lambda said: said[0].replace("\n", "<br>"), pages.body(page)).strip()
    html = re.sub(r"\n[ \t]*(?=\n)", "\n<!-- -->", html)
    html = _OUTSIDE_TAGS.sub(lambda sign: f"<span>&#{ord(sign[0])};</span>", html)
    source = f"<div>\n{_NOTE}{html}\n</div>"
    cell = {"cell_type": "markdown", "id": "feedback", "metadata": {}, "source": source.splitlines(keepends=True)}
    return dump({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
