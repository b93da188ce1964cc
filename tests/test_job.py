"""One hand-in as a job: its address, its messages, and that grading it is pure."""

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from class_runs import MATERIAL
from helpers import ROOT, require
from hostile.model import MAIN, POINTS, UNIT, dump, filled
from kvgrade import cases, grade, version
from kvgrade.job import GraderFault, Job, Options, Refused, run
from kvgrade.results import Result
from kvgrade.version import grader_version

RELEASED = (ROOT / "notebooks" / MAIN).read_bytes()


def job(data: bytes, **changes: object) -> Job:
    known = {"released": RELEASED, "seed": 7, "grader": grader_version(UNIT), "options": Options(isolated=False)}
    return Job(UNIT, data, **({"refused": "", **known} | changes))  # type: ignore[arg-type]


def plain(result: Result) -> Result:
    return dataclasses.replace(result, measured={})


def test_the_key_covers_all_that_decides_a_result() -> None:
    first = job(b"one")
    others = [
        job(b"two"),
        job(b"one", refused="It is a link."),
        job(b"one", released=RELEASED + b" "),
        job(b"one", seed=8),
        job(b"one", grader="0" * 64),
        job(b"one", exercises=("KVCache",)),
        job(b"one", options=Options(isolated=True)),
        job(b"one", options=Options(isolated=False, seconds=5.0)),
        job(b"one", options=Options(isolated=False, case_seconds=5.0)),
        dataclasses.replace(first, unit="02_prefill_decode"),
    ]
    assert len({one.key for one in [first, *others]}) == 1 + len(others)
    assert len(others) == len(dataclasses.fields(Options)) - 1 + len(dataclasses.fields(Job))
    assert job(b"one").key == first.key


@given(st.binary(max_size=200), st.text(max_size=50), st.lists(st.sampled_from(list(POINTS)), max_size=4))
def test_a_job_survives_its_message(data: bytes, refused: str, exercises: list[str]) -> None:
    one = Job(UNIT, data, refused, b"{}", 1, "0", tuple(exercises), Options(False, 3.5, 0.5))
    again = Job.from_json(one.to_json())
    assert again == one and again.key == one.key


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{}", b"\xff", b'{"unit": 1}'])
def test_what_is_no_job_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="no job"):
        Job.from_json(data)
    content = json.loads(job(b"").to_json())
    for change in ({"more": 1}, {"hand_in": "*"}, {"exercises": 3}, {"options": {"x": 1}}):
        with pytest.raises(ValueError, match="no job"):
            Job.from_json(json.dumps(content | change).encode())


def test_grading_is_pure_and_says_what_the_grader_says() -> None:
    one = job(dump(filled(MATERIAL, MATERIAL.wrong)))
    first, second = run(one), run(Job.from_json(one.to_json()))
    assert plain(first) == plain(second)
    assert plain(Result.from_json(first.to_json())) == plain(first)
    direct = grade.grade(UNIT, first.answers, 7, isolated=False)
    assert {name: mark.points for name, mark in first.marks.items()} == {
        name: verdict.points for name, verdict in direct.verdicts.items()
    }
    for name, mark in first.marks.items():
        assert sum(group.points for group in mark.groups) == mark.possible == POINTS[name]
        assert sum(group.points for group in mark.groups if group.right) == mark.points < mark.possible
        assert mark.text.startswith(f"NOT ISOLATED: {grade.NOT_ISOLATED[14:]}\n{name}: {mark.points:g} of ")
    assert first.key == one.key and not first.isolated and first.measured["seconds"] > 0


def test_a_hand_in_leaves_nothing_for_the_next() -> None:
    """Cases are drawn, and oracles run, once for all hand-ins in a process."""
    right, wrong = (job(dump(filled(MATERIAL, answers))) for answers in (MATERIAL.right, MATERIAL.wrong))
    results = [plain(run(one)) for one in (wrong, right, wrong, right)]
    assert results[0] == results[2] and results[1] == results[3]
    assert results[1].points == sum(POINTS.values())


NO_TORCH = """
import sys
from kvgrade import grade

answers = {"kv_cache_bytes": "kv_cache_bytes = lambda *sizes: 1"}
report = grade.grade("01_kv_cache", answers, 7, isolated=False, only=list(answers))
print(report.verdicts["kv_cache_bytes"].diagnoses != [], "torch" in sys.modules)
"""


