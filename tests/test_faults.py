"""Planting faults: it takes effect, it ends, and every fault can be planted."""

import pytest

from kvlab import attention, faults, sampling
from kvlab.cache import PreallocatedCache
from kvlab.sampling import filters


@pytest.mark.parametrize("name", faults.FAULTS)
def test_every_fault_is_planted_and_taken_out(name: str) -> None:
    import importlib

    module, _, path = faults.FAULTS[name].target.partition(":")

    def current() -> object:
        owner: object = importlib.import_module(module)
        for part in path.split("."):
            owner = getattr(owner, part)
        return owner

    right = current()
    with faults.plant(name) as fault:
        assert current() is not right
        assert fault.summary
    assert current() is right


def test_a_fault_ends_when_the_block_fails() -> None:
    right = attention.causal_mask
    with pytest.raises(ZeroDivisionError), faults.plant("top_left_mask"):
        raise ZeroDivisionError
    assert attention.causal_mask is right


def test_names_imported_elsewhere_are_replaced_too() -> None:
    from kvlab.sampling import penalties

    assert sampling.apply_repetition_penalty is penalties.apply_repetition_penalty
    with faults.plant("penalty_per_occurrence"):
        assert sampling.apply_repetition_penalty is penalties.apply_repetition_penalty
    assert filters.nucleus_size.__module__ == "kvlab.sampling.filters"


def test_unknown_fault_lists_the_known() -> None:
    with (
        pytest.raises(ValueError, match="no fault 'gremlin': choose one of position_off_by_one"),
        faults.plant("gremlin"),
    ):
        pass


@pytest.mark.parametrize("second", ["values_not_appended", "stale_cache"])
def test_two_faults_in_one_place_are_refused_and_none_stays(second: str) -> None:
    """Ended in the wrong order, the second would put the first one back for good."""
    right = PreallocatedCache.update
    with faults.plant("stale_cache"):
        wrong = PreallocatedCache.update
        with pytest.raises(ValueError, match="where 'stale_cache' is planted already"), faults.plant(second):
            pass
        assert PreallocatedCache.update is wrong
    assert PreallocatedCache.update is right
    with faults.plant(second):
        assert PreallocatedCache.update is not right
    assert PreallocatedCache.update is right


def test_faults_in_two_places_may_end_in_any_order() -> None:
    right = attention.causal_mask, attention.scores
    first, second = faults.plant("top_left_mask"), faults.plant("unscaled_scores")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert (attention.causal_mask, attention.scores) == right
