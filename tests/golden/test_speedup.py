"""Published and hand-derived numbers of acceptance and speedup."""

import pytest

from simulator.physics.speedup import leviathan_speedup, mean_acceptance_length_iid, speedup

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
