"""Helpers of the ingest tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from planner.errors import InputError, Problem
from planner.ingest.load import load_trace


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Write text or bytes to a file in a fresh folder and return its path."""

    def _write(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return _write


@pytest.fixture
def refused() -> Callable[..., Problem]:
    """Load something that must be refused and return the one problem reported."""

    def _refused(*paths: str, **options: object) -> Problem:
        with pytest.raises(InputError) as caught:
            load_trace(list(paths), **options)
        assert len(caught.value.problems) == 1
        assert caught.value.exit_code == 2
        return caught.value.problems[0]

    return _refused
