"""How long a newcomer waits: importing the package, and the first call on a Panda with compiling included.

    python benchmarks/startup.py [ROBOT.urdf]

Each figure is the median of fresh processes. Without a file, the Panda of the package example-robot-data is used.
"""

import statistics
import subprocess
import sys
from importlib.metadata import files

RUNS = 5
CLOCK = "import time; start = time.perf_counter(); {work}; print(time.perf_counter() - start)"
FIRST_CALL = """
import time, warnings
import jax, numpy as np
import diffnea as dn
jax.config.update("jax_enable_x64", True)
warnings.simplefilter("ignore")
robot = dn.load_robot({path!r})
zero = np.zeros({shape})
start = time.perf_counter()
dn.forward_dynamics(robot, zero, zero, zero).block_until_ready()
print(time.perf_counter() - start)
"""


def median_seconds(program: str) -> float:
    """The number a program prints, over fresh processes."""

    done = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        for _ in range(RUNS)
    ]
    return statistics.median(float(printed) for printed in done)


def main() -> None:
    shipped = [file for file in files("example-robot-data") or () if file.name == "panda.urdf"]
    path = sys.argv[1] if len(sys.argv) > 1 else str(shipped[0].locate())
    print(f"import jax                        {median_seconds(CLOCK.format(work='import jax')):6.2f} s")
    beyond = median_seconds("import jax; " + CLOCK.format(work="import diffnea"))
    print(f"import diffnea beyond that        {beyond:6.2f} s")
    for what, shape in (("one sample", (9,)), ("4096 samples", (4096, 9))):
        seconds = median_seconds(FIRST_CALL.format(path=path, shape=shape))
        print(f"first forward_dynamics, {what:<12}{seconds:4.2f} s")


if __name__ == "__main__":
    main()
