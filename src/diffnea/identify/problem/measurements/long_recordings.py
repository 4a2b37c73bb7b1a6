"""Long recordings: more samples than a fit has use or memory for are some stretches of them, spread evenly."""

from collections.abc import Sequence

import numpy as np

from diffnea.identify.notes import Note, note
from diffnea.recordings import Recording, Samples

# Values of a signal, samples times joints, that a fit takes: of one joint they need half a GiB. What they leave open,
# more of the same motion does not tell.
MOST_VALUES = 1_000_000
# Of all recordings together. Each is long against the smoothing's ends, and they see the machine cold and warm.
STRETCHES = 32


def shortened(given: Sequence[Recording | Samples], seed: int) -> tuple[list[Recording | Samples], list[Note]]:
    """The same data where they are few; else as many as a fit takes, and a note that says which."""
    total = sum(map(len, given))
    values = total * max(1, given[0].num_joints)
    if values <= MOST_VALUES:
        return list(given), []
    share, found = MOST_VALUES / values, []
    for item in given:
        found += _drawn(item, share, seed) if isinstance(item, Samples) else _stretches(item, share, total)
    kept = sum(map(len, found))
    code = "drawn" if isinstance(given[0], Samples) else "stretches"
    return found, [note(code, total=total, kept=kept, share=kept / total, count=len(found))]


def _drawn(item: Samples, share: float, seed: int) -> list[Recording | Samples]:
    count = max(2, int(share * len(item)))
    rows = np.sort(np.random.default_rng(seed).choice(len(item), min(count, len(item)), replace=False))
    arrays = (item.q[rows], item.qd[rows], item.qdd[rows], item.u[rows])
    return [Samples(*arrays, joint_names=item.joint_names, driven=item.driven, name=item.name)]


def _stretches(item: Recording, share: float, total: int) -> list[Recording | Samples]:
    count = max(1, round(STRETCHES * len(item) / total))
    length = max(2, int(share * len(item) / count))
    starts = np.linspace(0, len(item) - length, count).astype(int) if length < len(item) else [0]
    return [item[start : start + length] for start in map(int, starts)]
