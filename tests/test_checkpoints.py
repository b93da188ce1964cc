"""kvlab.checkpoints: sizes against real files, against this course's own quantised arrays, and by hand."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from kvlab.arithmetic import weight_bytes
from kvlab.checkpoints import SCHEMES, Scheme, checkpoint_bytes, checkpoint_size, published_checkpoints
from kvlab.config import ModelConfig
from kvlab.quantize import quantize_groups, quantize_rows

SMALL = ModelConfig(vocab_size=100, d_model=64, n_layers=2, n_heads=4, n_kv_heads=2, d_head=16, d_ff=128, max_len=64)


def test_real_int4_checkpoints_of_an_8b_and_a_70b() -> None:
    found = {entry.model: entry for entry in published_checkpoints()}
    assert {"llama-3-8b", "llama-3-70b"} <= set(found)
    for entry in found.values():
        size = checkpoint_bytes(entry.model, entry.scheme)
        assert float(f"{size:.{entry.digits - 1}e}") == entry.bytes, entry.name
        assert entry.source
    assert checkpoint_bytes("llama-3-70b", "awq-int4") == found["llama-3-70b"].bytes  # to the byte


def test_known_sizes() -> None:
    assert checkpoint_bytes("llama-3-70b", "fp32") == 4 * 70_553_706_496
    assert checkpoint_bytes("llama-3-8b", "bf16") == 16_060_522_496
    assert checkpoint_bytes("llama-3-70b", "int4-ideal") == 70_553_706_496 / 2
    size = checkpoint_size("llama-3-8b", "awq-int4")
    assert size.bits_per_weight == 4 + 16 / 128 + 4 / 128
    assert size.total == size.codes + size.scales + size.wide == 5_727_854_592
    assert size.wide == 2 * (2 * 128256 * 4096 + 65 * 4096)


@pytest.mark.parametrize("name", ["fp32", "bf16", "int8-ideal", "int4-ideal"])
def test_one_width_for_all_is_parameters_times_width(name: str) -> None:
    for model in (SMALL, replace(SMALL, tied=False), "llama-3.2-1b"):
        assert checkpoint_bytes(model, name) == weight_bytes(model, SCHEMES[name].bits / 8)


def test_the_formula_is_the_size_of_the_arrays() -> None:
    """Every matrix of a small model, quantised by kvlab.quantize with its float32 scales."""
    shapes = [(64, 64), (32, 64), (32, 64), (64, 64), (128, 64), (128, 64), (64, 128)] * 2  # (outputs, inputs)
    random = np.random.default_rng(0)
    matrices = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    rows = [quantize_rows(w) for w in matrices]
    groups = [quantize_groups(w, 32) for w in matrices]
    rest = checkpoint_size(SMALL, "fp32").wide
    assert rest == 4 * (100 * 64 + 5 * 64)
    by_row = Scheme("int8 with a float32 scale per row", 8, None, 32, wide_bits=32)
    assert checkpoint_bytes(SMALL, by_row) == sum(q.nbytes + s.nbytes for q, s in rows) + rest
    by_group = Scheme("int4 with a float32 scale per 32", 4, 32, 32, wide_bits=32)
    assert checkpoint_bytes(SMALL, by_group) == sum(g.nbytes for g in groups) + rest


def test_quantised_tables_and_a_group_that_does_not_divide() -> None:
    scheme = Scheme("all", 4, 48, 16, wide_bits=16, tables_wide=False)
    size = checkpoint_size(replace(SMALL, tied=False), scheme)
    # 64 inputs make 2 groups, 128 make 3; the table and the head have 64 inputs and 100 outputs each
    groups = 2 * (2 * (64 + 32 + 32 + 64 + 128 + 128) + 3 * 64) + 2 * 2 * 100
    assert size.scales == 2 * groups
    assert size.wide == 2 * 5 * 64


def test_refusals() -> None:
    with pytest.raises(ValueError, match="there is no scheme 'int5': use one of fp32, bf16"):
        checkpoint_bytes("llama-3-8b", "int5")
    with pytest.raises(ValueError, match="there is no model 'llama-9'"):
        checkpoint_bytes("llama-9", "bf16")
    with pytest.raises(ValueError, match="is not a plain Llama"):
        checkpoint_bytes("gpt-oss-20b", "awq-int4")
    for bad in ({"bits": 0}, {"bits": -4}, {"bits": 4, "group": 0}, {"bits": 4, "scale_bits": -1}):
        with pytest.raises(ValueError, match="must be"):
            Scheme("bad", **bad)


def test_it_needs_no_torch() -> None:
    code = "import sys; import kvlab.checkpoints as c; c.checkpoint_bytes('llama-3-8b', 'awq-int4'); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
