"""Every file in broken/ is wrong in its own way; what the user reads is compared word for word.

`pytest tests/spec/test_broken_files.py --force-regen` rewrites the expected texts after a wording
has changed on purpose: read the difference before committing it.
"""

from pathlib import Path

import pytest

from planner.errors import InputError
from planner.spec.slo_file import load_slo

FOLDER = Path(__file__).parent / "broken"
FILES = sorted(path.name for path in FOLDER.iterdir() if path.suffix in {".yaml", ".json"})


@pytest.mark.parametrize("name", FILES)
def test_messages(name, monkeypatch, file_regression):
    monkeypatch.chdir(FOLDER)
    with pytest.raises(InputError) as caught:
        load_slo(Path(name))
    text = "".join(f"{problem}\n" for problem in caught.value.problems)
    file_regression.check(text, fullpath=FOLDER / f"{name}.txt", encoding="utf-8")


@pytest.mark.parametrize("name", FILES)
def test_places_are_in_order_and_exist(name, monkeypatch):
    monkeypatch.chdir(FOLDER)
    with pytest.raises(InputError) as caught:
        load_slo(Path(name))
    places = [(problem.line, problem.column) for problem in caught.value.problems]
    assert places == sorted(places)
    lines = Path(name).read_bytes().decode("latin-1").split("\n")
    for line, column in places:
        assert 1 <= line <= len(lines)
        assert 1 <= column <= len(lines[line - 1]) + 1


def test_no_expected_text_is_orphaned():
    texts = {path.name.removesuffix(".txt") for path in FOLDER.glob("*.txt")}
    assert texts == set(FILES)
