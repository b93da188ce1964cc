"""Widgets: what they show equals the plain functions, and the plain functions agree with independent oracles."""

import base64
import math
import os
import re
import subprocess
import sys
from types import ModuleType

import nbformat
import numpy as np
import pytest
import torch
from nbclient import NotebookClient

import kvlab
from helpers import words_outside
from kvlab import attention, cache, generate, model, published, widgets
from kvlab.model import Llama
from kvlab.widgets.break_it import CHOICES, CHUNK, FIRST_STEP, LENGTH, TOKENS

PNG = b"\x89PNG"
SHORT = 12


@pytest.fixture(scope="module")
def primer() -> Llama:
    return kvlab.load("primer")


def same(a: dict, b: dict) -> bool:
    arrays = {key for key in a if isinstance(a[key], np.ndarray)}
    rest = {key: a[key] for key in a if key not in arrays} == {key: b[key] for key in b if key not in arrays}
    return a.keys() == b.keys() and rest and all(np.array_equal(a[key], b[key]) for key in arrays)


def drawn(shown: widgets.Explorer) -> bytes:
    """The one picture in the panel; it must be replaced with the figure, not added."""
    (code,) = (found for child in shown.panel.children for found in re.findall('base64,([^"]+)', str(child.value)))
    picture = base64.b64decode(code)
    assert picture[:4] == PNG and picture == shown.picture
    return picture


@torch.no_grad()
def keys_computed_afresh(model: Llama, ids: list[int], layer: int, head: int) -> np.ndarray:
    """K of one head by one pass over all tokens, with the growing cache instead of the preallocated one."""
    held = cache.GrowingCache(model.config)
    model(torch.tensor(ids), held)
    return held._k[layer][0, head].numpy()


def test_stepper_states_are_those_of_generation(primer: Llama) -> None:
    states, held = widgets.stepper_states(primer, "mom washed the frame", 5)
    run = generate.generate_naive(primer, "mom washed the frame", 6)
    assert [state.next_token for state in states] == [None, *run.tokens]
    n = len(run.prompt_ids)
    assert [state.length for state in states] == [0, *range(n, n + 6)]
    assert [list(state.processed) for state in states] == [[], list(range(n)), *([i] for i in range(n, n + 5))]
    assert held.length == n + 5


@pytest.mark.parametrize("step", [1, 3, 6])
def test_stepper_keys_are_real_and_stepping_back_truncates(primer: Llama, step: int) -> None:
    states, held = widgets.stepper_states(primer, "mom washed the frame", 5)
    seen = widgets.state_at(primer, states, held, step, layer=4, head=1)
    expected = keys_computed_afresh(primer, list(states[step].held), 4, 1)
    np.testing.assert_allclose(seen["keys"], expected, atol=1e-4)
    assert seen["nbytes"] == seen["formula_bytes"] == 2 * 8 * 2 * 40 * 4 * states[step].length
    assert held.length == states[-1].length, "looking back must not cut the cache itself"


def test_stepper_ends_with_the_text(primer: Llama, monkeypatch: pytest.MonkeyPatch) -> None:
    states, _ = widgets.stepper_states(primer, "mom washed the frame", 5)
    monkeypatch.setattr(primer.tokenizer, "eos_id", states[2].next_token)
    assert widgets.stepper_states(primer, "mom washed the frame", 5)[0] == states[:3]
    shown = widgets.cache_stepper(primer, n_new=5)
    assert shown.controls["step"].max == 2


def test_stepper_shows_what_the_plain_function_returns(primer: Llama) -> None:
    shown = widgets.cache_stepper(primer, n_new=5)
    run = widgets.stepper_states(primer, "mom washed the frame", 5)
    assert same(shown.values, widgets.state_at(primer, *run, 1))
    first = drawn(shown)
    for name, value in (("step", 4), ("layer", 3), ("head", 1)):
        shown.controls[name].value = value
    assert same(shown.values, widgets.state_at(primer, *run, 4, 3, 1))
    assert drawn(shown) != first
    assert f"K: (1, 2, {run[0][4].length}, 40)" in shown.table and "equal" in shown.table
    labels = [label.get_text() for label in shown.figure.axes[0].get_yticklabels()]
    assert [label.endswith("← new") for label in labels] == [False] * (len(labels) - 1) + [True]
    shown.controls["step"].value = 0
    assert shown.values["length"] == 0 and shown.values["nbytes"] == 0 and "empty" in shown.figure.axes[0].get_title()
    drawn(shown)


