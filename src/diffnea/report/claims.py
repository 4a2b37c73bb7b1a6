"""The paper's five findings, each tried on a benchmark's own results: the numbers for it, or against it."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from diffnea.benchmark import Record
from diffnea.report.results import error_at, middle, observable, over_seeds

SAME = 1.25  # errors within a factor of this are called equal
TINY = 1e-3  # and so are errors below this share of the motion: both are as good as exact
INFLATED, PUMPING = 2.0, 0.10
RUNAWAY = 100.0  # a mass this many times off is a failed fit, not a finding
HORIZON = 1.0  # s


@dataclass(frozen=True)
class Evidence:
    """What one system and data set say: numbers in words, and whether they are for the finding."""

    system: str
    dataset: str
    numbers: str
    cells: int
    holds: bool


@dataclass(frozen=True)
class Claim:
    """A finding of the paper, how it is tried here, and what came of it."""

    statement: str
    test: str
    evidence: tuple[Evidence, ...]

    @property
    def verdict(self) -> str:
        """In a word."""
        good = sum(row.holds for row in self.evidence)
        if not self.evidence:
            return "not enough cells"
        if good == len(self.evidence):
            return "holds"
        return f"holds in {good} of {len(self.evidence)}" if good else "does not hold"

    @property
    def mark(self) -> str:
        """For colours: yes, no, partly, unknown."""
        return {"holds": "yes", "does not hold": "no", "not enough cells": "unknown"}.get(self.verdict, "partly")


def claims(records: Sequence[Record]) -> list[Claim]:
    """The five findings tried on these records; of two ways of training, the package's own counts."""
    sound = [record for record in records if record.error is None]
    usual = [record for record in sound if record.cell.training == "auto"] or sound
    tried = (_without_kinematics, _bounded_never_diverge, _inflation, _pumping, _prior)
    return [
        replace(claim, evidence=tuple(row for place in _places(usual) if (row := test(*place))))
        for claim, test in (make() for make in tried)
    ]


def beyond(records: Sequence[Record]) -> Claim:
    """What the paper did not ask: whether the best guaranteed model beats the data sheet and a plain network."""
    claim = Claim(
        "A model with bounded energy predicts better than the data sheet and than a plain network.",
        "The best such model of the recordings kept back, at 0.5 s and at 1 s: its roll-out error is below both. The "
        "best is chosen on these recordings, so this says what the family can do, not what a user will pick.",
        (),
    )
    sound = [record for record in records if record.error is None and "sheet" in record.numbers]
    found = [_against_sheet(*place, seconds) for place in _places(sound) for seconds in (0.5, 1.0)]
    return replace(claim, evidence=tuple(row for row in found if row is not None))


def _against_sheet(system: str, dataset: str, records: list[Record], seconds: float) -> Evidence | None:
    bounded = over_seeds([r for r in records if r.numbers["energy_class"] == "bounded"], lambda r: error_at(r, seconds))
    network = middle([error_at(record, seconds) for record in records if record.cell.model == "ff-nn"])
    sheet = middle([record.numbers["sheet"][str(seconds)] for record in records])
    if not bounded or not any(record.cell.model == "ff-nn" for record in records):
        return None
    best = min(bounded, key=lambda key: _finite(bounded[key]))
    errors = f"{_percent(bounded[best])}, data sheet {_percent(sheet)}, network {_percent(network)}"
    holds = _finite(bounded[best]) < min(_finite(sheet), _finite(network))
    return Evidence(system, dataset, f"{seconds:g} s: {best[2]} {errors}", len(records), holds)


Test = Callable[[str, str, list[Record]], Evidence | None]


def _places(records: Sequence[Record]) -> Iterator[tuple[str, str, list[Record]]]:
    together: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        together.setdefault((record.cell.system, record.cell.dataset), []).append(record)
    for (system, dataset), found in together.items():
        yield system, dataset, found


def _without_kinematics() -> tuple[Claim, Test]:
    claim = Claim(
        "Models that also learn the kinematics are as good as models that know them.",
        f"no-Kin against DiffNEA with the same actuator, start and seed, models with an energy guarantee: the middle "
        f"ratio of roll-out errors at {HORIZON:g} s is at most {SAME:g}. Errors below {TINY:.1%} count as equal.",
        (),
    )

    def test(system: str, dataset: str, records: list[Record]) -> Evidence | None:
        guaranteed = [record for record in records if record.numbers["energy_class"] != "unbounded"]
        return _ratios(system, dataset, _pairs(guaranteed, "diffnea-", "nokin-"), 0.0)

    return claim, test


def _prior() -> tuple[Claim, Test]:
    claim = Claim(
        "Starting from a prior brings no accuracy.",
        f"Each model started with prior against the same without, same seed: the middle ratio of roll-out errors at "
        f"{HORIZON:g} s lies between {1 / SAME:g} and {SAME:g}.",
        (),
    )

    def test(system: str, dataset: str, records: list[Record]) -> Evidence | None:
        return _ratios(system, dataset, _pairs(records, "", "-prior"), 1 / SAME)

    return claim, test


def _pairs(records: list[Record], old: str, new: str) -> list[tuple[Record, Record]]:
    """Records and their partners: the same cell with another beginning or end of its model's name."""
    by_cell = {record.cell: record for record in records}
    found = []
    for record in records:
        name = record.cell.model
        partner = name.replace(old, new, 1) if old else name + new
        if (not old or name.startswith(old)) and (other := by_cell.get(replace(record.cell, model=partner))):
            found.append((record, other))
    return found


