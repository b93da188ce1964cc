"""Known answers of unit 01 against the checks that learners get: right ones pass, wrong ones get their diagnosis."""

from helpers import ROOT
from kvgrade.units import read_unit

UNIT = read_unit(ROOT / "grading" / "units" / "01_kv_cache.py")
SOLUTIONS = {str(cell.name): cell.source for cell in UNIT.with_role("exercise")}
CHECKS = {str(cell.name): cell.source for cell in UNIT.with_role("check")}
EXERCISES = ("positions_processed", "KVCache", "cached_attention", "kv_cache_bytes")
