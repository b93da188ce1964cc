"""How long a learner waits, in a real browser, from a key press on a widget's control to the new figure.

    python benchmarks/browser.py [--presses N] [--widget NAME ...]

JupyterLab (`kvlab lab`) and Chromium run as in the browser tests (tests/browser/waits.py has the way it is measured).
"plain interact" is the usual way, for comparison. Times are printed and never asserted. Needs Chromium and playwright.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from arguments import count

from kvlab.profiling import describe_device

TESTS = Path(__file__).resolve().parents[1] / "tests"


def main() -> None:
    sys.path[:0] = [str(TESTS), str(TESTS / "browser")]
    from browser_lab import chromium, serve
    from waits import measure

    from all_widgets import makers

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--presses", type=count, default=20, help="key presses counted for each widget")
    parser.add_argument("--widget", nargs="+", choices=sorted(makers()), default=sorted(makers()))
    options = parser.parse_args()
    print(f"{describe_device('cpu')}; key press to new figure, median and range of {options.presses}\n")
    with tempfile.TemporaryDirectory() as folder, serve(Path(folder) / "lab") as lab, chromium() as browser:
        for name, wait in measure(lab, browser, options.widget, options.presses).items():
            print(f"{name.replace('_', ' '):22} {wait or 'no new figure'}")


if __name__ == "__main__":
    main()
