"""What each of the guide's 24 cards has here, read from the sources: `make cards`, or `python tests/cards.py [--plant]`.

With --plant each row's fault is planted and the first test that fails is named; that takes minutes.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass

from helpers import ROOT
from mutate import WATCHERS, noticed_by

FAULT_OF = {
    1: "positions_one_more",
    2: "values_not_appended",
    3: "position_off_by_one",
    4: "query_heads_counted",
    5: "roofline_added",
    6: "top_left_mask",
    7: "budget_ignored",
    8: "kv_heads_tiled",
    9: "shared_block_written",
    10: "window_one_more",
    11: "prefix_forgotten",
    12: "reads_at_full_price",
    13: "usage_added_up",
    14: "crossing_token_dropped",
    15: "temperature_multiplied",
    16: "newest_score_only",
    17: "penalty_without_sign",
    18: "bonus_from_draft",
    19: "one_scale_for_all",
    20: "running_max_not_rescaled",
    21: "rows_for_hidden_states",
    22: "dot_for_cosine",
    23: "final_norm_left_out",
    24: "batch_for_one",
}
COLUMNS = ("card", "unit", "title", "asserts", "claims", "exercises", "questions", "fault")


@dataclass(frozen=True)
class Card:
    """One card. asserts: in the demonstrations' cells; claims: rows of the register; questions: predictions here, and
    the unit's quiz where it has one."""

    number: int
    unit: str
    title: str
    asserts: int
    claims: int
    exercises: tuple[str, ...]
    predictions: int
    quiz: int
    shows_claims: bool
    fault: str

    def row(self) -> tuple[str, ...]:
        questions = f"{self.predictions} + {self.quiz}"
        numbers = (str(self.asserts), str(self.claims), ", ".join(self.exercises), questions, self.fault)
        return (str(self.number), self.unit[:2], self.title, *numbers)


def cards() -> list[Card]:
    """The cards of all units, by number."""
    register = json.loads((ROOT / "data" / "claims.json").read_text(encoding="utf-8"))["claims"]
    found = []
    for path in sorted((ROOT / "grading" / "units").glob("*.py")):
        quiz = json.loads((ROOT / "data" / "quizzes" / f"{path.stem}.json").read_text(encoding="utf-8"))
        # The text before the first card, and all of a unit without cards, is parts[0].
        parts = re.split(r"^# ## Card (\d+) . (.*)$", path.read_text(encoding="utf-8"), flags=re.M)
        for number, title, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            answers = re.findall(r"^# %% (?:check|exercise)=.*?(?=^# %%)", body, flags=re.M | re.S)
            found.append(
                Card(
                    int(number),
                    path.stem,
                    title,
                    body.count("assert ") - sum(part.count("assert ") for part in answers),
                    sum(claim["card"] == int(number) for claim in register),
                    tuple(re.findall(r'^# %% exercise="(\w+)"', body, flags=re.M)),
                    body.count("quiz.predict("),
                    len(quiz),
                    f"card={number}" in body,
                    FAULT_OF[int(number)],
                )
            )
    return sorted(found, key=lambda card: card.number)


def table(rows: list[tuple[str, ...]]) -> str:
    """Lines with aligned columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def main(arguments: list[str]) -> int:
    found = cards()
    if "--plant" in arguments:
        rows = [("card", "fault", "first test that fails")]
        rows += [(str(c.number), c.fault, next(iter(noticed_by(c.fault)), "NONE")) for c in found]
        print(table(rows))
        return int(any(row[2] == "NONE" for row in rows))
    print(table([(*COLUMNS, "watched by"), *((*card.row(), ", ".join(WATCHERS[card.fault])) for card in found)]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
