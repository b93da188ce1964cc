"""benchmarks/notebooks.py: it counts what it says, and its comparison tells less work from the same work. No time is judged."""

import importlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import kvlab
from helpers import code_cell, write_notebook

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("notebooks")


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("notebook_probe")


def test_a_picture_counts_once_however_it_is_drawn(probe: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib import image
    from matplotlib.figure import Figure

    from kvlab.picture import png

    monkeypatch.setattr(image, "imsave", probe._counting(image.imsave, probe._figure))
    monkeypatch.setattr(probe, "counts", probe.Counter())
    png(Figure())
    assert probe.counts == {"figures": 1}
    Figure(layout="constrained").savefig(io.BytesIO(), format="png", bbox_inches="tight")
    assert probe.counts == {"figures": 2}


def test_clocks_count_but_not_those_that_run_for_a_time(probe: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    from kvlab import profiling

    monkeypatch.setattr(profiling, "seconds_of", probe._counting(profiling.seconds_of, probe._timed))
    monkeypatch.setattr(probe, "counts", probe.Counter())
    profiling.read_bandwidth("cpu", 0.01)
    assert probe.counts == {}
    profiling.measure(lambda: None, repeats=3)
    assert probe.counts["timed calls"] >= 3


def test_passes_and_rows_are_those_of_the_model(probe: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    from kvlab.model import Mlp

    model = kvlab.load("primer", "cpu")
    monkeypatch.setattr(Mlp, "forward", probe._counting(Mlp.forward, probe._layer))
    monkeypatch.setattr(probe, "counts", probe.Counter())
    model(torch.tensor([[1, 2, 3], [4, 5, 6]]))
    layers = model.config.n_layers
    assert probe.counts == {"layer passes": layers, "layer rows": 6 * layers}


def test_what_is_counted_exists(probe: ModuleType) -> None:
    for module, attribute, _ in probe._PLACES:
        owner: Any = importlib.import_module(module)
        for part in attribute.split("."):
            owner = getattr(owner, part)
        assert callable(owner)


def row(cpu: float, **work: int) -> dict[str, Any]:
    return {"wall": cpu, "cpu": cpu, "source": "x = 1\ny = 2", **work}


def test_the_comparison_names_work_that_is_left_out(script: ModuleType) -> None:
    before = {"01_a": {"start": 1.0, "wall": 9.0, "cells": [row(3.0, figures=2), row(2.0)]}}
    same = {"01_a": {"start": 1.0, "wall": 9.0, "cells": [row(1.0, figures=2)]}}
    less = {"01_a": {"start": 1.0, "wall": 9.0, "cells": [row(1.0, figures=1)]}}
    assert script.comparison(before, same).splitlines()[1].split() == ["01_a", "5.0", "1.0", "4.0", "the", "same"]
    assert script.comparison(before, less).endswith("figures: 2 and now 1")
    assert "code cell 1: x = 1" in script.report(before, 5)


@pytest.mark.slow
def test_it_runs_a_notebook_and_keeps_the_result(tmp_path: Path) -> None:
    parameters = code_cell("p", "FAST = False", tags=["parameters"])
    work = "import torch\nimport kvlab\nmodel = kvlab.load('primer', 'cpu')\nassert FAST"
    pass_it = "model(torch.tensor([1, 2, 3]))"
    write_notebook(tmp_path / "01_a.ipynb", [parameters, code_cell("a", work), code_cell("b", pass_it)])
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "KVLAB_NOTEBOOKS": str(tmp_path)}
    command = [sys.executable, str(FOLDER / "notebooks.py"), "01", "--json", str(tmp_path / "kept.json")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    cells = json.loads((tmp_path / "kept.json").read_text())["01_a"]["cells"]
    assert len(cells) == 4 and cells[3]["layer rows"] == 3 * cells[3]["layer passes"] > 0
    assert "01_a" in done.stdout and "imports s" in done.stdout