def test_stepper_keeps_one_scale_of_colours_for_all_steps(primer: Llama) -> None:
    shown, ranges = widgets.cache_stepper(primer, n_new=5), set()
    for step in range(1, 7):
        shown.controls["step"].value = step
        ranges.add(shown.figure.axes[0].get_images()[0].get_clim())
        top = shown.values["reach"]
        assert np.abs(shown.values["keys"]).max() <= top
    assert ranges == {(-top, top)} and np.abs(shown.values["keys"]).max() == top


def test_stepper_takes_own_text_and_answers_bad_text_with_a_sentence(primer: Llama) -> None:
    shown = widgets.cache_stepper(primer, n_new=3)
    shown.controls["text"].value = "Costs $5 and $6"
    assert shown.message == "" and "".join(shown.values["pieces"][1:]) == "Costs $5 and $6"
    good = shown.values
    for text, word in (("  ", "empty"), ("a b " * 9000, "window")):
        shown.controls["text"].value = text
        assert word in shown.message and shown.message in shown.panel.children[-3].value
        assert shown.values is good
    shown.controls["text"].value = "dad fixed the roof"
    assert shown.message == "" and shown.panel.children[-3].value == ""


def test_sizes_of_a_published_model_by_hand() -> None:
    sizes = widgets.kv_sizes("llama-3.1-8b", 8192)
    assert sizes["kv_bytes"] == 2 * 32 * 8 * 128 * 8192 * 2 == 2**30
    assert (sizes["kv_gib"], sizes["kv_gb"]) == (1.0, 1.073741824)
    assert sizes["crossover_tokens"] == 8030261248 * 2 / 131072
    assert widgets.kv_sizes("llama-3.1-8b", 8192, 3, 4)["kv_bytes"] == 3 * 2**28
    assert widgets.kv_sizes("llama-3.1-8b", 8192, n_kv_heads=32)["kv_bytes"] == 2**32


