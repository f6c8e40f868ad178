"""Find the schemas, templates and catalogues that ship with the package.

In a checkout `schemas/` and `templates/` lie beside the package, in an installed wheel inside it.
"""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def resource_dir(kind: str) -> Path:
    """Return the folder of `kind` ("schemas" or "templates").

    Raises
    ------
    FileNotFoundError
        The installation is broken: neither the wheel's copy nor the checkout's exists.
    """
    for candidate in (PACKAGE / "_resources" / kind, PACKAGE.parent / kind):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"planner was installed without its {kind}; reinstall it")


def data_dir(kind: str) -> Path:
    """Return the catalogue folder of `kind` ("gpus", "models", "engines" or "calibration")."""
    return PACKAGE / "data" / kind
