"""The jail holds: what a submission can't see, reach, change, start or use up, tried from the inside."""

import os
import platform
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from helpers import ROOT
from kvgrade import jail, walls
from kvgrade.inside import confine
from kvgrade.inside.confine import Limits


def test_no_network(begin: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = server.getsockname()
        socket.create_connection(here).close()  # from the host it answers
        code = f"""
            import socket
            show([tried(socket.create_connection, place, 2) for place in (("1.1.1.1", 80), ("127.0.0.1", {here[1]}))])
        """
        refused = {"ENETUNREACH", "ECONNREFUSED", "EADDRNOTAVAIL"}
        assert set(begin(code, confined=False).line()) <= refused
        assert begin(code).line() == ["EPERM", "EPERM"]


def test_host_files_are_not_visible(begin: Any, grader: Path, tmp_path: Path) -> None:
    gradebook = tmp_path / "gradebook.db"
    gradebook.write_text("marks")
    with tempfile.NamedTemporaryFile(dir=Path.home()) as in_home, tempfile.NamedTemporaryFile() as in_temp:
        secret = [ROOT / "README.md", ROOT / "grading" / "units", ROOT / "src", gradebook, in_home.name, in_temp.name]
        secret += ["/etc/passwd", "/etc/shadow", "/var", "/sys", "/mnt"]
        assert all(os.path.exists(path) for path in secret)
        code = f"show([path for path in {[str(path) for path in secret]} if os.path.lexists(path)])"
        assert begin(code, confined=False).line() == []
    assert begin("show(os.path.exists('/grader/worker.py'))").line() is True


def test_environment_of_the_grader_is_not_visible(begin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "not for learners")
    code = """
        import glob
        seen = []
        for path in glob.glob("/proc/[0-9]*/environ"):
            try:
                seen.append("not for learners" in open(path).read())
            except PermissionError:
                pass
        show([any(seen), "SECRET_TOKEN" in os.environ, os.environ["HOME"], os.environ["OMP_NUM_THREADS"]])
    """
    assert begin(code, confined=False).line() == [False, False, "/home/jail", "1"]


def test_answers_in_the_environment_are_covered(grader: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed kvlab, and a repository that lies in a folder of the interpreter and holds an environment itself."""
    prefix = tmp_path / "env"
    for name in ("site-packages/kvlab", "site-packages/other", "course/grading", "course/.venv/bin"):
        (prefix / name).mkdir(parents=True)
        (prefix / name / "kernel.py").write_text("")
    tmp_path.chmod(0o755)
    monkeypatch.setattr(sys, "prefix", str(prefix))
    monkeypatch.setattr(sys, "base_prefix", str(prefix / "course" / ".venv"))
    monkeypatch.setattr(walls, "ROOT", prefix / "course")
    monkeypatch.setattr(walls.site, "getsitepackages", lambda _: [str(prefix / "site-packages")])
    process = jail.start(["/bin/ls", "-AR", str(prefix)], {}, Limits())
    assert process.stdout is not None
    seen = process.stdout.read().decode()
    assert jail.stop(process) == ""
    blocks = [block.split("\n") for block in seen.strip().split("\n\n")]
    listed = {block[0].removesuffix(":"): block[1:] for block in blocks}
    assert listed[str(prefix / "site-packages" / "other")] == ["kernel.py"]
    assert listed[str(prefix / "site-packages" / "kvlab")] == []
    assert listed[str(prefix / "course")] == [".venv"]
    assert listed[str(prefix / "course" / ".venv" / "bin")] == ["kernel.py"]


# What can't be changed


def test_only_three_folders_can_be_written(begin: Any) -> None:
    code = f"""
        writable = set()
        skip = {{"/usr/share", "/proc/self", "/proc/thread-self"}}
        for folder, folders, files in os.walk("/"):
            folders[:] = [name for name in folders if os.path.join(folder, name) not in skip and not name.isdigit()]
            if folder.count("/") > 5:
                folders.clear()
            paths = [folder, *(os.path.join(folder, name) for name in files)]
            writable |= {{path for path in paths if os.access(path, os.W_OK) and not os.path.islink(path)}}
        places = ["/x", "/usr/x", "/etc/x", "/dev/x", "/home/x", "/grader/x", {sys.prefix!r} + "/x", "/root/x"]
        show([sorted(writable), [tried(open, path, "w") for path in places]])
    """
    writable, places = begin(code, confined=False).line()
    devices = {"/dev/" + name for name in ("null", "zero", "full", "random", "urandom")}
    assert set(writable) - devices == {"/tmp", "/home/jail", "/dev/shm"}
    assert set(places) <= {"EROFS", "ENOENT", "EACCES"}


def test_settings_of_the_kernel_and_modes_of_devices_stay(begin: Any) -> None:
    """The way out of a jail whose user is root on the host, with or without capabilities."""
    code = """
        paths = ["/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/1/mem"]
        show([*(tried(os.open, path, os.O_WRONLY) for path in paths), tried(os.chmod, "/dev/null", 0o666)])
    """
    assert set(begin(code, confined=False).line()) <= {"EROFS", "EACCES", "EPERM"}


def test_no_capabilities_no_remount_no_namespace(begin: Any) -> None:
    code = """
        state = dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
        flags = 32 | 4096  # MS_REMOUNT | MS_BIND
        ctypes.set_errno(0)
        mounted = libc.mount(None, b"/usr", None, ctypes.c_ulong(flags), None)
        new_user, new_mount = 0x10000000, 0x20000
        spaces = [(libc.unshare(flag), ctypes.get_errno()) for flag in (new_user, new_mount)]
        show([[state[name].strip("0") for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")], state["NoNewPrivs"]])
        show([mounted, spaces])
    """
    unconfined, confined = (
        begin(code.replace("for flag in (new_user, new_mount)", "for flag in ()"), False),
        begin(code),
    )
    assert unconfined.line() == confined.line() == [["", "", "", ""], "1"]
    assert unconfined.line() == [-1, []]
    assert confined.line() == [-1, [[-1, 1], [-1, 1]]]
    if os.geteuid() != 0:  # the first process too; for root it is trusted not to ask
        assert begin("show(libc.unshare(0x10000000))", False).line() == -1


def test_root_leaves_the_jail_as_somebody_else(begin: Any) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root changes its user; others keep theirs in a user namespace")
    first, second = (begin("show([os.getresuid(), os.getresgid(), os.getgroups()])").line() for _ in range(2))
    assert first != second
    assert min(first[0] + first[1]) >= 1 << 15 and first[2] == []


# What can't be started


def test_no_other_process(begin: Any) -> None:
    code = """
        import subprocess, threading
        show([
            tried(os.fork), tried(os.execv, "/bin/true", ["true"]), tried(subprocess.run, ["/bin/true"]),
            tried(os.posix_spawn, "/bin/true", ["true"], {}), tried(os.setsid),
            libc.system(b"true") != 0, tried(threading.Thread(target=int).start),
        ])
    """
    assert begin(code).line() == ["EPERM"] * 5 + [True, "done"]


def test_refused_system_calls(begin: Any) -> None:
    column = confine._MACHINES[platform.machine()].column
    names = {entry.split(":")[0]: entry.split(":")[column] for entry in confine._REFUSED.split()}
    numbers = {name: int(number) for name, number in names.items() if number != "-"}
    process_flags, x32 = 17, 1 << 30
    code = f"""
        show([name for name, number in {numbers}.items() if system_call(number, 0, 0, 0, 0) != "EPERM"])
        clone = {confine._MACHINES[platform.machine()].clone}
        show([system_call(clone, {process_flags}), system_call(435, 0, 0), system_call(463), system_call({x32} + 39)])
    """
    jailed = begin(code)
    assert jailed.line() == []
    assert jailed.line() == ["EPERM", "ENOSYS", "ENOSYS", "ENOSYS"]


def test_threads_are_limited_also_for_root(begin: Any) -> None:
    code = """
        import threading
        wait, n = threading.Event(), 0
        while n < 200 and tried(threading.Thread(target=wait.wait, daemon=True).start) == "done":
            n += 1
        show(n)
    """
    assert 10 < begin(code, limits={"tasks": 30}).line() < 30


def test_first_process_is_out_of_reach(begin: Any) -> None:
    code = """
        parent = os.getppid()
        show([tried(os.listdir, f"/proc/{parent}/fd"), tried(open, f"/proc/{parent}/mem", "rb"),
              tried(open, f"/proc/{parent}/environ"), system_call(101 if os.uname().machine == "x86_64" else 117, 16, parent)])
        show(tried(open, f"/proc/{parent}/fd/0", "rb"))
    """
    jailed = begin(code)
    assert set(jailed.line()) <= {"EACCES", "EPERM"}
    assert jailed.line() in ("EACCES", "EPERM")


def test_signals_and_limits_are_for_itself_only(begin: Any) -> None:
    """The first process watches the files: one that is stopped, or has no limits left, would watch no more."""
    column = confine._MACHINES[platform.machine()].column
    calls = f"{confine._ON_ITSELF} {confine._ON_ITSELF_OR_0}".split()
    numbers = {entry.split(":")[0]: int(entry.split(":")[column]) for entry in calls}
    code = f"""
        import fcntl, resource, signal, threading
        first, me, numbers = os.getppid(), os.getpid(), {numbers}
        show([tried(os.kill, who, 19) for who in (first, 0, -1)] + [tried(os.killpg, 0, 19)])
        show([name for name, number in numbers.items() if system_call(number, first, 0, 0) != "EPERM"])
        show([tried(os.pidfd_open, first), tried(resource.prlimit, first, resource.RLIMIT_NOFILE, (0, 0))])
        file = os.open("/grader/worker.py", os.O_RDONLY)
        show([number for number in {list(confine._FCNTL_REFUSED.values())} if tried(fcntl.fcntl, file, number) != "EPERM"])
        show([tried(fcntl.flock, file, 2), tried(fcntl.lockf, file, 1), tried(fcntl.fcntl, file, fcntl.F_GETFD)])
        heard = []
        signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
        signal.raise_signal(signal.SIGUSR1)
        os.kill(me, signal.SIGUSR1)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        resource.setrlimit(resource.RLIMIT_NOFILE, (9, 9))
        show([len(heard), resource.getrlimit(resource.RLIMIT_NOFILE)])
        os.abort()
    """
    jailed = begin(code)
    assert jailed.line() == ["EPERM"] * 4
    assert jailed.line() == []
    assert jailed.line() == ["EPERM"] * 2
    assert jailed.line() == []
    assert jailed.line() == ["EPERM", "EPERM", "done"]
    assert jailed.line() == [3, [9, 9]]
    assert jailed.line() == {"exit": -signal.SIGABRT}


def test_python_still_tells_where_it_crashed(begin: Any) -> None:
    code = """
        import faulthandler
        faulthandler.enable(os.open("/tmp/said", os.O_RDWR | os.O_CREAT))
        ctypes.string_at(0)
    """
    assert begin(code).line() == {"exit": -signal.SIGSEGV}


# What can't be used up
