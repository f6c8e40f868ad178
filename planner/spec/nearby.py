"""What a user may have meant by the name of a file that does not exist."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

CLOSE = 0.7  # similarity from which a name counts as a slip of the hand


def nearest_path(path: Path) -> str:
    """Return a hint for a path that does not exist: the nearest that does, or where it ends.

    The first part that is missing is compared with what lies beside it; what follows is kept where
    it exists there too.
    """
    parent = path.parent
    missing, rest = path.name, Path()
    while not parent.is_dir() and parent != parent.parent:
        missing, rest, parent = parent.name, Path(missing) / rest, parent.parent
    try:
        names = sorted(item.name for item in parent.iterdir())
    except OSError:
        return f"the folder {parent} cannot be listed"
    close = get_close_matches(missing, names, n=3, cutoff=CLOSE)
    guesses = [parent / name / rest for name in close]
    if rest != Path():
        guesses.append(parent / path.name)  # the file without the folder that is not there
    found = next((guess for guess in guesses if guess.exists()), None)
    if found is not None:
        return f"did you mean {found}?"
    return "check the path" if rest == Path() else f"there is no folder {parent / missing}"
