"""Notebook 01 in a real browser: Run All unsolved, a slider moved with the keyboard, a check panel that changes.

One test, because opening JupyterLab and running the notebook are the slow part. Menus and keys are used as a learner
uses them; what ran and what failed is read from the saved notebook, since a page draws only the cells near the window.
"""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    pass

pytestmark = [pytest.mark.browser, pytest.mark.slow]
