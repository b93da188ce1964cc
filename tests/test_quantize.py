"""kvlab.quantize: what it promises about codes, scales, bytes and errors, and what it refuses."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from kvlab import quantize as q


def weights(rows: int = 5, columns: int = 64, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)


@pytest.mark.parametrize("bits", range(2, 9))
def test_rows_reach_the_limit_and_err_by_half_a_scale(bits: int) -> None:
    w = weights()
    codes, scales = q.quantize_rows(w, bits)
    limit = 2 ** (bits - 1) - 1
    assert codes.dtype == np.int8 and codes.shape == w.shape and scales.shape == (5,)
    assert np.abs(codes).max(axis=1).tolist() == [limit] * 5
    np.testing.assert_allclose(scales, np.abs(w).max(axis=1) / limit, rtol=1e-6)
    assert (np.abs(q.dequantize_rows(codes, scales) - w) <= scales[:, None] / 2 * 1.0001).all()


def test_a_known_row() -> None:
    codes, scales = q.quantize_rows([[-12.7, 0.0, 6.3, 0.06]])
    assert codes.tolist() == [[-127, 0, 63, 1]]
    assert scales[0] == pytest.approx(0.1)


def test_zero_and_tiny_rows_have_finite_scales() -> None:
    codes, scales = q.quantize_rows(np.array([[0.0, 0.0], [1e-320, -1e-320], [1.0, -1.0]]))
    assert codes.tolist() == [[0, 0], [0, 0], [127, -127]]
    assert np.isfinite(scales).all() and (scales > 0).all()


def test_torch_tensors_of_every_float_are_read() -> None:
    w = torch.from_numpy(weights()).to(torch.bfloat16)
    codes, _ = q.quantize_rows(w.requires_grad_())
    assert (codes == q.quantize_rows(w.detach().double())[0]).all()


def test_the_input_stays_as_it_was() -> None:
    w = weights()
    before = w.copy()
    q.quantize_rows(w)
    q.quantize_groups(w)
    assert (w == before).all()


def test_packing_puts_the_first_code_low() -> None:
    assert q.pack_int4(np.array([1, 2, -1, -8, 7])).tolist() == [0x21, 0x8F, 0x07]


def test_every_code_survives_packing() -> None:
    codes = np.array([a for a in range(-8, 8) for _ in range(3)] + [5], np.int8)
    packed = q.pack_int4(codes)
    assert packed.dtype == np.uint8 and packed.size == 25
    back = q.unpack_int4(packed, codes.size)
    assert back.dtype == np.int8 and (back == codes).all()
    assert q.unpack_int4(packed, 0).size == 0


@pytest.mark.parametrize("group", q.GROUPS)
def test_groups_err_by_half_of_their_own_scale(group: int) -> None:
    w = weights(3, 128)
    w[0, 0] = 50.0  # one large weight spoils its own group only
    g = q.quantize_groups(w, group)
    assert g.group == group and g.packed.shape == (3, 64) and g.scales.shape == (3, 128 // group)
    error = np.abs(q.dequantize_groups(g) - w).reshape(3, -1, group)
    assert (error <= g.scales[:, :, None] / 2 * 1.0001).all()
    assert error[0, 1].max() < 0.5 < error[0, 0].max()


@pytest.mark.parametrize("group", q.GROUPS)
def test_bytes_count_the_scales(group: int) -> None:
    g = q.quantize_groups(weights(7, 192), group)
    assert g.nbytes == q.quantized_bytes(7, 192, 4, group) == 7 * 96 + 7 * 192 // group * 4
    codes, scales = q.quantize_rows(weights(7, 192))
    assert codes.nbytes + scales.nbytes == q.quantized_bytes(7, 192, 8) == 7 * 192 + 28


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: q.quantize_rows(weights(), 1), "bits must be at least 2"),
        (lambda: q.quantize_rows(weights(), 9), "from 2 to 8"),
        (lambda: q.quantize_rows(weights()[0]), "shape"),
        (lambda: q.quantize_rows(np.zeros((0, 4))), "shape"),
        (lambda: q.quantize_rows([[1.0, float("nan")]]), "NaN or inf"),
        (lambda: q.quantize_groups(weights(2, 48), 32), "48 columns"),
        (lambda: q.quantize_groups(weights(), 16), "group must be one of 32, 64"),
        (lambda: q.dequantize_rows(np.zeros((2, 3), np.int8), [1.0]), "one scale per row"),
        (lambda: q.pack_int4(np.array([8])), "between -8 and 7"),
        (lambda: q.pack_int4(np.array([-9])), "between -8 and 7"),
        (lambda: q.pack_int4(np.array([0.5])), "integers"),
        (lambda: q.unpack_int4(np.array([1], np.uint8), 3), "at most 2 codes"),
        (lambda: q.unpack_int4(np.array([1]), 1), "uint8"),
    ],
)
def test_bad_input_is_named(call, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=words):
        call()


def test_importing_it_imports_no_torch() -> None:
    code = "import sys, kvlab.quantize; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
