"""Ports: a taken one is passed over, and two commands that start together never get the same one."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import ROOT
from kvlab.cli import ports
from kvlab.cli.errors import CommandError
from kvlab.cli.ports import reserve_port


@pytest.fixture(autouse=True)
def first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Search from a port that is free now, with locks of our own."""
    monkeypatch.setenv("KVLAB_CACHE", str(tmp_path / "cache"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = min(int(probe.getsockname()[1]), 65000)
    monkeypatch.setattr(ports, "FIRST_PORT", port)
    return port


def test_a_taken_port_is_passed_over_or_refused_when_it_was_asked_for(first: int) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first))
        taken.listen()
        with reserve_port(None) as port:
            assert port > first
        with pytest.raises(CommandError, match=f"Port {first} is in use"), reserve_port(first):
            pass


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_what_is_no_port(port: int) -> None:
    with pytest.raises(CommandError, match="is no port"), reserve_port(port):
        pass


def test_a_reserved_port_is_given_to_nobody_else_until_it_is_given_back() -> None:
    with reserve_port(None) as one:
        with reserve_port(None) as two:
            assert two != one
        with pytest.raises(CommandError, match="is in use"), reserve_port(one):
            pass
    with reserve_port(one) as again:
        assert again == one


def test_no_free_port_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "port_is_free", lambda port: False)
    with pytest.raises(CommandError, match="Choose one with --port"), reserve_port(None):
        pass


def test_a_cache_that_cannot_be_written_costs_only_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("KVLAB_CACHE", str(tmp_path / "file" / "cache"))
    with reserve_port(None) as port:
        assert port >= ports.FIRST_PORT


@pytest.mark.skipif(os.name != "posix", reason="only POSIX systems replace a process")
def test_the_program_that_takes_our_place_keeps_the_port(first: int) -> None:
    code = (
        "import os, sys; from kvlab.cli.ports import reserve_port\n"
        f"with reserve_port({first}):\n"
        "    os.execv(sys.executable, [sys.executable, '-c', 'print(1, flush=True); input()'])"
    )
    env = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"1\n"
        with reserve_port(None) as port:
            assert port > first
        process.communicate(b"\n", timeout=20)
    with reserve_port(None) as port:
        assert port == first
