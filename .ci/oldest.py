"""Print the oldest version of each dependency that pyproject.toml allows, as constraints for pip."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
for line in [*project["dependencies"], *project["optional-dependencies"]["formats"]]:
    name, version = re.match(r"([\w.-]+)(?:\[[^]]*\])?>=([\d.]+)", line).groups()
    print(f"{name}=={version}")
