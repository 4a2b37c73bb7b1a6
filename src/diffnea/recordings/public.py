"""Public recordings of real machines, in SI units and joint order, as their READMEs describe them.

They are found in `$DIFFNEA_DATA`, else in `diffnea/data` of the user's cache: a folder for each data set. Velocities
are as recorded; several come out of filters, so differentiate positions (`prepare`).
"""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from diffnea.recordings.columns.table import readable
from diffnea.recordings.loading import load_recording
from diffnea.recordings.recording import Recording, RecordingError, concatenate

Groups = dict[str, list[Recording]]

# Full scale of the Dynamixel's load register, which is a signed number stored without its sign.
SERVO_FULL_SCALE, SERVO_WRAP = 885, 1 << 16
# Motor angles to joint angles of the TX40: axis 6 turns with axis 5.
TX40_RATIOS = np.diag([32.0, 32.0, 45.0, -48.0, 45.0, 32.0])
TX40_RATIOS[5, 4] = 32.0
TX40_ZERO = np.array([0, -np.pi / 2, np.pi / 2, 0, 0, 0])
# Where the KR300's logs count from: the upper arm upright, the forearm level (`robot_dynamics.m` of its authors).
KR300_HOME = np.array([0, -np.pi / 2, np.pi / 2, 0, 0, 0])
# The start of each episode, which the authors leave out: the controller saturates there.
DECAR_START = 500
# Around the cut between the halves of one record.
LEFT_OUT = 100


def names() -> tuple[str, ...]:
    """The data sets that can be loaded, whether they are there or not."""
    return tuple(_READERS)


def folder() -> Path:
    """Where data sets are looked for."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("DIFFNEA_DATA") or cache / "diffnea" / "data")


def load(name: str) -> Groups:
    """A data set's recordings by group, in the order of their files.

    Args:
        name: one of `names()`.
    """
    if name not in _READERS:
        raise RecordingError(f'no data set "{name}"; use {", ".join(_READERS)}')
    place = folder() / name
    if not place.is_dir():
        raise RecordingError(f"{place}: there is no such folder; run: diffnea data get {name}")
    with readable(f"the data set {name}", "copy it again"):
        groups = _READERS[name](place)
    if not groups:
        raise RecordingError(f"{place}: it holds no recordings; copy the data set again")
    return groups


def split(name: str) -> tuple[list[Recording], list[Recording]]:
    """The part to fit and the part to test on.

    Of several files every third, from the second on, is for testing; of a single record, the second half.

    Args:
        name: one of `names()`.
    """
    groups = load(name)
    if name == "multiarm_pendulum":
        (whole,) = groups["double"]
        half = len(whole) // 2
        return [whole[:half]], [whole[half:]]
    several = [recording for group in groups.values() for recording in group]
    if len(several) == 1:
        half = len(several[0]) // 2
        return [several[0][: half - LEFT_OUT // 2]], [several[0][half + LEFT_OUT // 2 :]]
    chosen = [k % 3 == 1 for k in range(len(several))]
    parts = [[r for r, test in zip(several, chosen, strict=True) if test is wanted] for wanted in (False, True)]
    return parts[0], parts[1]


def _gather(files: list[Path], read: Callable[[Path], Recording], group: Callable[[Path], str]) -> Groups:
    groups: Groups = {}
    for file in sorted(files):
        groups.setdefault(group(file), []).append(read(file))
    return groups


def _parent(file: Path) -> str:
    return file.parent.name


# One reader a data set ---------------------------------------------------------------------------------------------


def _quanser(place: Path, joints: tuple[str, str]) -> Groups:
    """Cart-pole and Qube: sample 0 is wrong and dropped, the input is the clipped voltage, angles are unwrapped."""

    def read(file: Path) -> Recording:
        with np.load(file, allow_pickle=False) as data:
            time, states, applied = data["time"], data["states"], data["actions_applied"]
        q = states[1:, :2].copy()
        q[:, 1] = np.unwrap(q[:, 1])
        # u[k] was sent after states[k] was read; nothing was sent after the last.
        u = np.vstack([applied[1:], applied[-1:]])
        note = "recorded velocities are the output of 50 s/(s + 50), about 20 ms late"
        return Recording(
            time=time[1:],
            q=q,
            u=np.column_stack([u, np.zeros(len(u))]),
            qd=states[1:, 2:4],
            joint_names=joints,
            driven=(True, False),
            name=file.stem,
            notes=(note,),
        )

    return _gather(list(place.glob("npz/*/*.npz")), read, _parent)


def _double_pendulum(place: Path) -> Groups:
    """Measured stamps with jitter; the input is the commanded torque, friction compensation included."""
    joints = {f"joint{k}": {"q": f"pos_meas{k}", "qd": f"vel_meas{k}", "u": f"tau_con{k}"} for k in (1, 2)}

    def read(file: Path) -> Recording:
        found = load_recording(file, columns={"repair": True, "joints": joints})
        return found.replace(name=file.name.removesuffix(".csv.gz"))

    return _gather(list(place.glob("*/*.csv.gz")), read, _parent)


def _simple_pendulum(place: Path) -> Groups:
    """Nominal times; the torque is what the drive reports."""
    joints = {"pendulum": {"q": "position", "qd": "velocity", "u": "torque"}}

    def read(file: Path) -> Recording:
        found = load_recording(file, columns={"repair": True, "joints": joints})
        return found.replace(name=file.name.removesuffix("__data_measured.csv.gz"))

    return _gather(list(place.glob("*.csv.gz")), read, lambda file: file.name.partition("__")[0])


def _balanced_qube(place: Path) -> Groups:
    """Near upright, where the pendulum's angle is zero."""
    joints = {"arm": {"q": "theta", "u": "plant_input"}, "pendulum": {"q": "alpha"}}

    def read(file: Path) -> Recording:
        found = load_recording(file, columns={"time": "t", "joints": joints})[DECAR_START:]
        return found.replace(name=file.name.removesuffix(".csv.gz"), notes=("the pendulum's zero is upright",))

    return _gather(list(place.glob("*.csv.gz")), read, lambda _: "balance")


