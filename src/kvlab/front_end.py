"""What the course's controls need of the page that shows them, beyond what ipywidgets and jupyterquiz do.

- ipywidgets draws a slider's label but does not tie it to the handle: a screen reader would say "slider" alone.
- JupyterLab takes keys of a focused control for its own (arrows walk through cells, "d d" deletes one), so radio
  buttons and menus could not be used with the keyboard. An attribute of the control stops that.
- ipywidgets draws the arrow of a menu black in every theme, and a slider's track and handle in greys that are faint on
  white. A style sheet gives the arrow the colour of the theme, and the slider one grey that both themes show.
"""

from __future__ import annotations

import json
from urllib.parse import quote

_ARROW = """<svg xmlns="http://www.w3.org/2000/svg" width="18" height="18" viewBox="0 0 18 18">
<path fill="none" stroke="white" stroke-width="2" d="M5 7l4 4 4-4"/></svg>"""
# "body" outweighs the rules of ipywidgets, except those for a handle that has the focus.
STYLE = f"""
body[data-jp-theme-light='false'] .widget-dropdown > select {{
  background-image: url("data:image/svg+xml,{quote(_ARROW, safe="")}");
}}
body .widget-slider .noUi-connects {{ background: var(--jp-layout-color4); }}
body .widget-slider .noUi-handle {{ border-color: var(--jp-layout-color4); }}
"""
# Runs once per page and looks again after each change of it, at most once per drawn frame: a slider whose range
# changes gets a new handle.
SCRIPT = """
if (!window.kvlabControls) {
  window.kvlabControls = true;
  const sheet = document.createElement('style');
  sheet.textContent = STYLE;
  document.head.append(sheet);
  const handles = '.widget-slider [role="slider"]:not([aria-label])';
  const controls = ':is(.widget-box, .Quiz) :is(input, select, button, [tabindex]):not([data-lm-suppress-shortcuts])';
  const prepare = () => {
    document.querySelectorAll(handles).forEach(handle => {
      const label = handle.closest('.widget-slider').querySelector('.widget-label');
      handle.setAttribute('aria-label', label ? label.textContent : 'slider');
    });
    document.querySelectorAll(controls).forEach(part => part.setAttribute('data-lm-suppress-shortcuts', 'true'));
  };
  let asked = false;
  const later = () => {
    if (!asked) requestAnimationFrame(() => { asked = false; prepare(); });
    asked = true;
  };
  new MutationObserver(later).observe(document.body, {childList: true, subtree: true});
  later();
}
""".replace("STYLE", json.dumps(STYLE))


def prepare_page() -> None:
    """Send the script to the page of the running notebook, if there is one. It draws nothing."""
    from IPython.display import display

    display({"application/javascript": SCRIPT, "text/plain": ""}, raw=True)
