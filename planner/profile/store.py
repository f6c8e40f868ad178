"""Keep a profile as a file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from planner.output import write_whole
from planner.profile.codec import profile_from_dict, profile_to_dict
from planner.profile.types import TraceProfile
from planner.spec.load import raise_for, read_document
from planner.spec.validate import validate


def dumps(profile: TraceProfile) -> str:
    """Return the profile as JSON text: sorted keys, a newline at the end."""
    data = profile_to_dict(profile)
    return json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def write_profile(profile: TraceProfile, path: Path, *, inputs: Iterable[str | Path] = ()) -> None:
    """Write the profile as JSON, all of it or nothing, and not over one of `inputs`.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    content = dumps(profile).encode()
    write_whole(path, lambda stream: stream.write(content), inputs=inputs)


def read_profile(path: Path) -> TraceProfile:
    """Read a profile that `write_profile` wrote.

    Raises
    ------
    InputError
        The file cannot be read or is not a profile; every problem is named.
    """
    document = read_document(path)
    raise_for(validate(document, "profile"))
    assert isinstance(document.data, dict)  # the schema says so
    return profile_from_dict(document.data)
