"""What the course's controls need of the page that shows them, beyond what ipywidgets and jupyterquiz do.

- ipywidgets draws a slider's label but does not tie it to the handle: a screen reader would say "slider" alone.
- JupyterLab takes keys of a focused control for its own (arrows walk through cells, "d d" deletes one), so radio
  buttons and menus could not be used with the keyboard. An attribute of the control stops that.
"""

from __future__ import annotations

# Runs once per page and looks again after each change of it, at most once per drawn frame: a slider whose range
# changes gets a new handle.
SCRIPT = """
if (!window.kvlabControls) {
  window.kvlabControls = true;
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
"""


def prepare_page() -> None:
    """Send the script to the page of the running notebook, if there is one. It draws nothing."""
    from IPython.display import display

    display({"application/javascript": SCRIPT, "text/plain": ""}, raw=True)
