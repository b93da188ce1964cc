"""How a page looks: themes, widths, pictures of its parts, what does not fit, and what axe finds."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from helpers import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

PICTURES = ROOT / "build" / "screenshots"
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
WIDTHS = (1280, 1920)
OUTPUTS = ".jp-CodeCell .jp-OutputArea-output"
# JupyterLab leaves out what is not in sight, and its <body> has no height and hides what sticks out of it, as the shell
# does: axe takes this to mean that nothing, or nothing below the window, can be seen. It must see everything.
# A colour that is still changing is no colour to be measured.
DRAW_ALL = """.jp-Notebook .jp-Cell { content-visibility: visible !important; }
*, *::before, *::after { transition: none !important; animation: none !important; }
html, body { height: 100vh !important; }
html, body, .jp-LabShell { overflow: visible !important; }"""
# What has been scrolled past counts as outside of the page for axe, so it begins at the top.
AXE = """async selector => {
    document.querySelectorAll('.jp-WindowedPanel-outer').forEach(part => { part.scrollTop = 0; });
    const found = await axe.run({include: [[selector]]}, {resultTypes: ['violations']});
    return found.violations.filter(rule => ['serious', 'critical'].includes(rule.impact)).flatMap(
        rule => rule.nodes.map(node => `${rule.id} (${rule.impact}): ${node.html.slice(0, 160)}: ` +
            [...node.any, ...node.all, ...node.none].map(check => check.message).join('; ').slice(0, 200)));
}"""
# What sticks out of a box that neither shows nor scrolls the rest, and labels that end in "...".
CLIPPED = """selector => Array.from(document.querySelectorAll(selector)).flatMap(output =>
    Array.from(output.querySelectorAll('img, svg, table, button, p, .widget-label')).filter(part => {
        if (part.matches('.widget-label') && part.scrollWidth > part.clientWidth) return true;
        for (let box = part.parentElement; box && output.contains(box); box = box.parentElement)
            if (['hidden', 'clip'].includes(getComputedStyle(box).overflowX)
                && part.getBoundingClientRect().right > box.getBoundingClientRect().right + 2) return true;
        return false;
    }).map(part => `${part.tagName} ${part.className} ${part.textContent.slice(0, 60)}`))"""


def choose_theme(page: "Page", theme: str) -> None:
    """Choose a theme in the menu Settings and wait until it is there. `theme`: a key of THEMES."""
    from playwright.sync_api import expect

    page.locator(".lm-MenuBar-itemLabel").get_by_text("Settings", exact=True).click()
    page.locator(".lm-Menu-itemLabel").get_by_text("Theme", exact=True).hover()
    page.locator(".lm-Menu-itemLabel").get_by_text(THEMES[theme], exact=True).click()
    expect(page.locator("body")).to_have_attribute("data-jp-theme-name", THEMES[theme])


def draw_all(page: "Page") -> None:
    page.add_style_tag(content=DRAW_ALL)


def axe_findings(page: "Page", selector: str = OUTPUTS) -> list[str]:
    """What axe calls serious or critical within the elements that `selector` names."""
    from axe_playwright_python.base import AXE_SCRIPT

    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    return list(page.evaluate(AXE, selector))


def clipped(page: "Page", selector: str = OUTPUTS) -> list[str]:
    """Parts of outputs that stick out of their place and can't be scrolled to."""
    return list(page.evaluate(CLIPPED, selector))


def take(part: "Locator", name: str) -> Path:
    """A picture of one part of the page in build/screenshots/."""
    path = PICTURES / f"{re.sub(r'[^a-z0-9_]+', '_', name.lower())}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    part.screenshot(path=path)  # scrolls there and waits until nothing moves; draw_all has ended animations
    return path
