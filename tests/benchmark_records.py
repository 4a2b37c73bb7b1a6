"""Records as a benchmark might leave them, made up: for tests of what reads them."""

import json

import numpy as np

from diffnea.benchmark import Record, cells, records
from diffnea.benchmark.numbers import INTEGRATORS, RANGES
from diffnea.identify.judge.windows import HORIZONS

CLASS = {"ideal": "conserving", "viscous": "bounded", "stribeck": "bounded", "nn-friction": "bounded"}


def made_up(cell, rng):
    """A record whose numbers follow the paper's findings, with some noise."""
    kind = CLASS.get(cell.entry.actuator, "unbounded")
    level = {"uniform": 1e-4, "simulated": 0.05}.get(cell.dataset, 0.2) * {"unbounded": 8.0}.get(kind, 1.0)
    level *= float(np.exp(0.1 * rng.normal()))
    far = 0.3 if kind == "unbounded" else 0.0
    rollout = {
        way: {
            "horizons": {str(h): level * h for h in HORIZONS} | ({"2.0": None} if far else {}),
            "valid_time_10": min(2.0, 0.1 / level),
            "valid_time_40": min(2.0, 0.4 / level),
            "lost": far / 2,
            "diverged": far / 3,
        }
        for way in INTEGRATORS
    }
    gain = {"own_gain": None if cell.model == "ff-nn" else far, "true_gain": far, "diverged": far}
    sheet = {"sheet": {str(h): 0.5 * h for h in HORIZONS}} if cell.dataset in ("real", "stand-in") else {}
    mass = 2.4 if kind == "conserving" and cell.dataset != "uniform" else 1.02
    truth = None if cell.dataset in ("real", "stand-in") else 0.83
    return Record(
        cell,
        sheet
        | {
            "title": cell.dataset,
            "energy_class": kind,
            "fit": {
                "seconds": 1.5,
                "compile_seconds": 0.9,
                "loss": level**2,
                "converged": True,
                "verdict": "accepted",
                "method": cell.training,
            },
            "nmse": {"mean": level**2, "slide": level**2, "hinge": level**2},
            "rollout": rollout,
            "energy": {span: {way: gain for way in INTEGRATORS} for span in RANGES},
            "observables": []
            if cell.model == "ff-nn"
            else [{"name": "mass matrix 1,1", "unit": "kg", "value": mass * 0.83, "truth": truth, "nominal": 0.83}],
        },
        _arrays(level, far, rng),
    )


def _arrays(level, far, rng):
    time = np.arange(500) / 250
    truth = np.stack([0.2 * np.sin(3 * time), 2 * np.sin(5 * time)], 1)[None]
    wrong = truth + level * np.cumsum(rng.normal(size=truth.shape), 1) / 10
    drop = -np.linspace(0, 1, 100)[None] if not far else np.exp(np.linspace(0, 3, 100))[None] - 1
    return {
        "time": time,
        "measured_q": truth,
        "rk4_q": wrong,
        "auto_q": wrong,
        "energy_time": np.linspace(0, 2, 100),
    } | {f"energy_{span}_{way}": drop for span in RANGES for way in INTEGRATORS}


def write_benchmark(runs, failing=(), **chosen):
    """A benchmark's folder with made-up records; models named in `failing` have failed."""
    rng = np.random.default_rng(0)
    for cell in cells(**chosen):
        failed = cell.model in failing
        record = Record(cell, error="ValueError: it broke") if failed else made_up(cell, rng)
        records.write(runs, record)
    (runs / "benchmark.json").write_text(json.dumps({"versions": records.versions(), "machine": {"cores": 2}}))
    return runs
