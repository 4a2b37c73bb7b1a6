"""Ask for every page of another site that README and docs link to; those that are gone are listed, and fail."""

import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parent.parent
FILES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
GONE = (404, 410)  # others may be a server's mood, or a wall against programs


def links() -> dict[str, str]:
    """Addresses, each with a file that has it; code is left out."""
    found = {}
    for file in FILES:
        text = re.sub(r"^(```|    ).*$", "", file.read_text(), flags=re.M)
        found |= {link: file.name for link in re.findall(r"\]\((https?://[^)\s#]+)", text)}
    return found


def fault(link: str) -> str | None:
    """Why a page is not there; None where it is, or where that cannot be told."""
    address = urllib.parse.quote(link, safe=":/?#[]@!$&'()*+,;=%")  # as a browser writes letters beyond ASCII
    request = urllib.request.Request(address, headers={"User-Agent": "Mozilla/5.0 (link check)"})
    try:
        urllib.request.urlopen(request, timeout=20).close()
    except urllib.error.HTTPError as error:
        return str(error.code) if error.code in GONE else None
    except urllib.error.URLError as error:
        return f"no such host ({error.reason})" if "not known" in str(error.reason) else None
    except OSError:
        return None
    return None


if __name__ == "__main__":
    known = links()
    with ThreadPoolExecutor(16) as pool:
        bad = [(link, said) for link, said in zip(known, pool.map(fault, known), strict=True) if said]
    for link, said in bad:
        print(f"{known[link]}: {link}: {said}")
    away = len(bad) == len(known) and all("no such host" in said for _, said in bad)
    print("no host is known: is there a network?" if away else f"{len(known)} links, {len(bad)} of them dead")
    sys.exit(bool(bad))
