"""NanoBench's flights of a Crazyflie: `columns` and `data` in one NPZ file, under the firmware's names."""

import numpy as np

# Our columns by theirs, and what these are multiplied with: motors are 16-bit numbers, accelerations are in g.
FULL, GRAVITY = 65535.0, 9.81
COLUMNS = {
    **{f"base.{axis}": (f"p{axis}", 1.0) for axis in "xyz"},
    **{f"base.q{axis}": (f"q{axis}", 1.0) for axis in "wxyz"},
    **{f"base.v{axis}": (f"v{axis}", 1.0) for axis in "xyz"},
    **{f"imu.a{axis}": (f"imu_acc_{axis}", GRAVITY) for axis in "xyz"},
    **{f"imu.g{axis}": (f"imu_gyro_{axis}", 1.0) for axis in "xyz"},
    **{f"rotor.{k}": (f"motor_motor_m{k}", 1 / FULL) for k in (1, 2, 3, 4)},
    "battery": ("pwr_pm_vbat", 1.0),
}


def is_nanobench(arrays: dict[str, np.ndarray]) -> bool:
    """Whether an NPZ file is one of these."""
    names = arrays.get("columns")
    return names is not None and names.dtype.kind in "US" and "data" in arrays and "motor_motor_m1" in names


def nanobench(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The columns under our names, in SI units; rates that are in degrees a second are told by their size."""
    names, data = [str(name) for name in arrays["columns"]], np.asarray(arrays["data"], float)
    found = {"time": np.asarray(arrays["time"], float)}
    for ours, (theirs, factor) in COLUMNS.items():
        if theirs in names:
            found[ours] = factor * data[:, names.index(theirs)]
    rates = [key for key in found if key.startswith("imu.g")]
    if rates and np.nanstd([found[key] for key in rates]) > 5:
        found |= {key: np.deg2rad(found[key]) for key in rates}
    return found
