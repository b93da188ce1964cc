"""Held-out cases of KVCache. The oracle is written apart from the unit's solution and from kvlab."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator

from kvgrade.cases import Case, Exercise, Group, Mistake, call, method, shares


class Cache:
    """The oracle: one block of memory, K and V side by side."""

    def __init__(self, n_layers: int, n_kv_heads: int, max_len: int, d_head: int) -> None:
        self.rows = np.zeros((n_layers, 2, n_kv_heads, max_len, d_head))
        self.used = [0] * n_layers

    def check_layer(self, layer: int) -> None:
        if layer not in range(len(self.used)):
            raise ValueError

    def check(self, layer: int, k: np.ndarray, v: np.ndarray) -> None:
        heads, room, width = self.rows.shape[2:]
        if k.shape != v.shape or k.ndim != 3 or (k.shape[0], k.shape[2]) != (heads, width):
            raise ValueError
        if self.used[layer] + k.shape[1] > room:
            raise ValueError

    def append(self, layer: int, k: np.ndarray, v: np.ndarray) -> None:
        self.check_layer(layer)
        self.check(layer, k, v)
        self.write(layer, k, v)

    def write(self, layer: int, k: np.ndarray, v: np.ndarray) -> None:
        start = self.used[layer]
        for which, new in enumerate((k, v)):
            self.rows[layer, which][:, start : start + k.shape[1]] = new
        self.used[layer] = start + k.shape[1]

    def view(self, layer: int) -> tuple[np.ndarray, np.ndarray]:
        self.check_layer(layer)
        k, v = self.rows[layer][:, :, : self.used[layer]]
        return k, v

    def length(self, layer: int) -> int:
        self.check_layer(layer)
        return self.used[layer]

    def truncate(self, length: int) -> None:
        if length < 0 or all(length > used for used in self.used):
            raise ValueError
        self.used = [used if used < length else length for used in self.used]


class Concatenates(Cache):
    def write(self, layer: int, k: np.ndarray, v: np.ndarray) -> None:
        self.rows = self.rows.copy()
        super().write(layer, k, v)


class ViewCopies(Cache):
    def view(self, layer: int) -> tuple[np.ndarray, np.ndarray]:
        k, v = super().view(layer)
        return k.copy(), v.copy()


class CopiesV(Cache):
    def view(self, layer: int) -> tuple[np.ndarray, np.ndarray]:
        k, v = super().view(layer)
        return k, v.copy()


class KForV(Cache):
    def view(self, layer: int) -> tuple[np.ndarray, np.ndarray]:
        k, _ = super().view(layer)
        return k, k


class NegativeLayers(Cache):
    def check_layer(self, layer: int) -> None:
        if layer not in range(-len(self.used), len(self.used)):
            raise ValueError


class AppendNegative(NegativeLayers):
    def view(self, layer: int) -> tuple[np.ndarray, np.ndarray]:
        Cache.check_layer(self, layer)
        return super().view(layer)

    def length(self, layer: int) -> int:
        Cache.check_layer(self, layer)
        return super().length(layer)


class ViewNegative(NegativeLayers):
    def append(self, layer: int, k: np.ndarray, v: np.ndarray) -> None:
        Cache.check_layer(self, layer)
        super().append(layer, k, v)

    def length(self, layer: int) -> int:
        Cache.check_layer(self, layer)
        return super().length(layer)


class LengthNegative(NegativeLayers):
    def append(self, layer: int, k: np.ndarray, v: np.ndarray) -> None:
        Cache.check_layer(self, layer)
        super().append(layer, k, v)

    def view(self, layer: int) -> tuple[np.ndarray, np.ndarray]:
        Cache.check_layer(self, layer)
        return super().view(layer)

    def check_layer(self, layer: int) -> None:
        if layer not in range(-len(self.used), len(self.used)):
            raise IndexError


class IndexErrors(Cache):
    def check_layer(self, layer: int) -> None:
        if layer not in range(len(self.used)):
            raise IndexError


class OneUnused(Cache):
    def check(self, layer: int, k: np.ndarray, v: np.ndarray) -> None:
        super().check(layer, k, v)
        if self.used[layer] + k.shape[1] >= self.rows.shape[3]:
            raise ValueError


class NoRoomCheck(Cache):
    """numpy itself refuses several rows in too small a slice, and spreads one row over an empty one."""

    def check(self, layer: int, k: np.ndarray, v: np.ndarray) -> None:
        heads, room, width = self.rows.shape[2:]
        if k.shape != v.shape or k.ndim != 3 or (k.shape[0], k.shape[2]) != (heads, width):
            raise ValueError
        if self.used[layer] + k.shape[1] > room and k.shape[1] > 1:
            raise ValueError


class BroadcastsHeads(Cache):
    def check(self, layer: int, k: np.ndarray, v: np.ndarray) -> None:
        heads = self.rows.shape[2]
        if k.ndim == 3 and k.shape[0] == 1 and k.shape == v.shape:
            k = v = np.broadcast_to(k, (heads, *k.shape[1:]))
        super().check(layer, k, v)


class BroadcastsAnything(Cache):
    """Leaves the shapes to numpy, which refuses some and spreads others."""

    def check(self, layer: int, k: np.ndarray, v: np.ndarray) -> None:
        pass

    def write(self, layer: int, k: np.ndarray, v: np.ndarray) -> None:
        if self.used[layer] + k.shape[1] > self.rows.shape[3]:
            raise ValueError
        super().write(layer, k, v)


class VUnchecked(Cache):
    def check(self, layer: int, k: np.ndarray, v: np.ndarray) -> None:
        super().check(layer, k, k)

    def write(self, layer: int, k: np.ndarray, v: np.ndarray) -> None:
        fits = v.ndim == 3 and all(have in (1, want) for have, want in zip(v.shape, k.shape, strict=True))
        if not fits:
            raise ValueError
        super().write(layer, k, np.broadcast_to(v, k.shape))


class VRowsUnchecked(VUnchecked):
    def check(self, layer: int, k: np.ndarray, v: np.ndarray) -> None:
        super().check(layer, k, v)
        if v.ndim != 3 or v.shape[::2] != k.shape[::2]:
            raise ValueError


class LengthAttribute(Cache):
    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.length = list(self.used)  # type: ignore[method-assign, assignment]


class MovesV(Cache):
    """K stays where it is; V gets a new buffer with every append."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.v = self.rows[:, 1].copy()

    def write(self, layer: int, k: np.ndarray, v: np.ndarray) -> None:
        start = self.used[layer]
        super().write(layer, k, v)
        self.v = self.v.copy()
        self.v[layer][:, start : start + v.shape[1]] = v

    def view(self, layer: int) -> tuple[np.ndarray, np.ndarray]:
        k, _ = super().view(layer)
        return k, self.v[layer][:, : self.used[layer]]


