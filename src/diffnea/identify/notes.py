"""Notes: what a fit has to say, as codes and values; words are made last, from one table of sentences."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# One sentence a code. A sentence may name `subject` and the note's values; decisions read codes, never sentences.
SENTENCES: dict[str, str] = {
    "data": "{subject}: {said}",
    "locked": "held still: {said}",
    "kept-back": "kept back: {said}",
    "still": 'joint "{subject}" never moves in these data',
}


@dataclass(frozen=True)
class Note:
    """One thing to say: a stable code, whose it is (a joint, link or recording; "" for the whole fit), and values."""

    code: str
    subject: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The sentence."""
        return SENTENCES[self.code].format(subject=self.subject, **self.values)

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"code": self.code, "subject": self.subject, "values": dict(self.values), "text": self.text}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Note":
        """What `to_dict` made."""
        return cls(str(data["code"]), str(data["subject"]), dict(data["values"]))


def note(code: str, subject: str = "", **values: Any) -> Note:
    """A note; an unknown code, or a value that its sentence lacks, is an error here and not when it is printed."""
    made = Note(code, subject, values)
    str(made)
    return made
