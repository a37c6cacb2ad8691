"""Every source that a target or a drafter names stands in a bibliography of the repository."""

import re
from pathlib import Path

import pytest

import hw_profiles
import simulator.specs
from simulator.drafters import list_drafters, load_drafter_spec
from simulator.specs import NAMED_SCHEMES, list_targets, load_target

MODELS = Path(simulator.specs.__file__).parent.parent / "models"
BIBLIOGRAPHIES = (MODELS / "references.bib", Path(hw_profiles.__file__).parent / "references.bib")
KEYS = [
    key for path in BIBLIOGRAPHIES for key in re.findall(r"^@\w+\{([^,\s]+),", path.read_text(), re.MULTILINE)
]


def named_sources(value):
    """All ``source`` and ``sources`` entries of a nested model dump."""
    if isinstance(value, dict):
        own = [value["source"]] if "source" in value else []
        own += list(value.get("sources", ()))
        return own + [each for part in value.values() for each in named_sources(part)]
    return []


def test_keys_are_unique():
    assert len(KEYS) == len(set(KEYS))


@pytest.mark.parametrize("name", list_targets())
def test_targets(name):
    found = named_sources(load_target(name).model_dump())
    assert found
    assert set(found) <= set(KEYS)


@pytest.mark.parametrize("name", list_drafters())
def test_drafters(name):
    found = named_sources(load_drafter_spec(name).model_dump())
    assert found or name == "none"
    assert set(found) <= set(KEYS)


def test_named_schemes():
    assert {scheme.source for scheme in NAMED_SCHEMES.values()} <= set(KEYS)
    assert "user_file" in KEYS
