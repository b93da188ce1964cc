"""What is sent to the page beside widgets and quizzes; tests/browser/ sees what it does there."""

import re

from kvlab.front_end import SCRIPT


def test_the_script_fetches_nothing() -> None:
    assert not re.search(r"https?:|//|fetch\(|import\(", SCRIPT)
