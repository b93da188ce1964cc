"""The instructor's tools: build the notebooks from the authored units."""

from .units import Cell, Unit, UnitError, find_units, read_unit

__all__ = ["Cell", "Unit", "UnitError", "find_units", "read_unit"]