class AppendsAfterTheCut(Cache):
    """truncate shortens what is seen; the next append goes where the last one ended."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.end = list(self.used)

    def check(self, layer: int, k: np.ndarray, v: np.ndarray) -> None:
        super().check(layer, k, v)
        if self.end[layer] + k.shape[1] > self.rows.shape[3]:
            raise ValueError

    def write(self, layer: int, k: np.ndarray, v: np.ndarray) -> None:
        seen, self.used[layer] = self.used[layer], self.end[layer]
        super().write(layer, k, v)
        self.end[layer], self.used[layer] = self.used[layer], seen + k.shape[1]


class WritesRowByRow(Cache):
    """Stops in the middle: what did fit stays."""

    def check(self, layer: int, k: np.ndarray, v: np.ndarray) -> None:
        super().check(layer, k[:, :0], v[:, :0])
        if k.shape != v.shape:
            raise ValueError

    def write(self, layer: int, k: np.ndarray, v: np.ndarray) -> None:
        for row in range(k.shape[1]):
            if self.used[layer] == self.rows.shape[3]:
                raise ValueError
            super().write(layer, k[:, row : row + 1], v[:, row : row + 1])


class CountsFirst(Cache):
    """Counts the new positions before it finds that there is no room for them."""

    def append(self, layer: int, k: np.ndarray, v: np.ndarray) -> None:
        self.check_layer(layer)
        try:
            self.check(layer, k, v)
        except ValueError:
            self.used[layer] += k.shape[1] if k.shape == v.shape else 0
            raise
        self.write(layer, k, v)


class TruncateSets(Cache):
    def truncate(self, length: int) -> None:
        super().truncate(length)
        self.used = [length] * len(self.used)


class TruncatesFirst(Cache):
    which = slice(0, 1)

    def truncate(self, length: int) -> None:
        before = list(self.used)
        super().truncate(length)
        before[self.which] = self.used[self.which]
        self.used = before


class TruncatesLast(TruncatesFirst):
    which = slice(-1, None)


class TruncateLenient(Cache):
    def truncate(self, length: int) -> None:
        if length < 0:
            raise ValueError
        self.used = [min(used, length) for used in self.used]


class TruncateNegative(Cache):
    def truncate(self, length: int) -> None:
        if all(length > used for used in self.used):
            raise ValueError
        self.used = [min(used, length) for used in self.used]


class TruncateNegativeToZero(TruncateNegative):
    def truncate(self, length: int) -> None:
        super().truncate(max(length, 0))


class Script:
    """Steps on one cache, written as one would use it. Rows come from a generator."""

    def __init__(self, rng: Generator, n_layers: int = 2, heads: int = 2, room: int = 8, width: int = 4) -> None:
        self.rng, self.heads, self.width, self.n_layers = rng, heads, width, n_layers
        self.steps = [call("KVCache", n_layers, heads, room, width)]

    def rows(self, n: int, heads: int | None = None, width: int | None = None) -> np.ndarray:
        return self.rng.normal(size=(heads or self.heads, n, width or self.width))

    def append(self, layer: int, n: int, twin: bool = False) -> Script:
        k = self.rows(n)
        return self.put(layer, k, k.copy() if twin else self.rows(n))

    def put(self, layer: int, k: np.ndarray, v: np.ndarray) -> Script:
        self.steps.append(method(0, "append", layer, k, v))
        return self

    def do(self, name: str, *args: Any) -> Script:
        self.steps.append(method(0, name, *args))
        return self

    def look(self, *layers: int) -> Script:
        for layer in layers:
            self.do("length", layer).do("view", layer)
        return self

    def same_memory(self, layer: int, part: int) -> Script:
        """Two views share memory, and so does one after an append."""
        first = len(self.steps)
        self.do("view", layer).do("view", layer).append(layer, 1, twin=True).do("view", layer)
        for other in (first + 1, first + 3):
            self.steps.append(shares([first, part], [other, part]))
        return self

    @property
    def case(self) -> Case:
        return Case(*self.steps)


def _one_layer(rng: Generator) -> list[Case]:
    return [
        Script(rng, n_layers=1, heads=h).append(0, 3).look(0).append(0, 1).append(0, 2).look(0).case for h in (1, 2, 3)
    ]


def _several_layers(rng: Generator) -> list[Case]:
    scripts = []
    for _ in range(3):
        script = Script(rng, n_layers=3).look(0, 2)
        for layer in rng.permutation([0, 0, 1, 2, 2]):
            script.append(int(layer), int(rng.integers(1, 4)))
        scripts.append(script.look(0, 1, 2).case)
    return scripts


def _views(rng: Generator) -> list[Case]:
    return [Script(rng).append(1, n, twin=True).same_memory(1, part).case for n in (1, 3) for part in (0, 1)]


def _full(rng: Generator) -> list[Case]:
    full = [Script(rng).append(0, n, twin=True).append(0, 8 - n, twin=True).look(0) for n in (7, 3)]
    over = [Script(rng).append(0, n, twin=True).append(0, more, twin=True).look(0, 1) for n, more in ((6, 3), (2, 7))]
    one = [Script(rng).append(1, 8, twin=True).append(1, 1, twin=True).look(1)]
    return [script.case for script in (*full, *over, *one)]


def _shapes(rng: Generator) -> list[Case]:
    cases = []
    for heads, width, v_rows in ((1, 4, 2), (3, 4, 2), (2, 3, 2), (2, 4, 1), (2, 4, 3)):
        script = Script(rng).append(0, 2, twin=True)
        script.put(0, script.rows(2, heads, width), script.rows(v_rows, heads, width)).look(0)
        cases.append(script.case)
    script = Script(rng).append(0, 2, twin=True)
    cases.append(script.put(0, script.rows(2), script.rows(2, heads=1)).look(0).case)
    script = Script(rng).append(0, 2, twin=True)
    cases.append(script.put(0, script.rows(1)[0], script.rows(1)[0]).look(0).case)
    return cases


def _layers(rng: Generator) -> list[Case]:
    cases = []
    for bad in (-1, -2, 2, 5):
        script = Script(rng).append(0, 2, twin=True).append(1, 1, twin=True)
        cases.append(script.do("view", bad).do("length", bad).append(bad, 1, twin=True).look(0, 1).case)
    return cases


def _truncate(rng: Generator) -> list[Case]:
    cases = []
    for keep in (3, 1, 0):
        script = Script(rng, n_layers=3).append(0, 5).append(1, 2).append(2, 4)
        cases.append(script.do("truncate", keep).look(0, 1, 2).append(0, 2).append(1, 1).look(0, 1, 2).case)
    return cases


def _truncate_limits(rng: Generator) -> list[Case]:
    cases = []
    for bad in (6, 8, -1, -3):
        script = Script(rng).append(0, 5, twin=True).append(1, 5, twin=True).do("truncate", bad)
        cases.append(script.look(0, 1).do("truncate", 5).look(0, 1).case)
    return cases


def _cache(*kinds: type[Cache]) -> list[dict[str, Any]]:
    return [{"KVCache": kind} for kind in kinds]


EXERCISE = Exercise(
    "KVCache",
    {"KVCache": Cache},
    groups=[
        Group("one layer", 0.5, "view gives the filled part of K and of V, in the order of the appends", _one_layer),
        Group("several layers", 0.5, "each layer has rows and a length of its own", _several_layers),
        Group("views", 0.5, "views before and after an append share memory: nothing is copied", _views),
        Group("the last positions", 0.5, "all max_len positions can be used, and not one more", _full),
        Group("shapes", 0.5, "a wrong shape raises ValueError and leaves the cache as it was", _shapes),
        Group("layers that do not exist", 0.5, "a layer that does not exist raises ValueError", _layers),
        Group("truncate", 0.5, "truncate cuts every layer to min(its length, length)", _truncate),
        Group("truncate's limits", 0.5, "a length below 0 or above every layer's raises ValueError", _truncate_limits),
    ],
    mistakes=[
        Mistake(
            "append copies", "append copies the cache: earlier views no longer share its memory", _cache(Concatenates)
        ),
        Mistake("view copies", "view returns a copy: use a slice", _cache(ViewCopies)),
        Mistake("V copied", "view returns a copy of V: use a slice for both", _cache(CopiesV)),
        Mistake("K for V", "K comes back in the place of V", _cache(KForV)),
        Mistake(
            "negative layers",
            "negative layers are no layers: numpy takes them from the end",
            _cache(NegativeLayers, AppendNegative, ViewNegative, LengthNegative),
        ),
        Mistake("IndexError", "a layer that does not exist raises ValueError, not IndexError", _cache(IndexErrors)),
        Mistake("one position unused", "the last of the max_len positions can be used too", _cache(OneUnused)),
        Mistake(
            "no room check",
            "one row into a full cache: numpy spreads it over an empty slice and says nothing",
            _cache(NoRoomCheck),
        ),
        Mistake(
            "heads broadcast",
            "one head is spread over all of them: check the shape",
            _cache(BroadcastsHeads, BroadcastsAnything),
        ),
        Mistake(
            "V unchecked", "the shape of v has to be checked as well as that of k", _cache(VUnchecked, VRowsUnchecked)
        ),
        Mistake(
            "writes before it checks",
            "a failed append leaves the cache as it was: check first, then write",
            _cache(WritesRowByRow, CountsFirst),
        ),
        Mistake(
            "length is an attribute",
            "an attribute of the object hides the method length: give it another name",
            _cache(LengthAttribute),
        ),
        Mistake("V moves", "append makes a new buffer for V: write into the one you have", _cache(MovesV)),
        Mistake(
            "appends after the cut",
            "after truncate the next append goes where the cut was",
            _cache(AppendsAfterTheCut),
        ),
        Mistake(
            "truncate sets every length",
            "truncate never makes a layer longer: min(its length, length)",
            _cache(TruncateSets),
        ),
        Mistake("truncate cuts one layer", "truncate cuts every layer", _cache(TruncatesFirst, TruncatesLast)),
        Mistake(
            "truncate takes too long a length",
            "a length larger than every layer's raises ValueError",
            _cache(TruncateLenient),
        ),
        Mistake(
            "truncate takes a negative length",
            "a negative length raises ValueError",
            _cache(TruncateNegative, TruncateNegativeToZero),
        ),
    ],
)
