"""Messages between grader and jail: what goes in comes out, and no bytes at all can do more than raise WireError."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgrade.inside import wire


def there_and_back(value, tensor=None):
    data = wire.pack(value)
    header, body = wire.sizes(data[: wire.HEAD.size])
    assert len(data) == wire.HEAD.size + header + body
    start = wire.HEAD.size
    return wire.unpack(data[start : start + header], data[start + header :], tensor)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


@given(plain)
def test_plain_data_comes_back_as_it_was(value):
    back = there_and_back(value)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize("dtype", sorted(wire.DTYPES))
def test_arrays_come_back_with_dtype_and_shape(dtype):
    array = np.arange(6).reshape(2, 3)[:, ::-1].astype(dtype)
    back = there_and_back({"x": [array, array[0, 0]]})["x"]
    assert back[0].dtype == dtype and back[0].shape == (2, 3)
    np.testing.assert_array_equal(back[0], array)
    assert back[1].shape == () and back[0].flags.writeable


def test_any_byte_order_and_width():
    for dtype in (">f8", "<f8", ">i4", np.longdouble):
        np.testing.assert_array_equal(there_and_back(np.array([1, 2, 3], dtype=dtype)), [1, 2, 3])
    assert there_and_back(np.clongdouble(1 + 2j)) == 1 + 2j


def test_special_floats_and_large_integers():
    assert math.isnan(there_and_back(math.nan)) and there_and_back(-math.inf) == -math.inf
    assert there_and_back(-(2**200)) == -(2**200)
    assert there_and_back(np.array([2**70, 1], dtype=object)) == [2**70, 1]


def test_tensors_come_back_as_tensors_where_asked():
    tensor = torch.arange(4.0, requires_grad=True).reshape(2, 2)
    assert isinstance(there_and_back(tensor), np.ndarray)
    back = there_and_back([tensor, np.ones(2)], torch.from_numpy)
    assert isinstance(back[0], torch.Tensor) and isinstance(back[1], np.ndarray)
    assert there_and_back(torch.ones(2, dtype=torch.bfloat16)).dtype == np.float32


def test_stand_ins():
    assert there_and_back(wire.Handle(3)) == wire.Handle(3)
    assert there_and_back(wire.Callback("model")) == wire.Callback("model")
    assert there_and_back([object(), {1}]) == [wire.Opaque("object"), wire.Opaque("set")]
    assert there_and_back(np.array(["a"])) == wire.Opaque("array of str32")


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


class Endless(list):
    def __iter__(self):
        while True:
            yield 1


def test_what_is_too_large_is_refused_before_it_is_copied():
    itself = []
    itself.append(itself)
    wide = np.lib.stride_tricks.as_strided(np.ones(1), shape=(1 << 40,), strides=(0,))
    for value in (nested(100), itself, Endless([1]), 1 << 100_000, wide, [0] * 300_000, np.ones(9_000_000)):
        with pytest.raises(wire.WireError):
            wire.pack(value)


def frame(tree, body=b""):
    return wire.unpack(json.dumps(tree).encode(), body)


@pytest.mark.parametrize(
    "tree",
    [
        [1],
        {"l": 1},
        {"x": 1},
        {"l": [], "t": []},
        {"a": [0, 8, "float64", [2], "np"]},
        {"a": [0, 8, "object", [1], "np"]},
        {"a": [0, 8, "float64", [-1, -1], "np"]},
        {"a": [-8, 8, "float64", [1], "np"]},
        {"a": [0, 80, "float64", [10], "np"]},
        {"a": [0, 8, "float64", [1]]},
        {"a": [0, 0, "float64", [1 << 62, 1 << 62, 0, 1] * 9, "np"]},
        {"a": [0, 8, "float64", [1.0], "np"]},
        {"a": [0, 8, ["float64"], [1], "np"]},
        {"d": [[{"l": []}, 1]]},
        {"d": [[1]]},
        {"h": "1"},
        {"h": True},
        "text",
    ],
)
def test_forged_trees_are_refused(tree):
    with pytest.raises(wire.WireError):
        frame(tree, b"\0" * 8)


def test_forged_nesting_is_refused():
    for header in (b"[" * 100_000, b'{"l":[' * 1000 + b"]}" * 1000, b"1" * 10_000, b"\xff", b""):
        with pytest.raises(wire.WireError):
            wire.unpack(header, b"")


def test_forged_sizes_are_refused():
    with pytest.raises(wire.WireError):
        wire.sizes(wire.HEAD.pack(wire.MAX_HEADER + 1, 0))
    with pytest.raises(wire.WireError):
        wire.sizes(wire.HEAD.pack(0, wire.MAX_BODY + 1))


@settings(max_examples=300)
@given(st.binary(max_size=200), st.binary(max_size=40))
def test_random_bytes_give_a_value_or_a_wire_error(header, body):
    try:
        wire.unpack(header, body)
    except wire.WireError:
        return
    json.loads(header)  # what was accepted was JSON at least


def test_arrays_may_not_share_bytes_nor_skip_any():
    one = {"a": [0, 8, "float64", [1], "np"]}
    for tree in ({"l": [one, one]}, {"a": [8, 8, "float64", [1], "np"]}):
        with pytest.raises(wire.WireError):
            frame(tree, b"\0" * 16)
    assert frame({"l": [one, {"a": [8, 8, "float64", [1], "np"]}]}, b"\0" * 16)[1].shape == (1,)


def test_dicts_with_keys_that_collide_take_no_time():
    with pytest.raises(wire.WireError, match="1,000 keys"):
        wire.pack({k * (2**61 - 1): 0 for k in range(2000)})
    with pytest.raises(wire.WireError, match="too many keys"):
        frame({"d": [[k * (2**61 - 1), 0] for k in range(2000)]})


def test_texts_are_bounded_on_both_sides():
    with pytest.raises(wire.WireError, match="characters"):
        wire.pack("x" * (wire.MAX_TEXT + 1))
    with pytest.raises(wire.WireError):
        frame({"s": "x" * (wire.MAX_TEXT + 1)})


def test_shapes_of_monstrous_numbers_take_no_time():
    with pytest.raises(wire.WireError):
        frame({"a": [0, 0, "int8", [10**600] * 3000, "np"]})
    with pytest.raises(wire.WireError):
        frame({"a": [0, 0, "int8", [10**600, 0], "np"]})
