"""Feet as the command line has them."""

from diffnea import identify


def feet_of(words: tuple[str, ...]) -> dict[str, identify.Foot]:
    """As "FL=FL_calf:0,0,-0.213:0.022": a name, a link, a point in its frame, and a radius where it is a ball."""
    found = {}
    for word in words:
        name, _, rest = word.partition("=")
        link, *numbers = rest.split(":")
        try:
            x, y, z = map(float, (numbers[0] if numbers else "0,0,0").split(","))
            radius = float(numbers[1]) if len(numbers) > 1 else 0.0
        except ValueError:
            raise ValueError(f'fit: --feet has "{word}"; give NAME=LINK:X,Y,Z:RADIUS, m in the link\'s frame') from None
        if not name or name in found or not link or len(numbers) > 2:
            raise ValueError(f'fit: --feet has "{word}"; give NAME=LINK:X,Y,Z:RADIUS, m in the link\'s frame')
        found[name] = identify.Foot(link, (x, y, z), radius)
    return found
