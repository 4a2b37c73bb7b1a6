"""`diffnea data`: public recordings, listed and fetched."""

from dataclasses import dataclass
from typing import Any, Literal

from tyro.conf import Positional

from diffnea.recordings import download, public


@dataclass(frozen=True)
class Data:
    """List public recordings of real machines, or fetch some.

    They come from their authors' repositories, each file checked by SHA-256, into the folder that DIFFNEA_DATA names,
    by default diffnea/data in the user's cache. The benchmark finds them there.
    """

    action: Positional[Literal["list", "get"]] = "list"
    """List what there is, or get it."""
    names: Positional[tuple[str, ...]] = ()
    """Data sets to get."""
    mirror: str = download.ORIGIN
    """Where to fetch from, laid out like the origin."""
    json: bool = False
    """Print the result as one JSON object."""
    debug: bool = False
    """Show where in the program an error came from."""

    def run(self) -> dict[str, Any]:
        if self.action == "list":
            if self.names:
                raise ValueError(f"data list: takes no names, {', '.join(self.names)} given; use: data get NAME")
            return {"folder": str(public.folder()), "datasets": [_row(each) for each in download.datasets().values()]}
        if not self.names:
            raise ValueError(f"data get: no name given; use any of {', '.join(download.datasets())}")
        chosen = [download.find(name) for name in self.names]
        fetched = {each.name: download.get(each.name, self.mirror) for each in chosen}
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
