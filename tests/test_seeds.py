"""One stored seed per unit and class."""

import json

import pytest

from kvgrade import seeds


def test_a_seed_is_drawn_once_and_kept(tmp_path):
    first = seeds.seed(tmp_path, "01_kv_cache")
    other = seeds.seed(tmp_path, "02_prefill_decode")
    assert seeds.seed(tmp_path, "01_kv_cache") == first != other
    assert json.loads((tmp_path / seeds.NAME).read_text()) == {"01_kv_cache": first, "02_prefill_decode": other}
    assert [path.name for path in tmp_path.iterdir()] == [seeds.NAME]


@pytest.mark.parametrize("text", ["{", "[]", '{"01_kv_cache": "7"}', '{"01_kv_cache": true}'])
def test_a_damaged_file_is_not_replaced(tmp_path, text):
    path = tmp_path / seeds.NAME
    path.write_text(text)
    with pytest.raises(ValueError, match="damaged"):
        seeds.seed(tmp_path, "01_kv_cache")
    assert path.read_text() == text


def test_classes_have_their_own_seeds(tmp_path):
    drawn = set()
    for name in "abcdefgh":
        (tmp_path / name).mkdir()
        drawn.add(seeds.seed(tmp_path / name, "01_kv_cache"))
    assert len(drawn) == 8
