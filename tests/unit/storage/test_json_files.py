"""What every JSON file of the project has in common is refused or read at one place."""

import pytest

from gpu_report.errors import RecordError
from gpu_report.storage.json_files import JsonFile, Part, Title


class Note(Part):
    schema_version: int
    title: Title = ""
    inner: "Note | None" = None


NOTES = JsonFile(name="note", content=Note, version=1, error=RecordError, again="write it again")


def parsed(text: bytes) -> Note:
    return NOTES.parse(text, where="note a.json")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"schema_version": 1, "inner": ' + b"[" * 29_000, "recursion"),
        (b'{"schema_version": 1, "title": "\xff"}', "is not whole JSON"),
        (b'{"schema_version": 1, "title": "a\\u0000b"}', "title: String should match"),
    ],
)
def test_a_text_that_readers_would_take_for_different_things_is_refused_in_one_line(
    text: bytes, reason: str
) -> None:
    with pytest.raises(RecordError, match=reason) as caught:
        parsed(text)

    assert str(caught.value).startswith("note a.json")
    assert str(caught.value).endswith("; write it again")
    assert "\n" not in str(caught.value)


def test_one_key_at_several_places_is_read() -> None:
    found = parsed(
        b'{"schema_version": 1, "title": "\xc3\xa9", "inner": {"schema_version": 1, "title": "b"}}'
    )

    assert found == Note(schema_version=1, title="\xe9", inner=Note(schema_version=1, title="b"))
    assert parsed(NOTES.as_bytes(found)) == found
