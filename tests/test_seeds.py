"""One stored seed per unit and class."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from kvgrade import seeds


def test_a_seed_is_drawn_once_and_kept(tmp_path):
    first = seeds.seed(tmp_path, "01_kv_cache")
    other = seeds.seed(tmp_path, "02_prefill_decode")
    assert seeds.seed(tmp_path, "01_kv_cache") == first != other
    assert json.loads((tmp_path / seeds.NAME).read_text()) == {"01_kv_cache": first, "02_prefill_decode": other}
    assert {path.name for path in tmp_path.iterdir()} == {seeds.NAME, f".{seeds.NAME}.lock"}


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


def test_graders_that_start_at_once_agree(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        drawn = list(pool.map(lambda i: (i % 4, seeds.seed(tmp_path, f"0{i % 4}")), range(64)))
    assert len(set(drawn)) == 4
    assert len(json.loads((tmp_path / seeds.NAME).read_text())) == 4
