"""A seeded source of small choices: people, deeds and neutral sentences, from which the documents are made."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from kvlab.primer import words as w

T = TypeVar("T")


@dataclass(frozen=True)
class Person:
    name: str
    he: str
    him: str
    his: str
    kind: str


class Writer:
    """A random source with the small choices that every kind of document needs."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def pick(self, items: Sequence[T], skew: float = 0.0) -> T:
        """One item; with skew s the i-th has weight 1 / i**s (Zipf's law for s = 1)."""
        if not skew:
            return self.random.choice(items)
        return self.random.choices(items, [(i + 1) ** -skew for i in range(len(items))])[0]

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def between(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def person(self, *others: Person) -> Person:
        """A boy or a girl with a name that none of the others has."""
        taken = {p.name for p in others}
        while True:
            boy = self.chance(0.5)
            name = self.pick(w.BOYS if boy else w.GIRLS, 0.4)
            if name not in taken:
                pronouns = ("he", "him", "his", "boy") if boy else ("she", "her", "her", "girl")
                return Person(name, *pronouns)

    def deed(self, who: str) -> tuple[str, str, str, str]:
        """(verb, past, object, reason) of something that `who` would do."""
        verb = self.pick(w.HABITS[who]) if who in w.HABITS else self.pick(tuple(w.DEEDS), 0.6)
        past, objects, reason = w.DEEDS[verb]
        return verb, past, self.pick(objects, 1.2), reason


def a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def cap(text: str) -> str:
    return text[0].upper() + text[1:]


def listing(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def filler(r: Writer, *known: Person) -> str:
    """One neutral sentence that never names a person of the story."""
    kind = r.pick(range(9), 0.5)
    if kind == 0:
        who = r.pick(w.FAMILY)
        _, past, thing, reason = r.deed(who)
        return f"{cap(who)} {past} {thing}{' ' + reason if r.chance(0.2) else ''}."
    if kind == 1:
        return r.pick(w.WEATHER, 0.5)
    if kind == 2:
        return f"The {r.pick(w.ANIMALS, 0.7)} {r.pick(w.ANIMAL_DEEDS, 0.7)}."
    if kind == 3:
        deeds = ("said good morning", "waved a hand", "sang an old song", "went home early", "drank hot tea")
        return f"The {r.pick(w.JOBS, 0.7)} {r.pick(deeds, 0.7)}."
    if kind == 4:
        lines = (
            "The birds sang in the trees.",
            "A bell rang in the village.",
            "The road was long and quiet.",
            "The clouds moved slowly over the hill.",
            "Smoke came out of the chimney.",
            "Far away, a train went by.",
        )
        return r.pick(lines, 0.7)
    if kind == 5:
        other = r.person(*known)
        return f"{other.name} went to the {r.pick(w.PLACES, 0.7)}."
    if kind == 6:
        return f"They ate {r.pick(w.FOODS, 0.8)} for {r.pick(('lunch', 'dinner', 'breakfast'), 0.7)}."
    if kind == 7:
        return f"Then it was time to {r.pick(('rest', 'eat', 'go home', 'play', 'sleep', 'work'), 0.7)}."
    return f"There were {r.pick(w.NUMBERS[1:], 0.8)} boats near the {r.pick(w.PLACES, 0.7)}."


def fillers(r: Writer, low: int, high: int, *known: Person) -> list[str]:
    return [filler(r, *known) for _ in range(r.between(low, high))]
