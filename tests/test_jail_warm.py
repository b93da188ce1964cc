"""Answers run in a process that was warm before its jail was there: it brings nothing along."""

import os
import signal
from pathlib import Path

import pytest

from helpers import ROOT
from jail_probe import ask, begun, probe, warm_pid
from kvgrade import walls, warm

# What it does not bring along


def test_namespaces_are_those_of_the_jail() -> None:
    names = ["mnt", "pid", "pid_for_children", "net", "ipc", "uts", "user"]
    code = f"return {{name: os.stat('/proc/self/ns/' + name).st_ino for name in {names}}}"
    with begun(f"def probe(): {code}") as neighbour:
        first = probe(code)
        second = ask(neighbour)
    here = {name: os.stat(f"/proc/self/ns/{name}").st_ino for name in names}
    shared = {"user"} if walls.stranger_id() is not None else set()
    assert {name for name in names if first[name] == here[name]} == shared
    assert {name for name in names if first[name] == second[name]} == shared


def test_open_files_are_pipes_and_nothing() -> None:
    code = """
        found = {}
        for name in os.listdir("/proc/self/fd"):
            try:
                found[int(name)] = os.readlink("/proc/self/fd/" + name).partition(":")[0]
            except FileNotFoundError:
                pass  # the folder that was just listed
        return found
    """
    null = "/dev/null"
    assert probe(code) == {0: null, 1: null, 2: null, 5: "pipe", 6: "pipe"}


def test_environment_is_the_jails(monkeypatch: pytest.MonkeyPatch) -> None:
    if warm.pid("numpy"):
        os.kill(warm_pid(), signal.SIGKILL)
    monkeypatch.setenv("SECRET_TOKEN", "not for learners")
    environment, block = probe("return [dict(os.environ), tried(open, '/proc/self/environ')]")
    assert environment == walls.environment(home=walls.HOME, temp="/tmp")
    assert block == "EACCES"  # undumpable: not even its own


def test_no_folder_of_the_host_is_left() -> None:
    hidden = [
        str(path) for path in (ROOT / "grading", Path(warm.__file__), ROOT / "README.md", Path.home() / ".bashrc")
    ]
    code = f"""
        starts = ["", "/proc/self/root", "/proc/self/cwd/../..", "/proc/1/root", "/proc/2/cwd/../.."]
        return [os.getcwd(), [start + path for start in starts for path in {hidden} if tried(os.stat, start + path) == "done"]]
    """
    assert probe(code) == ["/home/jail", []]


def test_its_program_is_no_way_out() -> None:
    """/proc/self/exe is a file of the host, seen through the host's mount, which may be writable."""
    code = """
        exe = "/proc/self/exe"
        reading = os.open(exe, os.O_RDONLY)
        ways = [tried(os.open, exe, os.O_WRONLY), tried(os.open, f"/proc/self/fd/{reading}", os.O_RDWR)]
        ways += [tried(os.chmod, exe, 0o755), tried(os.utime, exe), tried(os.truncate, exe, 0), tried(os.listdir, exe + "/..")]
        ways += [tried(os.link, exe, "/home/jail/x"), tried(os.listdir, "/proc/self/map_files")]
        maps = os.listdir("/proc/self/map_files") if ways[-1] == "done" else []
        return [ways, [tried(os.open, "/proc/self/map_files/" + name, os.O_RDONLY) for name in maps[:20]]]
    """
    ways, maps = probe(code)
    assert set(ways[:-1]) <= {"EACCES", "EPERM", "EROFS", "ENOTDIR", "EXDEV"}
    assert set(maps) <= {"EACCES", "EPERM"}


def test_no_rights_are_left() -> None:
    code = """
        state = dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
        names = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
        ids = set(state["Uid"].split() + state["Gid"].split())
        return [[state[name].strip("0") for name in names], state["NoNewPrivs"], state["Seccomp"], sorted(ids), state["Groups"].strip()]
    """
    capabilities, no_new, seccomp, ids, groups = probe(code)
    assert (capabilities, no_new, seccomp) == ([""] * 5, "1", "2")
    assert len(ids) == 1 and int(ids[0]) >= 1 << 15
    if os.geteuid() == 0 and walls.stranger_id() is not None:
        assert groups == "" and probe("return os.getuid()") != int(ids[0])


def test_nothing_of_the_instructor_is_in_its_memory() -> None:
    code = """
        ours = sorted(name for name in sys.modules if name.partition(".")[0] in ("kvlab", "kvgrade", "grading"))
        return [ours, sys.path, tried(__import__, "kvgrade.cases"), tried(__import__, "kvgrade.verdict")]
    """
    ours, path, *imports = probe(code)
    assert {name.removeprefix("kvgrade.") for name in ours} <= {
        "kvgrade",
        *("inside" + rest for rest in ("", ".answer", ".confine", ".enter", ".steps", ".warm", ".wire", ".worker")),
    }
    assert path[0] == "/course" and not any(walls.is_in(folder, str(ROOT / "grading")) for folder in path)
    assert imports == ["ModuleNotFoundError"] * 2


def test_only_its_jail_is_in_sight() -> None:
    """bubblewrap, what holds the jail open, the first process, the answer. None can be read or written."""
    code = """
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        reads = [tried(open, f"/proc/{os.getppid()}/{name}", "rb") for name in ("mem", "environ", "maps")]
        writes = [tried(open, f"/proc/{pid}/mem", "r+b") for pid in pids]
        return [len(pids), reads, writes, open(f"/proc/{os.getppid()}/status").read().split("PPid:")[1].split()[0]]
    """
    count, reads, writes, above = probe(code)
    assert count == 4 and above == "0"
    assert set(reads + writes) <= {"EACCES", "EPERM", "EROFS"}


def test_signals_stay_in_the_process() -> None:
    before = (probe("return 1"), warm_pid())
    code = "return [tried(os.kill, 0, 9), tried(os.kill, -1, 9), tried(os.kill, os.getppid(), 19), tried(os.killpg, 0, 15)]"
    with begun("def probe(): return 1") as neighbour:
        assert probe(code) == ["EPERM"] * 4
        assert ask(neighbour) == 1
    assert (1, warm_pid()) == before


def test_memory_is_limited_and_torch_is_there() -> None:
    code = """
        limited = [tried(bytearray, 5 << 30), tried(bytearray, 1 << 20)]
        ahead = "torch" in sys.modules
        import torch.nn.functional
        import numpy.fft
        return [limited, ahead, float(torch.ones(3).sum()), torch.get_num_threads(), np.random.rand() < 1]
    """
    assert probe(code, with_torch=True) == [["MemoryError", "done"], True, 3.0, 1, True]
    assert probe(code)[1:3] == [False, 3.0]
