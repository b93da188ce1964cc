"""docs/instructors.md: its commands, options and quoted messages exist, its links lead somewhere."""

import re

import pytest

from helpers import ROOT
from kvgrade.__main__ import main

GUIDE = (ROOT / "docs" / "instructors.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"kvgrade ([a-z]+)((?: [^`\n#|]*)?)", GUIDE)


def help_of(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_every_command_and_option_exists(capsys: pytest.CaptureFixture[str]) -> None:
    assert {"import", "grade", "worker", "feedback", "export", "report", "check", "doctor", "build", "prove"} == {
        name for name, _ in COMMANDS
    }
    for command, rest in COMMANDS:
        shown = help_of(command, capsys)
        for option in re.findall(r"--[a-z-]+", rest):
            assert option in shown, f"{command} has no {option}"


def test_options_named_in_the_text_exist(capsys: pytest.CaptureFixture[str]) -> None:
    shown = "".join(help_of(command, capsys) for command in sorted({name for name, _ in COMMANDS}))
    others = {"--create", "--update", "--course", "--help", "--duedate", "--force", "--shard"}  # nbgrader's, argparse's
    for option in set(re.findall(r"`(--[a-z-]+)", GUIDE)) - others:
        assert option in shown, f"no command has {option}"


def test_messages_in_the_trouble_table_are_really_said() -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "grading" / "kvgrade").rglob("*.py"))
    rows = re.findall(r"^\| `([^`]+)` \|", GUIDE[GUIDE.index("## When something goes wrong") :], re.M)
    assert len(rows) >= 5
    for row in rows:
        for part in (piece.strip() for piece in row.split("…")):
            assert part in source, f"nothing says {part!r}"


def test_links_lead_to_files() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", GUIDE):
        assert (ROOT / "docs" / target).is_file(), target
