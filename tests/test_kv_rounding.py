"""What few bits do to a cache: the study agrees with its definition, and the recorded figures with a new run."""

import pytest
import torch

from kvlab import kv_rounding
from kvlab.config import ModelConfig
from kvlab.loading import load, random_model
from kvlab.quantize import dequantize_rows, quantize_rows
from real_models import require_model

CONFIG = ModelConfig(
    vocab_size=40, d_model=16, n_layers=2, n_heads=2, n_kv_heads=1, d_head=8, d_ff=24, max_len=64, tied=False
)
IDS = [(7 * i + 3) % 40 for i in range(24)]


def test_the_spread_of_channels_by_hand() -> None:
    k = torch.ones(2, 5, 3)
    k[1, :, 0] *= -6
    assert kv_rounding.channel_spread(k).tolist() == [1, 6]
    with pytest.raises(ValueError):
        kv_rounding.channel_spread(k[0])


def test_the_error_of_k_is_that_of_rounding_its_rows() -> None:
    model = random_model(CONFIG, "cpu", torch.float32, seed=3)
    found = kv_rounding.study(model, IDS, "tiny")
    keys = kv_rounding.exact_keys(model, IDS)
    for bits in (8, 4):
        squared = power = 0.0
        for k in keys:
            rows = k.reshape(-1, 8)
            back = torch.from_numpy(dequantize_rows(*quantize_rows(rows, bits)))
            squared += float((back - rows).double().square().sum())
            power += float(rows.double().square().sum())
        assert found.row(bits, "token").key_error == pytest.approx((squared / power) ** 0.5)
        assert found.row(bits, "token").kl >= 0
    assert found.row(8, "channel").kl < found.row(4, "channel").kl
    assert found.n_tokens == 24 and found.group == 8 and len(found.spread) == 2
    with pytest.raises(ValueError, match="at least 2"):
        kv_rounding.study(model, [1])


def test_one_large_channel_is_what_makes_rounding_per_token_worse() -> None:
    """K's rows of the weights made larger in one channel, Q's smaller: the same model, but for its K."""
    errors = {}
    for factor in (1.0, 30.0):
        model = random_model(CONFIG, "cpu", torch.float32, seed=3)
        with torch.no_grad():
            for layer in model.model.layers:
                # channels 3 and 7 are turned together by RoPE
                for rows, scale in (
                    (layer.self_attn.k_proj.weight, factor),
                    (layer.self_attn.q_proj.weight, 1 / factor),
                ):
                    wide = rows.view(-1, 8, rows.shape[1])
                    wide[:, [3, 7]] *= scale
        found = kv_rounding.study(model, IDS, kinds=((4, "token"), (4, "channel")))
        errors[factor] = found.row(4, "token").kl / found.row(4, "channel").kl
        assert max(found.spread) > factor / 4
    assert errors[30.0] > 3 * errors[1.0]


def test_recorded_figures_say_what_the_notebook_says() -> None:
    content = kv_rounding.recorded()
    study = content["studies"]["smollm2"]
    assert content["read"] and content["torch"] and study.n_tokens == kv_rounding.N_TOKENS
    assert [(row.bits, row.keys) for row in study.rows] == list(kv_rounding.KINDS)
    assert study.row(4, "token").kl > 3 * study.row(4, "channel").kl


@pytest.mark.full
def test_recorded_figures_come_out_again() -> None:
    require_model("smollm2")
    model = load("smollm2", "cpu")
    new = kv_rounding.study(model, kv_rounding.story_ids(model), "smollm2", ((4, "token"), (4, "channel")))
    old = kv_rounding.recorded()["studies"]["smollm2"]
    assert new.loss == pytest.approx(old.loss, abs=0.01)
    for row in new.rows:
        assert row.kl == pytest.approx(old.row(row.bits, row.keys).kl, rel=0.2)


def test_record_has_the_form_of_the_file() -> None:
    content = kv_rounding.record([])
    assert set(content) == set(kv_rounding.recorded()) and content["studies"] == []
