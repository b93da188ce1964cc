"""Plant every named fault in turn and list the tests that notice: `make mutate`, or `python tests/mutate.py NAME…`.

Exit 1 when a fault goes unnoticed. Each fault runs only the test files named for it here.
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kvlab.faults import FAULTS

HERE = Path(__file__).parent
WATCHERS: dict[str, list[str]] = {
    "position_off_by_one": ["test_generate.py", "test_model.py"],
    "top_left_mask": ["test_attention.py", "test_generate.py"],
    "last_prompt_token_twice": ["test_generate.py"],
    "stale_cache": ["test_cache.py", "test_generate.py"],
    "values_not_appended": ["test_cache.py", "test_generate.py"],
    "truncate_keeps_all": ["test_cache.py"],
    "truncate_one_layer": ["test_cache.py"],
    "kv_heads_tiled": ["test_attention.py", "test_model.py"],
    "unscaled_scores": ["test_attention.py"],
    "rope_neighbours": ["test_model.py"],
    "rope_unscaled": ["test_model.py"],
    "residual_left_out": ["test_trace.py", "test_model.py"],
    "final_norm_left_out": ["test_trace.py", "test_model.py"],
    "crossing_token_dropped": ["test_sampling.py"],
    "top_k_one_short": ["test_sampling.py"],
    "penalty_without_sign": ["test_sampling.py"],
    "penalty_per_occurrence": ["test_sampling.py"],
    "half_characters": ["test_streaming.py"],
    "stop_within_a_token": ["test_streaming.py"],
    "positions_one_more": ["test_arithmetic.py", "test_generate.py"],
    "shared_block_written": ["test_engine_blocks.py", "test_paged_widgets.py"],
    "block_not_copied": ["test_paged_widgets.py"],
    "shared_block_freed": ["test_engine_blocks.py", "test_paged_widgets.py"],
    "query_heads_counted": ["test_arithmetic.py"],
    "batch_forgotten": ["test_arithmetic.py"],
    "gib_for_gb": ["test_arithmetic.py"],
    "resampled_from_target": ["test_speculative_trial.py"],
    "draft_probs_unfiltered": ["test_speculative_trial.py"],
    "bonus_from_draft": ["test_speculative_trial.py"],
    "target_cache_kept": ["test_speculative_trial.py", "test_speculative.py"],
    "running_max_not_rescaled": ["test_tiled.py"],
    "padding_pooled": ["test_embeddings.py", "test_vector_widgets.py"],
    "dot_for_cosine": ["test_embeddings.py", "test_vector_widgets.py"],
    "rows_for_hidden_states": ["test_embeddings.py", "test_vector_widgets.py"],
    "prefix_forgotten": ["test_prompt_widgets.py", "test_engine_blocks.py"],
    "salt_forgotten": ["test_prompt_widgets.py", "test_providers_anthropic.py"],
    "usage_added_up": ["test_providers_rules.py"],
    "roofline_added": ["test_arithmetic.py"],
    "batch_for_one": ["test_capacity.py"],
    "window_one_more": ["test_attention.py", "test_ring.py"],
    "temperature_multiplied": ["test_sampling.py"],
    "newest_score_only": ["test_beam.py"],
    "budget_ignored": ["test_engine.py"],
    "reads_at_full_price": ["test_providers_rules.py"],
    "one_scale_for_all": ["test_quantize.py"],
    "check_blind": ["test_check.py"],
    "claims_agree": ["test_claims.py"],
}


def noticed_by(name: str) -> list[str]:
    """Ids of the tests that fail while the fault is planted."""
    command = [sys.executable, "-m", "pytest", "-q", "-rf", "--tb=no", "-p", "no:cacheprovider", "--maxfail=4"]
    command += [str(HERE / file) for file in WATCHERS[name]]
    environment = os.environ | {"KVLAB_FAULT": name, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=HERE.parent, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"pytest could not run for fault '{name}':\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return re.findall(r"^FAILED tests/(\S+)", done.stdout, re.M)


def main(names: list[str]) -> int:
    unknown = [n for n in names if n not in FAULTS]
    if unknown or set(WATCHERS) != set(FAULTS):
        print(f"unknown faults: {unknown}; faults without a named test file: {sorted(set(FAULTS) - set(WATCHERS))}")
        return 2
    names = names or list(FAULTS)
    unnoticed = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, tests in zip(names, pool.map(noticed_by, names), strict=True):
            print(f"{name:24} {'noticed by ' + ', '.join(tests[:2]) if tests else 'NOT NOTICED'}", flush=True)
            unnoticed += [] if tests else [name]
    print(f"{len(names)} faults planted, {len(unnoticed)} unnoticed{': ' + ', '.join(unnoticed) if unnoticed else ''}")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
