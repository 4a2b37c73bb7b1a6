"""`diffnea data`: public recordings, listed and fetched."""

from dataclasses import dataclass
from typing import Any

from diffnea.cli.arguments.data import DataArguments
from diffnea.recordings import download, public


@dataclass(frozen=True)
class Data(DataArguments):
    """The command; its fields are those of its arguments."""

    def run(self) -> dict[str, Any]:
        if self.action == "list":
            if self.names:
                raise ValueError(f"data list: takes no names, {', '.join(self.names)} given; use: data get NAME")
            return {"folder": str(public.folder()), "datasets": [_row(each) for each in download.datasets().values()]}
        if not self.names:
            raise ValueError(f"data get: no name given; use any of {', '.join(download.datasets())}")
        chosen = [download.find(name) for name in self.names]
        fetched = {each.name: download.get(each.name, self.mirror or download.ORIGIN) for each in chosen}
        return {"folder": str(public.folder()), "fetched": fetched}

    def summary(self, result: dict[str, Any]) -> str:
        """The result in a few lines for a person."""
        if "fetched" in result:
            folder = result["folder"]
            return "\n".join(
                f"{folder}/{name}: {count} files fetched" if count else f"{folder}/{name}: all files were there"
                for name, count in result["fetched"].items()
            )
        rows = [f"{row['state']:<9} {row['name']:<27} {row['about']} ({row['licence']})" for row in result["datasets"]]
        return "\n".join([f"in {result['folder']}:", *rows])

    def outcome(self, result: dict[str, Any]) -> str:
        """Names alone."""
        return " ".join(result["fetched"] if "fetched" in result else [row["name"] for row in result["datasets"]])


def _row(dataset: download.Dataset) -> dict[str, Any]:
    """A data set, and how much of it is here."""
    missing, total = len(dataset.missing), len(dataset.files)
    state = "here" if not missing else "not here" if missing == total else f"{total - missing} of {total}"
    origin = dataset.files[0]
    return {
        "name": dataset.name,
        "about": dataset.about,
        "licence": dataset.licence,
        "origin": f"https://github.com/{origin.repository}/tree/{origin.commit}",
        "files": total,
        "missing": missing,
        "state": state,
    }