def test_sizes_honour_windows_and_latent_rows() -> None:
    assert widgets.kv_sizes("mistral-7b-v0.1", 32768)["kv_bytes"] == 2 * 32 * 8 * 128 * 4096 * 2
    assert widgets.kv_sizes("mistral-7b-v0.1", 32768)["next_token_bytes"] == 0
    assert math.isinf(widgets.kv_sizes("mistral-7b-v0.1", 32768)["crossover_tokens"])
    assert widgets.kv_sizes("deepseek-v3", 1000)["kv_bytes"] == 61 * (512 + 64) * 1000 * 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"bits": 5}, "bits"), ({"n_kv_heads": 7}, "evenly"), ({"model": "gemma-2-9b", "n_kv_heads": 1}, "leave")],
)
def test_sizes_refuse(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        widgets.kv_sizes(**{"model": "llama-3-8b", "seq_len": 10, **changes})


def test_calculator_shows_what_the_plain_function_returns() -> None:
    shown = widgets.kv_calculator()
    assert shown.values == widgets.kv_sizes("llama-3.1-8b", 8192)
    first = drawn(shown)
    for name, value in (("seq_len", 2.0**18), ("batch", 4), ("bits", 8), ("n_kv_heads", 1)):
        shown.controls[name].value = value
    assert shown.values == widgets.kv_sizes("llama-3.1-8b", 2**18, 4, 8, 1)
    assert drawn(shown) != first and "longer than its window" in shown.table
    heights = [bar.get_height() for bar in shown.figure.axes[0].patches]
    assert heights == [shown.values["kv_gb"], shown.values["weight_gb"]]
    shown.controls["model"].value = "deepseek-v3"
    assert shown.message == "" and shown.controls["n_kv_heads"].value == 0
    assert len(shown.controls["n_kv_heads"].options) == 1
    assert shown.values == widgets.kv_sizes("deepseek-v3", 2**18, 4, 8)


@pytest.mark.parametrize("name", published.models())
def test_calculator_has_room_for_its_longest_title(name: str) -> None:
    shown = widgets.kv_calculator(name, seq_len=2**20, batch=251, bits=4)
    assert words_outside(shown.figure) == []


def test_calculator_counts_one_token_as_one() -> None:
    assert ": 1 token, batch 1" in widgets.kv_calculator(seq_len=1).figure.axes[0].get_title()


@pytest.mark.parametrize("name", published.models())
def test_calculator_takes_every_published_model(name: str) -> None:
    shown = widgets.kv_calculator(name)
    assert shown.values == widgets.kv_sizes(name, 8192)
    for _, n_kv_heads in shown.controls["n_kv_heads"].options[1:]:
        assert widgets.kv_sizes(name, 8192, n_kv_heads=n_kv_heads)["n_kv_heads"] == n_kv_heads


RED = {
    "none": set(),
    "position_off_by_one": {FIRST_STEP, CHUNK},
    "last_prompt_token_twice": {FIRST_STEP, CHUNK, LENGTH},
    "stale_cache": {TOKENS, FIRST_STEP, LENGTH},
    "values_not_appended": {TOKENS, FIRST_STEP},
    "top_left_mask": {CHUNK},
}


def kernels() -> list[object]:
    modules: list[ModuleType] = [attention, generate, model, sys.modules["kvlab.widgets.break_it"]]
    return [dict(vars(module)) for module in modules] + [dict(vars(cache.PreallocatedCache))]


@pytest.mark.parametrize("fault", CHOICES)
def test_each_fault_turns_its_checks_red_and_leaves_nothing_planted(primer: Llama, fault: str) -> None:
    before = kernels()
    found = widgets.run_fault(primer, fault, n_new=SHORT)
    assert kernels() == before
    assert {name for name, good in found["checks"].items() if not good} == RED[fault]
    assert (found["first_difference"] is None) == (found["text_right"] == found["text_wrong"])
    assert len(found["logit_differences"]) == SHORT + 1
    assert found["max_logit_difference"] == max(found["logit_differences"])


def test_a_fault_ends_when_the_run_fails(primer: Llama, monkeypatch: pytest.MonkeyPatch) -> None:
    before = cache.PreallocatedCache.update

    def fails(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(sys.modules["kvlab.widgets.break_it"], "_forced_differences", fails)
    with pytest.raises(RuntimeError):
        widgets.run_fault(primer, "stale_cache", n_new=SHORT)
    assert cache.PreallocatedCache.update is before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fault": "gremlin"}, "choose one of none"),
        ({"prompt": " "}, "empty"),
        ({"n_new": 0}, "n_new"),
        ({"n_new": 9000}, "window"),
    ],
)
def test_run_fault_refuses(primer: Llama, changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        widgets.run_fault(primer, **{"fault": "none", **changes})


def test_break_it_shows_what_the_plain_function_returns(primer: Llama) -> None:
    shown = widgets.break_it(primer, n_new=SHORT)
    assert shown.values == widgets.run_fault(primer, "none", n_new=SHORT)
    assert "FAILS" not in shown.table and "»" not in "".join(shown.table.split("\n")[:3])
    first = drawn(shown)
    shown.controls["fault"].value = "stale_cache"
    expected = widgets.run_fault(primer, "stale_cache", n_new=SHORT)
    assert shown.values == expected and drawn(shown) != first
    assert shown.table.count("FAILS") == 3 and shown.table.count("passes") == 1
    heights = [bar.get_height() for bar in shown.figure.axes[0].patches]
    assert heights == expected["logit_differences"]
    i = expected["first_difference"]
    piece = primer.tokenizer.pieces([expected["tokens_wrong"][i]])[0]
    assert f"»{piece}«" in shown.table
    shown.controls["prompt"].value = ""
    assert "empty" in shown.message and shown.values == expected


def test_break_it_can_start_with_a_fault(primer: Llama) -> None:
    shown = widgets.break_it(primer, n_new=SHORT, fault="position_off_by_one")
    assert shown.controls["fault"].value == "position_off_by_one"
    assert shown.values == widgets.run_fault(primer, "position_off_by_one", n_new=SHORT)
    assert shown.values["first_difference"] is None and shown.values["max_logit_difference"] > 1


def test_break_it_says_why_a_figure_is_empty(primer: Llama) -> None:
    shown = widgets.break_it(primer, n_new=SHORT, fault="top_left_mask")
    for fault, words in (("top_left_mask", "only when several tokens"), ("none", "rounding"), ("stale_cache", "")):
        shown.controls["fault"].value = fault
        written = " ".join(" ".join(text.get_text() for text in shown.figure.axes[0].texts).split())
        assert (words in written and words in " ".join(shown.table.split())) if words else written == ""


def test_calculator_and_notebook_round_the_crossover_alike() -> None:
    assert "122,532" in widgets.kv_calculator().table


def test_without_a_notebook_question_and_table_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    shown = widgets.kv_calculator()
    out = capsys.readouterr().out
    assert shown.question in out and shown.table in out and "1.074 GB = 1 GiB" in out


def test_static_form_has_question_described_figure_and_table() -> None:
    page = widgets.kv_calculator().html
    assert "How large is the KV cache" in page and '<img alt="Bars: KV cache 1.074 GB' in page
    assert "data:image/png;base64," in page and "1.074 GB = 1 GiB" in page and "<script" not in page


def test_without_ipywidgets_the_default_figure_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    shown = widgets.kv_calculator()
    assert shown.panel is None and shown.controls == {}
    assert shown.values == widgets.kv_sizes("llama-3.1-8b", 8192) and "data:image/png" in shown.html


def test_the_panel_is_busy_while_it_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = widgets.kv_calculator()
    busy, seen = shown.panel.children[-3], []
    compute = shown._compute

    def spy(**settings: object) -> widgets.Result:
        seen.append(busy.value)
        return compute(**settings)

    monkeypatch.setattr(shown, "_compute", spy)
    shown.controls["batch"].value = 2
    assert seen == ["Computing …"] and busy.value == ""


def test_sliders_and_text_wait_until_a_value_is_set(primer: Llama) -> None:
    for shown in (widgets.cache_stepper(primer, n_new=2), widgets.kv_calculator(), widgets.break_it(primer, n_new=2)):
        assert shown.question in shown.panel.children[0].value, "the question comes first"
        for control in shown.controls.values():
            assert control.description
            assert getattr(control, "continuous_update", False) is False


@pytest.mark.slow
def test_in_a_kernel_one_output_holds_controls_and_static_form_and_a_script_names_the_sliders() -> None:
    notebook = nbformat.v4.new_notebook()
    notebook.metadata.kernelspec = {"name": "python3", "language": "python", "display_name": "Python 3"}
    notebook.cells = [nbformat.v4.new_code_cell("from kvlab import widgets\nwidgets.kv_calculator()")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        NotebookClient(notebook).execute()
    shown, script = notebook.cells[0].outputs
    assert set(script.data) == {"text/plain", "application/javascript"} and not script.data["text/plain"]
    assert set(shown.data) == {"text/plain", "text/html", "image/png", "application/vnd.jupyter.widget-view+json"}
    assert "1.074 GB" in shown.data["text/plain"] and "data:image/png" in shown.data["text/html"]


def test_import_loads_no_widgets_and_no_plots() -> None:
    code = "import sys, kvlab.widgets; sys.exit(bool({'ipywidgets', 'matplotlib'} & set(sys.modules)))"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    assert subprocess.run([sys.executable, "-c", code], check=False, env=env).returncode == 0
