"""Where the seconds of the notebooks go: `python benchmarks/notebooks.py [01 06 …] [--full] [--json FILE] [--against FILE]`.

Each released notebook runs in a kernel of its own, with FAST = True unless --full is given. For every cell: wall
seconds, processor seconds, and the work that was counted (notebook_probe.py). Start of the kernel and the imports are
shown apart. --json keeps the result; --against compares with one that was kept: seconds before and after, and every
count, which must be the same unless less (or more) is done.

Processor seconds are the ones to compare on a machine that does other things too.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import nbformat
from arguments import count, new_file
from nbclient import NotebookClient

from kvlab.paths import notebooks_dir

WORK = ("layer passes", "layer rows", "fast passes", "fast positions", "timed calls", "figures")
Notebook = dict[str, Any]


def measure(path: Path, fast: bool) -> Notebook:
    """Run one notebook. Returns seconds to start its kernel, in all, and one row for each code cell."""
    notebook = nbformat.read(path, as_version=4)
    at = next(i for i, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", []))
    notebook.cells.insert(at + 1, nbformat.v4.new_code_cell(f"FAST = {fast}"))
    with tempfile.TemporaryDirectory(prefix="kvlab-") as folder:
        probe = Path(folder) / "cells.jsonl"
        search = [str(Path(__file__).parent), *filter(None, sys.path)]
        env = os.environ | {"KVLAB_PROBE": str(probe), "PYTHONPATH": os.pathsep.join(search)}
        client = NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": folder}})
        client.extra_arguments = ["--ext=notebook_probe"]
        began = time.time()
        client.execute(env=env)
        wall = time.time() - began
        loaded, *rows = (json.loads(line) for line in probe.read_text(encoding="utf-8").splitlines())
    started = loaded["time"] - began
    return {"start": started, "wall": wall, "cells": rows}


def imports_seconds(module: str) -> float:
    """Processor seconds of a new interpreter that imports a module."""
    code = f"import time, {module}; print(time.process_time())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def totals(notebook: Notebook) -> Counter[str]:
    """Sums over the cells of a notebook."""
    found: Counter[str] = Counter()
    for row in notebook["cells"]:
        found.update({key: row[key] for key in ("wall", "cpu", *WORK) if key in row})
    return found


def report(found: dict[str, Notebook], most: int) -> str:
    """A table of notebooks, and the cells that took most processor time."""
    lines = [f"{'notebook':20}{'kernel s':>9}{'imports s':>10}{'cells s':>9}{'cpu s':>8}" + _heads()]
    for name, notebook in found.items():
        sums = totals(notebook)
        imports = sum(row["wall"] for row in notebook["cells"] if _is_imports(row))
        numbers = f"{notebook['start']:>9.1f}{imports:>10.1f}{sums['wall']:>9.1f}{sums['cpu']:>8.1f}"
        lines.append(f"{name:20}{numbers}" + "".join(f"{sums[key]:>16,}" for key in WORK))
    rows = [(row["cpu"], name, number, row) for name, nb in found.items() for number, row in enumerate(nb["cells"], 1)]
    lines += ["", f"{'cpu s':>7}{'wall s':>8}  cell"]
    for cpu, name, number, row in sorted(rows, key=lambda item: -item[0])[:most]:
        lines.append(f"{cpu:>7.2f}{row['wall']:>8.2f}  {name[:2]} code cell {number}: {_first_line(row)}")
    return "\n".join(lines)


def comparison(before: dict[str, Notebook], after: dict[str, Notebook]) -> str:
    """Processor seconds of both, and what was counted in both."""
    lines = [f"{'notebook':20}{'cpu s before':>13}{'after':>8}{'saved':>8}  counted work"]
    for name in before.keys() & after.keys():
        old, new = totals(before[name]), totals(after[name])
        differ = [f"{key}: {old[key]:,} and now {new[key]:,}" for key in WORK if old[key] != new[key]]
        saved = f"{old['cpu'] - new['cpu']:>8.1f}"
        lines.append(f"{name:20}{old['cpu']:>13.1f}{new['cpu']:>8.1f}{saved}  {'; '.join(differ) or 'the same'}")
    return "\n".join([lines[0], *sorted(lines[1:])])


def _heads() -> str:
    return "".join(f"{key:>16}" for key in WORK)


def _is_imports(row: dict[str, Any]) -> bool:
    return "\nimport kvlab\n" in row["source"]


def _first_line(row: dict[str, Any]) -> str:
    return str(row["source"]).split("\n")[0][:70]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("units", nargs="*", help="01, 06 or the like (default: all)")
    parser.add_argument("--full", action="store_true", help="FAST = False")
    parser.add_argument("--top", type=count, default=25, help="how many cells to list (default: 25)")
    parser.add_argument("--json", type=new_file, help="keep the result in this file")
    parser.add_argument("--against", type=Path, help="compare with a result that was kept")
    options = parser.parse_args()
    paths = [p for p in sorted(notebooks_dir().glob("*.ipynb")) if not options.units or p.stem[:2] in options.units]
    if not paths:
        parser.error(f"there is no notebook {', '.join(options.units)}")
    before = json.loads(options.against.read_text(encoding="utf-8")) if options.against else None
    modules = ("torch", "matplotlib.pyplot", "kvlab.widgets", "ipykernel.kernelapp", "papermill")
    print("imports, cpu s:", ", ".join(f"{name} {imports_seconds(name):.2f}" for name in modules), flush=True)
    found = {}
    for path in paths:
        found[path.stem] = measure(path, not options.full)
        print(f"{path.stem}: {found[path.stem]['wall']:.1f} s", file=sys.stderr, flush=True)
    print(report(found, options.top))
    if options.json:
        options.json.write_text(json.dumps(found) + "\n", encoding="utf-8")
    if before is not None:
        print(f"\n{comparison(before, found)}")


if __name__ == "__main__":
    main()
