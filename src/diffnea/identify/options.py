"""Options: every tuned number of identification, by room, with its reason; stored with each fit."""

from dataclasses import asdict, dataclass, field

from diffnea.files import Json


@dataclass(frozen=True)
class ProblemOptions:
    """Data as rows."""

    # Rows this close to a reversal are left out, in periods of the smoothing and of the comparison filter: the main
    # lobe of a low-pass reaches half a period to either side, and friction jumps within it.
    reversal_width: float = 0.5
    # A velocity below this many standard deviations has no known sign: right in 97.7 % of normal noise.
    known_sign: float = 2.0
    # Share of a joint's rows that stays whatever it does: with fewer, numbers rest on a few moments of the motion.
    least_rows: float = 0.3
    # Kept back for the verdict: of recordings, and of samples without order. A quarter tells errors to some percent.
    held_back: float = 0.25
    held_back_samples: float = 0.2
    # Of the rest, what chooses between starts.
    validation: float = 0.2


@dataclass(frozen=True)
class SolveOptions:
    """The search for θ."""

    iterations: int = 200  # of Levenberg-Marquardt, at most; it stops by itself long before
    strength: float = 1e3  # of the prior at first: files within 3 %; evidence moves it, and one link at a time leaves
    strength_shape: float = 2.0  # of the Gamma distribution of strengths over links: the smaller, the freer is each
    most_strength: float = 1e4  # no file is better than 1 %
    weak_width: float = 3.0  # expected distance of numbers that are no body's, in moderate changes
    ratio_width: float = 0.5  # of the logarithm of static by kinetic friction, which is seldom beyond 2
    # A start whose loss is so many times the lowest is not chosen, whatever validation says.
    behind: float = 2.0
    # How far joints give before they slip is another length, or other friction after a rest, where that leaves less of
    # the torques by this share, of squares.
    slips_clearly: float = 0.01
    # Trajectories are compared of so few joints where a regression leaves more than this share of some joint's torques.
    few_joints: int = 3
    well_explained: float = 0.05
    # Where passive joints are involved and a regression leaves less than this share, nothing is left for roll-outs.
    explained: float = 0.01


@dataclass(frozen=True)
class TrajectoryOptions:
    """The trajectory loss."""

    # Seconds, one stage of a chain each: short windows forgive a poor start, long ones tell friction from the rest.
    horizons: tuple[float, ...] = (0.25, 0.5, 1.0, 1.0, 1.0)
    # Of a stage: few are cheap, and others lead past the bumps of their loss.
    windows: int = 32
    # Steps of a descent: it is past bumps by then, or stuck.
    iterations: int = 20
    # A moderate change of a number costs as much as so many residuals of usual size: what the data do not tell stays.
    prior: float = 10.0
    # A joint that comes to rest a sample earlier makes the loss jump by about this share; a step may go up by it.
    rough: float = 2e-3
    # How far a start state is from its smoothed value: shares of the positions' and of the velocities' spread.
    position_share: float = 0.005
    velocity_share: float = 0.02
    # Windows further away than this many spreads of a joint teach nothing.
    lost: float = 3.0
    # Chains run until this share of starts is expected to lead to a minimum not yet seen.
    unexplored: float = 0.05
    # Ends whose errors differ by less, in the logarithm, are of one minimum: as chains differ that began alike.
    apart: float = 0.1
    # A recording's own zero is expected within this share of the joint's spread, and moved where its errors fall to
    # this share of what they are with the others' zero.
    usual_zero: float = 0.05
    own_zero: float = 0.5

    @property
    def all_horizons(self) -> tuple[float, ...]:
        """Seconds of windows of all data: those of chains but for the first, and twice as long."""
        later = self.horizons[1:] or self.horizons
        return (*sorted(set(later)), 2 * max(later))


@dataclass(frozen=True)
class DetermineOptions:
    """What the data determine."""

    # A quantity is determined when what is not moves it by less than this share of its standard deviation.
    leak: float = 0.3


@dataclass(frozen=True)
class JudgeOptions:
    """The verdict."""

    # Two-sided, of every interval here.
    confidence: float = 0.95
    # Of the bootstrap: fewer than eight would tell little of chance.
    least_blocks: int = 8
    # Errors count between these, in spreads of a joint. Standing still is off by 1.4 spreads, so that twice that is no
    # prediction; what is better than a thousandth is rounding of encoders, or a joint that stands still.
    cap: float = 3.0
    floor: float = 1e-3
    # A black box must not surely explain this share of a joint's torques beyond the model, nor the smaller one where it
    # takes away half or more of what the model leaves. Good fits of real machines are at 0.034 at most and lose a
    # quarter, right simulated ones at 0.006 and lose half at most; wrong ones are at 0.019 or more and lose two thirds.
    structure: float = 0.06
    mostly_structure: float = 0.015
    mostly: float = 0.5
    # Largest share of a joint's torques that may be left, for whatever reason: real arms are at 0.22 and below, inputs
    # that do not belong to the motion at 0.9 and above.
    unexplained: float = 0.5
    # Largest roll-out error by that of the better guess, geometric mean; it must surely be below 1 too. Real machines
    # are at 0.24 and below, hopeless fits at 0.67 and above.
    guess: float = 0.5
    # A robot that has become heavier or lighter by this factor has inputs in another unit: no file is this wrong.
    another: float = 30.0
    # Recordings foretell nothing of larger and faster motion where accelerations take less than this share of a joint's
    # torques and the standard error of those of the whole range is more than that: 14 of 16 simulated small and slow
    # motions have such a joint, right ones are at 0.09 or more and 0.003 at most. Wrists of real arms, at 0.001 to
    # 0.023 and 0.35 … 3.3, are told so too. What moves through less of its range than the last moves little.
    accelerated: float = 0.04
    foretold: float = 0.05
    moved: float = 0.03
    # Positions that are noise to this share of their spread tell nothing.
    noise: float = 0.5
    # Hints. A mistake is named if undoing it leaves less than this share of what was left, and no more of the torques
    # than that (with 0 none is looked for); where less than the last is left as given, data and file go together.
    hint_better: float = 0.5
    hint_below: float = 0.1
    hint_fine: float = 0.02


@dataclass(frozen=True)
class ServoOptions:
    """Whole motions of servos, from goals."""

    # Sets of slopes before a table is looked for, twice so many with a jump between them; and with all that was found.
    rough: int = 2
    fine: int = 30
    # More parts of the actuator must lower the error to this share of what it was.
    better: float = 0.85
    # To this share, what each motor has, where gains are known; and a table, before its numbers are fitted.
    promising: float = 0.95
    # To this share a table, once its numbers are fitted; and where it is the lower one, of the error of a rough search,
    # there is a table, and no need to search on without.
    table: float = 0.9
    clear_table: float = 0.75


@dataclass(frozen=True)
class Options:
    """All of them; `dn.fit(..., options=replace(Options(), judge=...))` changes some."""

    problem: ProblemOptions = field(default_factory=ProblemOptions)
    solve: SolveOptions = field(default_factory=SolveOptions)
    trajectory: TrajectoryOptions = field(default_factory=TrajectoryOptions)
    determine: DetermineOptions = field(default_factory=DetermineOptions)
    judge: JudgeOptions = field(default_factory=JudgeOptions)
    servo: ServoOptions = field(default_factory=ServoOptions)

    def to_dict(self) -> Json:
        """For JSON."""
        return asdict(self)