def _ratios(system: str, dataset: str, pairs: list[tuple[Record, Record]], least: float) -> Evidence | None:
    if not pairs:
        return None
    errors = [tuple(_finite(error_at(record, HORIZON)) for record in pair) for pair in pairs]
    typical = middle([_ratio(*pair) for pair in errors])
    ratio = math.inf if typical is None else typical
    a, b = (middle([pair[k] for pair in errors]) for k in (0, 1))
    numbers = f"{ratio:.3g} × (error {_percent(b)} against {_percent(a)})"
    return Evidence(system, dataset, numbers, 2 * len(pairs), least <= ratio <= SAME)


def _ratio(a: float, b: float) -> float:
    """b ÷ a; both tiny or both infinite is 1."""
    if max(a, b) < TINY or (math.isinf(a) and math.isinf(b)):
        return 1.0
    return b / max(a, TINY / 10)


def _finite(value: float | None) -> float:
    return math.inf if value is None else value


def _bounded_never_diverge() -> tuple[Claim, Test]:
    claim = Claim(
        "Models whose energy is bounded never diverge.",
        "Conserving and bounded models with the default integrator: no roll-out ends in numbers that are not finite, "
        "or gets a hundred times faster than the data, under recorded input or without, with velocities as in the data "
        "and doubled.",
        (),
    )

    def test(system: str, dataset: str, records: list[Record]) -> Evidence | None:
        guaranteed = [record for record in records if record.numbers["energy_class"] != "unbounded"]
        if not guaranteed:
            return None
        worst = {way: [_divergence(record, way) for record in guaranteed] for way in ("auto", "rk4")}
        counts = {way: sum(share > 0 for share in shares) for way, shares in worst.items()}
        numbers = f"{counts['auto']} of {len(guaranteed)} diverge (with Runge-Kutta {counts['rk4']})"
        return Evidence(system, dataset, numbers, len(guaranteed), counts["auto"] == 0)

    return claim, test


def _divergence(record: Record, integrator: str) -> float:
    numbers = record.numbers
    free = [numbers["energy"][span][integrator]["diverged"] for span in numbers["energy"]]
    return max(numbers["rollout"][integrator]["diverged"], *free)


def _inflation() -> tuple[Claim, Test]:
    claim = Claim(
        "Models without friction explain it by too much mass.",
        f"Entry 1,1 of the mass matrix with the pole hanging, of friction-free models, against the truth, or the data "
        f"sheet where no truth is known: at least {INFLATED:g} times, on data with friction.",
        (),
    )

    def test(system: str, dataset: str, records: list[Record]) -> Evidence | None:
        if dataset == "uniform":
            return None
        shares = [(record, share) for record in records if (share := inflation(record)) is not None]
        sane = [(record, share) for record, share in shares if 1 / RUNAWAY < share < RUNAWAY]
        free = [share for record, share in sane if _ideal(record)]
        others = [share for record, share in sane if not _ideal(record)]
        typical = middle(free)
        if typical is None:
            return None
        rest = middle(others)
        numbers = f"{typical:.3g} × without friction" + ("" if rest is None else f", {rest:.3g} × with")
        numbers += f"; {lost} fits ran away" if (lost := len(shares) - len(sane)) else ""
        return Evidence(system, dataset, numbers, len(free), typical >= INFLATED)

    return claim, test


def _ideal(record: Record) -> bool:
    return record.cell.entry.actuator == "ideal"


def inflation(record: Record, name: str = "mass matrix 1,1") -> float | None:
    """A learned number as a multiple of the truth, or of the data sheet where no truth is known."""
    seen = observable(record, name)
    if seen is None or seen["value"] is None:
        return None
    reference = seen["truth"] if seen["truth"] is not None else seen["nominal"]
    return seen["value"] / reference if reference else None


def _pumping() -> tuple[Claim, Test]:
    claim = Claim(
        "Models without an energy bound can pump energy out of nothing.",
        f"Roll-outs without input that start twice as fast as the data: energy rises in at least {PUMPING:.0%} of "
        f"those of unbounded models (the true system's where known, else the model's own), and in fewer of the others.",
        (),
    )

    def test(system: str, dataset: str, records: list[Record]) -> Evidence | None:
        shares: dict[bool, list[float]] = {True: [], False: []}
        for record in records:
            share = gains(record, "doubled")
            if share is not None:
                shares[record.numbers["energy_class"] == "unbounded"].append(share)
        if not shares[True]:
            return None
        loose, tight = (sum(part) / len(part) if part else None for part in (shares[True], shares[False]))
        numbers = f"rises in {_percent(loose)}"
        numbers += "" if tight is None else f", of models with a bound in {_percent(tight)}"
        numbers += "" if (own := _own_gain(records)) is None else f"; by their own energy in {_percent(own)}"
        holds = loose is not None and loose >= PUMPING and (tight is None or tight < PUMPING)
        return Evidence(system, dataset, numbers, len(shares[True]), holds)

    return claim, test


def _own_gain(records: Sequence[Record]) -> float | None:
    """By the unbounded models' own energy, which knows nothing of what a network stores; None without a truth."""
    loose = [r.numbers["energy"]["doubled"]["auto"] for r in records if r.numbers["energy_class"] == "unbounded"]
    own = [row["own_gain"] for row in loose if row["own_gain"] is not None and row["true_gain"] is not None]
    return sum(own) / len(own) if own else None


def gains(record: Record, span: str, integrator: str = "auto") -> float | None:
    """The share of roll-outs without input whose energy rises."""
    energy = record.numbers["energy"][span][integrator]
    if record.numbers["energy_class"] == "unbounded" and energy["true_gain"] is not None:
        return energy["true_gain"]
    return energy["own_gain"]


def _percent(value: float | None) -> str:
    return "diverged" if value is None else f"{100 * value:.3g} %"
