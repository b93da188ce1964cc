"""The register of claims: every computable value is computed anew, and a changed one is noticed."""

import copy
import importlib
from typing import Any

import pytest

from kvlab import claims

ROWS = claims.rows()
COMPUTED = [row for row in ROWS if "compute" in row]
OTHERS = [row for row in ROWS if "compute" not in row]


def ident(row: claims.Row) -> str:
    return str(row["id"])


def numbers(value: Any) -> list[float]:
    """All numbers in a nested value, booleans left out."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return []
    if isinstance(value, dict):
        return [n for inner in value.values() for n in numbers(inner)]
    if isinstance(value, list):
        return [n for inner in value for n in numbers(inner)]
    return [value]


@pytest.mark.parametrize("row", COMPUTED, ids=ident)
def test_computed_values_are_recomputed(row: claims.Row) -> None:
    assert claims.agrees(row), f"{row['id']}: register {row['ours']}, computed {claims.evaluate(row)}"


@pytest.mark.parametrize("row", COMPUTED, ids=ident)
def test_a_changed_value_is_noticed(row: claims.Row) -> None:
    for factor in (0.99, 1.01):
        assert not claims.agrees({**row, "ours": row["ours"] * factor})


@pytest.mark.parametrize("row", COMPUTED, ids=ident)
def test_no_argument_gives_the_value_away(row: claims.Row) -> None:
    literals = numbers(row["compute"])
    assert not any(abs(literal - row["ours"]) <= 1e-9 * abs(row["ours"]) for literal in literals)


@pytest.mark.parametrize("row", OTHERS, ids=ident)
def test_the_rest_is_measured_or_cited(row: claims.Row) -> None:
    assert claims.evaluate(row) is None
    assert "measured_by" in row or (row["date"] and len(row["source"]) > 10)
    with pytest.raises(ValueError, match="nothing to compare"):
        claims.agrees(row)


@pytest.mark.parametrize("row", [row for row in ROWS if "measured_by" in row], ids=ident)
def test_what_measures_a_claim_exists(row: claims.Row) -> None:
    module, _, name = row["measured_by"].rpartition(".")
    assert callable(getattr(importlib.import_module(module), name))


def test_wrong_numbers_differ_from_ours() -> None:
    for row in COMPUTED:
        if row["verdict"] == "wrong" and not isinstance(row["guide"], str):
            assert row["guide"] != pytest.approx(row["ours"], rel=0.01), row["id"]


def test_register_covers_the_first_cards() -> None:
    wrong = {row["id"] for row in ROWS if row["verdict"] == "wrong"}
    assert {"00.02", "00.03", "01.03", "01.15", "03.03", "04.07", "04.10", "04.11", "04.13", "S004.07"} <= wrong
    assert {row["card"] for row in ROWS} >= {0, 1, 2, 3, 4}


def test_lookup() -> None:
    assert claims.row("04.11")["verdict"] == "wrong"
    assert claims.evaluate("04.09") == pytest.approx(122_532, rel=1e-5)
    assert claims.evaluate("01.01") == 20100
    assert {row["card"] for row in claims.rows(4)} == {4}
    with pytest.raises(ValueError, match=r"99\.99"):
        claims.row("99.99")
    with pytest.raises(ValueError, match="no claims of card 77"):
        claims.rows(77)


def test_table_is_folded_and_has_both_forms() -> None:
    bundle = claims.show(card=4, every=True)._repr_mimebundle_()
    page, text = bundle["text/html"], bundle["text/plain"]
    assert page.startswith("<details><summary>") and page.endswith("</details>")
    assert page.count("<tr>") == len(claims.rows(4)) + 1
    for form in (page, text):
        assert "wrong" in form and "805.3 GB" in form and claims.GUIDE.split('"')[1].split(":")[0] in form
        assert "$" not in form
        assert form.count("vague: cannot be tested as it is said") == 1
    assert "&#x27;GPT-4 level&#x27;" in page  # escaped
    chosen = claims.show(ids=["04.07"])
    assert chosen.rest is None and len(chosen.key.rows) == 1 and chosen.key.rows[0][2] == "16.06 GB of 16-bit weights"


def test_bytes_are_shown_in_both_units() -> None:
    assert "16 GiB" in claims.show(ids=["04.05"]).key.rows[0][2]


@pytest.mark.parametrize(
    ("claim_id", "said", "ours"),
    [
        ("00.02", "O(n^2)", "growth exponent of naive attention: 3 (n^3)"),
        ("S004.01", "3 to 2", "growth exponent of the naive loop at 64 tokens: 2.23 (n^2.23)"),
        ("01.02", "200 instead of 20,100", "100.5 times fewer positions"),
        ("S002.01", "n^3", "0.3333 x n^3"),
        (
            "15.05",
            "probability of cat at T = 2, four tokens: 0.342",
            "probability of cat at T = 2, four tokens: 0.5767",
        ),
        ("04.07", "8 GB", "16.06 GB of 16-bit weights"),
    ],
)
def test_numbers_read_as_a_person_says_them(claim_id: str, said: str, ours: str) -> None:
    assert claims.show(ids=[claim_id]).key.rows[0][1:3] == (said, ours)


@pytest.mark.parametrize("card", [1, 2, 4])
def test_of_a_long_card_the_few_that_matter_are_shown_and_the_rest_folds(card: int) -> None:
    shown, all_rows = claims.show(card=card), claims.rows(card)
    key = [row for row in all_rows if row.get("key")]
    assert 3 <= len(key) <= 4 and shown.rest is not None
    page, text = shown.to_html(), shown.to_text()
    outer, inner = page.split(f"<details><summary>{len(all_rows) - len(key)} more claims</summary>")
    assert outer.count("<tr>") == len(key) + 1 and inner.count("<tr>") == len(all_rows) - len(key) + 1
    assert page.count("<details>") == page.count("</details>") == 2 and page.endswith("</details></details>")
    assert text.endswith(f"{len(all_rows) - len(key)} more claims: claims.show(card={card}, every=True) shows them.")
    assert str(shown) == text and 4 * len(text) < 3 * len(claims.show(card=card, every=True).to_text())


def test_a_short_card_is_one_table() -> None:
    assert claims.show(card=3).rest is None and len(claims.show(card=3).key.rows) == len(claims.rows(3))


CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"verdict": "so-so"}, "verdict"),
    ({"said_by": "somebody"}, "said_by"),
    ({"id": "4.7"}, "an id looks like"),
    ({"card": 25}, "cards 1 to 24"),
    ({"card": True}, "'card' must be int"),
    ({"note": " "}, "'note' is empty"),
    ({"date": "30 Nov"}, "a date looks like"),
    ({"key": 1}, "'key' must be bool"),
    ({"colour": "red"}, "unknown field 'colour'"),
    ({"ours": "many"}, "must be a number"),
    ({"measured_by": "kvlab.scratch"}, "both 'compute' and 'measured_by'"),
    ({"compute": {"fn": "os.system", "args": {}}}, "dotted name of a kvlab function"),
    ({"compute": {"fn": "kvlab.arithmetic.gb"}}, "compute needs 'args'"),
    ({"compute": {"fn": "kvlab.arithmetic.gb", "args": {}, "times": 2}}, "unknown keys times"),
    ({"compute": {"fn": "kvlab.arithmetic.gb", "args": {"n_bytes": {"fn": "eval", "args": {}}}}}, "dotted name"),
]


@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_schema_names_what_is_wrong(change: dict[str, Any], message: str) -> None:
    row = {**copy.deepcopy(dict(claims.row("04.07"))), **change}
    with pytest.raises(ValueError, match=message):
        claims.validate([row])


def test_schema_wants_all_fields_unique_ids_and_an_origin() -> None:
    row = dict(claims.row("04.07"))
    claims.validate([row])
    with pytest.raises(ValueError, match="twice"):
        claims.validate([row, row])
    with pytest.raises(ValueError, match="lacks 'unit'"):
        claims.validate([{k: v for k, v in row.items() if k != "unit"}])
    with pytest.raises(ValueError, match="neither computed nor measured"):
        claims.validate([{k: v for k, v in row.items() if k != "compute"}])


def test_nested_calls_scale_and_over() -> None:
    inner = {"fn": "kvlab.arithmetic.kv_bytes_per_token", "args": {"model": "llama-3-8b"}}
    half = {"fn": "kvlab.arithmetic.gib", "args": {"n_bytes": inner}, "scale": 2**30, "over": inner}
    assert claims.evaluate({"compute": half}) == 1.0
