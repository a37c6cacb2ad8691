"""Published and hand-derived numbers of acceptance, speedup and experts."""

import pytest

from simulator.physics.speedup import (
    acceptance_rate_from_length,
    leviathan_speedup,
    mean_acceptance_length_iid,
    mean_acceptance_length_positional,
    speedup,
)

# Leviathan et al., arXiv:2211.17192, equation 1: (1 - a^(K+1)) / (1 - a) for K = 1..8, rounded to two digits.
TABLE = {
    0.6: (1.60, 1.96, 2.18, 2.31, 2.38, 2.43, 2.46, 2.47),
    0.7: (1.70, 2.19, 2.53, 2.77, 2.94, 3.06, 3.14, 3.20),
    0.8: (1.80, 2.44, 2.95, 3.36, 3.69, 3.95, 4.16, 4.33),
    0.9: (1.90, 2.71, 3.44, 4.10, 4.69, 5.22, 5.70, 6.13),
}


def test_alpha_08_k_4_by_hand():
    # (1 - 0.8^5) / (1 - 0.8) = 0.67232 / 0.2
    assert mean_acceptance_length_iid(acceptance_rate=0.8, draft_length=4) == pytest.approx(3.3616, abs=1e-12)


@pytest.mark.parametrize("alpha", TABLE)
def test_table_of_lengths(alpha):
    found = [mean_acceptance_length_iid(acceptance_rate=alpha, draft_length=k) for k in range(1, 9)]
    assert found == pytest.approx(TABLE[alpha], abs=0.0051)


# vLLM continuous integration, Gemma 4 E4B with its assistant, two drafts, greedy: tokens per step -> alpha
# (MT-Bench, HumanEval, GSM8K): 1 + a + a^2 = tau.
@pytest.mark.parametrize(
    ("tau", "length", "alpha"),
    [(2.28, 2, 0.737), (2.68, 2, 0.889), (2.67, 2, 0.886)],
)
def test_equivalent_acceptance_rates(tau, length, alpha):
    found = acceptance_rate_from_length(mean_acceptance_length=tau, draft_length=length)
    assert found == pytest.approx(alpha, abs=0.0015)


def test_positional_lengths_of_published_chains():
    # Gemma 4 26B-A4B, four drafts: conditional 0.844 0.710 0.643 0.704 -> 3.10 tokens per step
    # (eugr/spark-vllm-docker#343); EAGLE-3 on Llama 3.1 8B: S = 0.730 0.521 0.355 -> 2.60 (vLLM CI).
    assert mean_acceptance_length_positional(
        conditional_acceptance_rate=(0.844, 0.710, 0.643, 0.704)
    ) == pytest.approx(3.10, abs=0.005)
    conditional = (0.730, 0.521 / 0.730, 0.355 / 0.521)
    assert mean_acceptance_length_positional(conditional_acceptance_rate=conditional) == pytest.approx(2.606)


def test_speedup_with_verify_growth_by_hand():
    # tau 3.3616, K 4, c 0.05, v(5) 1.02, o 0.03 -> 3.3616 / 1.25
    gain = speedup(
        mean_acceptance_length=3.3616,
        draft_length=4,
        draft_cost_ratio=0.05,
        verify_cost_ratio=1.02,
        overhead_ratio=0.03,
    )
    assert gain == pytest.approx(3.3616 / 1.25)
    plain = leviathan_speedup(acceptance_rate=0.8, draft_length=4, draft_cost_ratio=0.05)
    assert plain == pytest.approx(3.3616 / 1.2)