def _servo(place: Path) -> Groups:
    """Motor voltage: duty of the servo's bridge times its supply."""

    def read(file: Path) -> Recording:
        log = _json(file)
        column = {key: np.array([entry[key] for entry in log["entries"]], float) for key in log["entries"][0]}
        load = np.where(column["load"] > SERVO_WRAP // 2, column["load"] - SERVO_WRAP, column["load"])
        volts = np.where(column["torque_enable"] > 0, load / SERVO_FULL_SCALE * column["input_volts"], 0.0)
        time = column["timestamp"]
        later = np.concatenate([[True], time[1:] > np.maximum.accumulate(time)[:-1]])
        return Recording(
            time=time[later],
            q=column["position"][later, None],
            u=volts[later, None],
            joint_names=("servo",),
            driven=(True,),
            name=f"{file.name.removesuffix('.json.gz')}, kp {log['kp']}",
            notes=(f"{log['mass']} kg at {log['length']} m",),
        )

    return _gather(list(place.glob("*.json.gz")), read, lambda file: _json(file)["trajectory"])


def _json(file: Path) -> Any:
    with gzip.open(file, "rt", encoding="utf-8") as stream:
        return json.load(stream)


def _multiarm(place: Path) -> Groups:
    """Free swings; their absolute angles, π hanging, become joint angles. Pieces are consecutive and joined again."""
    from scipy.io import loadmat

    groups: Groups = {}
    for group, file in (("single", "SinglePendulum"), ("double", "DoublePendulum")):
        data = loadmat(place / f"{file}DataForParameterEstimation.mat", simplify_cells=True)
        pieces = [
            (t, y) for part in ("id", "vad") for t, y in zip(data[f"Time_{part}"], data[f"Y_{part}"], strict=True)
        ]
        recordings = [_free_swing(np.ravel(t), np.asarray(y, float), group) for t, y in pieces]
        groups[group] = [concatenate(sorted(recordings, key=lambda piece: piece.time[0]))]
    data = loadmat(place / "SingleDataFreeSwing_1_Dt_0_0001.mat", simplify_cells=True)["Theta1"]
    groups["single_10kHz"] = [_free_swing(data["time"], data["signals"]["values"][None], "single_10kHz")]
    return groups


def _free_swing(time: np.ndarray, rows: np.ndarray, name: str) -> Recording:
    count = max(len(rows) // 2, 1)
    return Recording(
        time=time,
        q=np.diff(rows[:count].T, axis=1, prepend=np.pi),
        qd=np.diff(rows[count:].T, axis=1, prepend=0.0) if len(rows) > count else None,
        joint_names=tuple(f"joint{k + 1}" for k in range(count)),
        name=name,
        notes=("angles are 0 when it hangs, the second from the first; velocities were smoothed by the authors",),
    )


def _tx40(place: Path) -> Groups:
    """Motor angles and torques through the gears; axes 5 and 6 are coupled."""
    axes = {f"joint_{k}": {"q": f"Joint_{k}"} for k in range(1, 7)}
    motor = load_recording(place / "pos_read_data.csv.gz", columns={"rate": 5000, "joints": axes})
    torque = load_recording(place / "curr_data.csv.gz", columns={"rate": 5000, "joints": axes}).q
    q = np.linalg.solve(TX40_RATIOS, motor.q.T).T + TX40_ZERO
    # Power is the same on both sides of the gears, so torques pass by the transpose.
    return {"excitation": [motor.replace(q=q, u=torque @ TX40_RATIOS, driven=(True,) * 6, name="excitation")]}


def _kr300(place: Path) -> Groups:
    """Angles of the motors scaled to the joints, counted from home; joint torque is gear ratio times motor torque."""
    from scipy.io import loadmat

    def read(file: Path) -> Recording:
        data = loadmat(file, simplify_cells=True)
        log = data["rec"]
        return Recording(
            time=log["time_cont"],
            q=np.deg2rad(log["act_pos_mot_deg"].T) + KR300_HOME,
            qd=np.deg2rad(log["act_vel_mot_deg_per_s"].T),
            u=(data["para"]["u"][:, None] * log["act_torque_abs_nm"]).T,
            joint_names=tuple(f"joint_a{k}" for k in range(1, 7)),
            driven=(True,) * 6,
            name=file.stem[0],
        )

    return _gather(list(place.glob("*_data.mat")), read, lambda file: file.stem[0])


_READERS: dict[str, Callable[[Path], Groups]] = {
    "quanser_cartpole": lambda place: _quanser(place, ("cart", "pole")),
    "quanser_qube": lambda place: _quanser(place, ("arm", "pendulum")),
    "quanser_qube_balance_decar": _balanced_qube,
    "dfki_double_pendulum": _double_pendulum,
    "dfki_simple_pendulum": _simple_pendulum,
    "servo_pendulum_bam": _servo,
    "multiarm_pendulum": _multiarm,
    "staubli_tx40": _tx40,
    "kuka_kr300": _kr300,
}
