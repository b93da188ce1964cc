"""How a page looks: themes, widths, pictures of its parts, what does not fit, what is faint, and what axe finds."""

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

# The contrast (WCAG 2.2, 1.4.11: at least 3) of what axe does not look at: the arrow of a menu, and a slider's track and
# the edge of its handle. Each is painted on the colour behind it; the pixel that differs most counts.
FAINT = """async selector => {
    const pen = Object.assign(document.createElement('canvas'), {width: 18, height: 18})
        .getContext('2d', {willReadFrequently: true});
    const fill = colour => { pen.fillStyle = colour; pen.fillRect(0, 0, 18, 18); };
    const ground = part => {  // all that is behind a part, outermost first
        fill('white');
        const boxes = [];
        for (let box = part; box; box = box.parentElement) boxes.unshift(getComputedStyle(box).backgroundColor);
        boxes.forEach(fill);
    };
    const lights = () => {  // relative luminance of each pixel
        const data = pen.getImageData(0, 0, 18, 18).data, all = [];
        for (let i = 0; i < data.length; i += 4) {
            const [r, g, b] = [0, 1, 2].map(k => data[i + k] / 255).map(
                v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
            all.push(0.2126 * r + 0.7152 * g + 0.0722 * b);
        }
        return all;
    };
    const found = [];
    const judge = async (name, behind, paint) => {
        ground(behind);
        const back = lights()[0];
        await paint();
        const best = Math.max(...lights().map(light => (Math.max(light, back) + 0.05) / (Math.min(light, back) + 0.05)));
        if (best < 3) found.push(`${name}: contrast ${best.toFixed(2)}`);
    };
    for (const output of document.querySelectorAll(selector)) {
        for (const menu of output.querySelectorAll('.widget-dropdown > select'))
            await judge(`the arrow of ${menu.textContent.slice(0, 40)}`, menu, async () => {
                const arrow = new Image();
                arrow.src = getComputedStyle(menu).backgroundImage.replace(/^url\\("|"\\)$/g, '');
                await arrow.decode();
                pen.drawImage(arrow, 0, 0, 18, 18);
            });
        for (const track of output.querySelectorAll('.noUi-target:not([disabled]) .noUi-connects'))
            await judge("a slider's track", track.closest('.widget-slider'),
                () => fill(getComputedStyle(track).backgroundColor));
        for (const handle of output.querySelectorAll('.noUi-target:not([disabled]) .noUi-handle'))
            await judge("a slider's handle", handle.closest('.widget-slider'),
                () => fill(getComputedStyle(handle).borderTopColor));
    }
    return found;
}"""


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


def faint(page: "Page", selector: str = OUTPUTS) -> list[str]:
    """Arrows of menus, tracks and handles of sliders that hardly differ from what is behind them."""
    return list(page.evaluate(FAINT, selector))


def take(part: "Locator", name: str) -> Path:
    """A picture of one part of the page in build/screenshots/. The part must stand still (draw_all ends animations)."""
    path = PICTURES / f"{re.sub(r'[^a-z0-9_]+', '_', name.lower())}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(10):  # after a new width the list of cells measures itself again, and moves what is being pictured
        part.scroll_into_view_if_needed()
        before = part.bounding_box()
        part.screenshot(path=path)
        if before is not None and part.bounding_box() == before:
            return path
    raise AssertionError(f"{name} does not stand still")