def test_a_grader_imports_torch_only_for_cases_that_need_it() -> None:
    """Its import takes longer than grading some hand-ins."""
    done = subprocess.run([sys.executable, "-c", NO_TORCH], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]


@pytest.mark.slow
def test_in_a_jail_it_is_the_same() -> None:
    require("bubblewrap")
    answers = {"KVCache": MATERIAL.right["KVCache"]}
    jailed = run(job(dump(filled(MATERIAL, answers)), options=Options()))
    assert {name: mark.points for name, mark in jailed.marks.items()} == dict.fromkeys(POINTS, 0.0) | {"KVCache": 4.0}
    assert jailed.isolated and list(jailed.answers) == ["KVCache"]
    assert not any("NOT ISOLATED" in mark.text for mark in jailed.marks.values())


def test_only_some_exercises() -> None:
    notebook = filled(MATERIAL, MATERIAL.right)
    notebook["cells"] = [c for c in notebook["cells"] if "answer-kv_cache_bytes" not in str(c["metadata"])]
    whole = run(job(dump(notebook)))
    part = run(job(dump(notebook), exercises=("positions_processed",)))
    assert part.marks == {"positions_processed": whole.marks["positions_processed"]}
    assert [fact for fact in whole.facts if fact.startswith("kv_cache_bytes: no answer cell")]
    assert not part.facts, "what was noted about another exercise is not told here"


def test_what_can_not_be_read_costs_its_owner_all_and_says_why() -> None:
    for one, why in (
        (job(b"no notebook"), "can't be read as JSON"),
        (job(b"", refused="The file has 99 bytes too many."), "99 bytes too many"),
    ):
        result = run(one)
        assert why in result.unreadable and not result.answers
        assert set(result.marks) == set(POINTS) and result.points == 0
        assert all(why in mark.text for mark in result.marks.values())


def test_another_grader_is_refused() -> None:
    with pytest.raises(Refused, match="another version of the grader"):
        run(job(b"", grader="0" * 64))


def test_a_fault_of_the_grader_is_no_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr(grade, "_mark", broken)
    with pytest.raises(GraderFault, match=r"positions_processed: .*OSError"):
        run(job(dump(filled(MATERIAL, MATERIAL.right))))


def test_the_version_follows_cases_and_grader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "grading" / "cases", tmp_path / "grading" / "cases")
    for name in version.DATA:
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "data" / name, tmp_path / "data" / name)
    monkeypatch.setattr(version, "ROOT", tmp_path)
    fresh = version.grader_version.__wrapped__
    before = fresh(UNIT)
    assert before == grader_version(UNIT) == fresh(UNIT)
    seen = {before}
    for name in (f"{UNIT}/KVCache.py", "typed_results.py", "../../data/exercises.json"):
        path = tmp_path / "grading" / "cases" / name
        path.write_text(path.read_text() + "\n")
        seen.add(fresh(UNIT))
    assert len(seen) == 4
    other = tmp_path / "grading" / "cases" / "02_prefill_decode" / "plan_step.py"
    other.write_text(other.read_text() + "\n")
    assert fresh(UNIT) in seen, "the cases of another unit decide nothing here"
    monkeypatch.setattr(version, "version", lambda name: "0")
    assert fresh(UNIT) not in seen


@pytest.mark.slow
def test_no_module_that_marks_is_left_out_of_the_version() -> None:
    script = (
        "import sys\nfrom kvgrade.job import *\nfrom kvgrade.version import grader_version\n"
        f"released = open({str(ROOT / 'notebooks' / MAIN)!r}, 'rb').read()\n"
        f"run(Job({UNIT!r}, released.replace(b'YOUR CODE', b'MY CODE'), '', released, 1, grader_version({UNIT!r}),"
        " options=Options(isolated=False)))\n"
        "print(*sorted(m for m in sys.modules if m.startswith('kvgrade.')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    used = {name.split(".")[1] for name in done.stdout.split()}
    assert {"cases", "verdict", "session", "inside", "job"} <= used
    assert not used & {*version.NO_MARK, *version.NO_MARK_FOLDERS}
    assert set(cases.load(UNIT)) == set(POINTS)
