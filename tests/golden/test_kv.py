"""KV cache of the Gemma 4 family in bf16: arithmetic from the configurations in google-deepmind/gemma."""

import pytest

from simulator.specs import load_target


def test_e2b_growth_and_cap():
    target = load_target("gemma_4_e2b@bf16")
    local, far = target.layers[0], target.layers[4]
    assert (target.layer_kv_bytes(local), target.layer_kv_bytes(far)) == (1024, 2048)
    assert target.kv_bytes_per_token() == 6144  # 3 global producers
    assert target.kv_window_cap_bytes() == 12 * 1024 * 512  # 6.3 MB


def test_e4b_growth_and_cap():
    target = load_target("gemma_4_e4b@bf16")
    assert target.kv_bytes_per_token() == 16384
    assert target.kv_window_cap_bytes() / 1e6 == pytest.approx(21.0, abs=0.05)


@pytest.mark.parametrize(
    ("name", "context", "resident_mb", "read_mb"),
    [
        ("gemma_4_e2b", 2048, 18.9, 44),
        ("gemma_4_e2b", 4096, 31.5, 73),
        ("gemma_4_e2b", 32768, 208, 484),
        ("gemma_4_e4b", 2048, 54.5, 95),
        ("gemma_4_e4b", 4096, 88, 154),
        ("gemma_4_e4b", 32768, 558, 976),
    ],
)
def test_resident_and_read(name, context, resident_mb, read_mb):
    target = load_target(f"{name}@bf16")
    assert target.kv_bytes(context) / 1e6 == pytest.approx(resident_mb, rel=0.005)
    assert target.kv_read_bytes(context) / 1e6 == pytest.approx(read_mb, rel=0.01)


def test_below_the_window_everything_grows():
    target = load_target("gemma_4_e2b@bf16")
    assert target.kv_bytes(100) == 100 * (3 * 2048 + 12 * 1024)


def test_smollm2():
    """30 layers of 3 key heads of 64: 2 x 30 x 192 x 2 B = 23,040 B per token, no window."""
    target = load_target("smollm2_135m@bf16")
    assert target.kv_bytes_per_token() == 23040
    assert target.kv_window_cap_bytes() == 0
    assert target.kv_bytes(1000) == target.kv_read_bytes(1000) == 23_040_000


def test_arrays():
    np = pytest.importorskip("numpy")
    target = load_target("gemma_4_e2b@bf16")
    contexts = np.array([100.0, 512.0, 4096.0])
    assert target.kv_bytes(contexts).tolist() == [target.kv_bytes(float(c)) for c in contexts]
    assert target.kv_read_bytes(contexts).tolist() == [target.kv_read_bytes(float(c)) for c in contexts]
