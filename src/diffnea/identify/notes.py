"""Notes: what a fit has to say, as codes and values; words are made last, from one table of sentences."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from diffnea.files import Json

# Codes of what leaves the scale of all forces open, so that only their ratios are determined.
SCALES = ("unknown-scale-gain", "unknown-scale-undriven", "unknown-scale-file")
# One sentence a code. A sentence may name `subject` and the note's values; decisions read codes, never sentences.
SENTENCES: dict[str, str] = {
    "said": "{said}",  # of folders that have no codes yet
    "data": "{subject}: {said}",
    "locked": "held still: {said}",
    "kept-back": "kept back: {said}",
    "stretches": "{kept} of {total} samples are used, {share:.0%}: {count} stretches spread evenly over the recordings",
    "drawn": "{kept} of {total} samples are used, drawn at random",
    "rows-at-limit": 'joint "{subject}" is at its limit for {share:.2%} of the samples: they are left out',
    "limits-not-believed": 'joint "{subject}" is at or beyond its limits for {share:.0%} of the samples: the limits of '
    "the robot file are not its own",
    "rows-near-reversals": "{near:.0%} of the samples lie near a reversal or stop of some joint, where friction is not "
    "known; the {kept:.0%} farthest from one are used (loss torque loses fewer: it leaves them out joint by joint)",
    "joint-near-reversals": 'joint "{subject}": {near:.0%} of its samples lie near a reversal or stop, where friction '
    "is not known; the {kept:.0%} farthest from one are used; longer strokes would tell more",
    "vibration": 'joint "{subject}" bends or shakes, and the model does not: do not trust its predictions of motion '
    "faster than {low:.2g} Hz (from there to {high:.3g} Hz positions move up to {times:.0f} times more than the noise "
    "of the encoder, and smoothing takes that away)",
    # What no recording of the joints can tell.
    "unknown-scale-gain": "the scale of all masses and forces, and so {subject} itself: forces are known only up to "
    "their gain",
    "unknown-scale-undriven": "the scale of all masses and forces, and so {subject} itself: no known force drives the "
    "joints",
    "unknown-scale-file": "the scale of all masses and forces: gains are learned, and only {what} of the robot file, "
    "not learned, sets it; fix a gain, a mass or an armature that you know",
    "unknown-no-effect": "{subject}: no motion of the joints depends on {it}",
    "unknown-unnamed": "{count} numbers without physical meaning, as {subject}: nothing depends on them",
    "unknown-link": "anything of the {subject}: no motion of the joints depends on its mass or inertia",
    "unknown-never-turns": "inertia and centre of mass of the {subject}: it never turns",
    "unknown-vertical-axis": "{what} of the {subject}: it turns about a vertical axis, where gravity takes no torque",
    "unknown-fixed-axis": "mass of the {subject}: it turns about a fixed axis, so that only its moments about it enter",
    "unknown-one-axis": "{what} of the {subject}: it only turns about {axis}",
    "unknown-split-mass": "how the mass is split between {subject}: only their sum enters",
    "unknown-placement": "{subject}: other placements and inertias can make up for {it}",
    "unknown-apart": "{subject} apart: only their {what} enters",
    "unknown-one-by-one": "{subject} one by one: only {what} enters",
    "unknown-only-in-sums": "{subject} on {verb} only in sums with {partners}",
    # What these recordings do not tell, and others could.
    "unknown-never-moved": "{what} of {subject}: it never moved in these recordings",
    "unknown-never-commanded": "{what} of {subject}: it was never commanded in these recordings",
    "unknown-unseen": "{subject}: nothing in these recordings depends on {it}",
    "unknown-not-separable": "{subject} apart from {partners}: these recordings do not tell them apart",
    "unknown-servo-scale": "kp of {subject} itself: no gravity acts on it, and only the file's inertia would tell",
    "unknown-too-weak": "{subject}: these recordings do not excite {it} enough",
    "unknown-too-wide": "{subject}: {lower:.3g} … {upper:.3g} {unit} is all that these recordings tell",
    "unknown-at-most": "{subject}: at most {upper:.3g} {unit}, and it may be zero",
    "unknown-static-friction": "static friction of {subject}: at least {lower:.3g} {unit}, the kinetic one; these "
    "recordings show no peak at low speed, and a narrow one would not be seen",
    "unknown-static-top": "static friction of {subject}: at least {lower:.3g} {unit}; friction rises at low speed, but "
    "no motion is slow enough to see how far",
    "unknown-stribeck-velocity": "Stribeck velocity of {subject}: friction shows no peak at low speed in these "
    "recordings",
    "unknown-network": "{count} directions among numbers that have no unit, as weights of networks: these recordings "
    "do not tell them apart",
    "unknown-any-network": "which physical quantities are behind it: a network has none",
    "unknown-no-fit": "anything: there is no fit",
    "better-friction": "friction of joint {subject}: another curve (kinetic {kinetic:.3g}, static {static:.3g} {unit}) "
    "explains these recordings better than the fitted one; start from it",
    "trajectory-lengths": "trajectory loss: windows of {lengths} s",
    "trajectory-starts": "trajectory loss: distinct minima found from {starts} starts: {minima}; "
    "expected share of further starts that lead to others: {unexplored:.0%}",
    "trajectory-kept-warm-start": "trajectory loss: no better than its warm start on roll-outs; the warm start is kept",
    "zero-moved": "the zero of {subject} differs from the other recordings'; moved by {by:+.3g} at {joint} (rad or m)",
    "far-zero": 'positions of joint "{subject}" are counted from elsewhere than in the robot file: the fit has moved '
    "its zero by {by:+.3g} rad, as the written robot file has it",
    "still": 'joint "{subject}" never moves in these data',
    # Before a fit starts.
    "no-masses": "the robot file has no masses: bars of water of the links' lengths stand in, {mass:.3g} kg in all; "
    "what the data do not determine stays there and is a guess",
    "too-few-samples": "too few samples: {samples} for {size} numbers; give at least {need}",
    "nothing-moves": "nothing moves in these data; record motion",
    "positions-are-noise": "positions are noise: {share:.0%} of their spread; record motion larger than the noise",
    "not-finite-start": "the loss is not finite at any start; look at the data and at the start's numbers",
    # What was chosen by evidence on the training data.
    "chosen": "actuator chosen by evidence: {actuator}",
    "chosen-part": "{subject} raises the log evidence by {gain:.3g}",
    "chosen-coupling": "joints that rub together are geared together, as in many wrists; where no gear does, the "
    "file is not quite that of this machine: look at its axes and bodies",
    "chosen-offset": "torques that depend on positions alone are of cables, springs or magnets; where there are none, "
    "the file is not quite that of this machine: look at its lengths, axes and bodies",
    "chosen-ripple": "{subject}: a torque comes again {often:.4g} times a turn, log evidence {gain:.3g}",
    "chosen-gain": "commands are no torques of this robot: its file takes {factor:.3g} N·m (or N) a unit; gain is "
    "learned, and masses are known up to a factor unless one of them is",
    "chosen-nothing": "no friction, rotor or drive raises the evidence",
    "chosen-delay": "commands act {samples:g} samples late, which raises the log evidence by {gain:.3g}",
    "chosen-usual": "{subject} is learned too: few machines lack it, and much of the torques is not explained",
    "chosen-for-trajectories": "{subject} is learned too: roll-outs see what equations of passive joints and rows near "
    "reversals do not tell",
    "chosen-measured": "inputs are of the samples' instants, as measured torques are, rather than held after them: log "
    "evidence {gain:.3g}",
    "loss-torque": "every joint is driven, so torques are compared",
    "loss-trajectory-driven": "a regression leaves {left:.0%} of some joint's torques, so trajectories are compared, "
    "which mind less what the model lacks",
    "loss-trajectory": "{count} joints are not driven, so trajectories are compared",
    "loss-acceleration": "samples have no order in time and not every joint is driven, so accelerations are compared",
    "loss-for-networks": "a network is learned, so accelerations are compared",
    "payload-frame": "the payload is in the frame of {frame}, the last body that is fixed to the last link",
    "payload-link": "the payload is what the {subject} carries, in that link's frame",
    "payload-none": "the payload's mass may be none: {mass:.3g} kg, at most {upper:.3g}",
    # The search.
    "regression-rank": "regression: {rank} of {size} directions are determined",
    "regression-unphysical": "the regression's inertias are those of no body; fit.consistent is the nearest that is "
    "one",
    "adam-on-samples": "ADAM compares single samples of smoothed motion; methods auto and lm filter their equations",
    "adam-stopped": "ADAM still made progress after {steps} steps; give more steps, or method=auto",
    "search-stopped": "the search was stopped while it still made progress; give more steps, more data, or learn less",
    "starts-agree": "{agree} of {count} initial guesses converged to the best solution",
    "starts-agree-after-adam": "{agree} of {count} initial guesses converged to the best solution, after ADAM",
    "file-trust": "regularised towards the robot file, strength by evidence: bodies are expected within {least:.2g} to "
    "{most:.2g} % of it",
    # Servos.
    "chosen-servo": "inputs are position goals, which the joints follow (correlation {alike:.4f} and more): they are "
    "taken for the goals of servos, actuator {actuator}; short searches on some of the motions left {tried}",
    "told-servo": "inputs are position goals, as the recordings say: actuator {actuator}; short searches on some of "
    "the motions left {tried}",
    "servo-gains": "the recordings say what gain their servos were set to ({text}): one factor of all gains is "
    "learned, and roll-outs are told each recording's",
    "servo-coasting": "torque is off at times: armature and viscous friction are learned, which show by themselves "
    "then",
    "servo-table": "the robot touches a plane in {share:.1%} of the samples (most in {where}): joints leave their "
    "goals together. It is in the model, {height:.3f} m over the base; without it the mean error is {without:.2f} "
    "instead of {error:.2f} mrad",
    "servo-loss": "compared are whole motions from their goals and the first pose: the mean over motions of RMS errors "
    "is {error:.2f} mrad",
    "servo-centres": "of bodies only the centres of mass are learned, and masses are the file's: goals and positions "
    "show gravity divided by kp, so that kp and friction are as right as the file's masses, and a zero position that "
    "is off looks like a centre of mass that is; hang a known load on the arm, or log it as it swings with "
    "torque off, to tell them apart",
    "servo-rotors": "the robot file has no armature: that of each joint is learned with its servo",
    "servo-ratio": "{subject}: no gravity acts on it in these motions, so that of kp, kd, armature and friction only "
    "the ratios are known (lag kd/kp {lag:.0f} ms, band F/kp {band:.1f} mrad); a known load off its axis, or a faster "
    "log of quick motions, would tell kp itself",
    "servo-lag": "delay and lag are known together better than each alone: {text}; a log of steps at a higher rate "
    "tells them apart",
    "servo-profile": "no motion reaches the {what} limit of {subject}'s goals: it is {least:.3g} {unit} or more; goals "
    "that step farther would tell it",
    # A free base.
    "in-the-air": "no feet are named: nothing but gravity acts on the base",
    "feet": "on feet {subject}: equations are projected on what their forces, which are not known, cannot reach",
    "feet-always": "whether {subject} touch was not recorded: they count as touching always",
    "flight-forces": "thrust and drag leave {left:.2g} m/s² of accelerations over 0.1 s; rotors and commands lag by "
    "{lag:.0f} ms together, thrust goes with the battery's voltage to the power of {exponent:.2g}",
    "flight-late": "on-board streams come {least:.0f} to {most:.0f} ms after the pose, flight by flight; they were "
    "aligned for thrust and drag",
    "flight-ahead": "thrust and drag are integrated with trims of the flight's last half second; what they leave, "
    "attitude and rates are regressed on the flight's past and its commands, strengths chosen by leaving training "
    "flights out",
    "flight-verdict": "{horizon} s ahead, {windows} windows kept back, as shares of velocity and attitude held: "
    "position {position:.3f}, velocity {velocity:.3f}, attitude {attitude:.3f}, rates {rates:.3f} (all together below "
    "{bound:.2f})",
    "flight-mass": "mass and thrust apart: nothing but their ratio moves a body that hangs on its rotors; weigh it",
    "flight-inertia": "the inertia: a controller calms the moments, and commands are logged late and with gaps; what a "
    "regression of rates on commands gives is a third of what geometry says",
    "flight-lag": "lag of the rotors and delay of commands apart: only their sum shows",
    "flight-single": "{subject}: one flight gives no interval; give several",
    "imu-mounting": "the accelerometer is off what it says by a bias of {bias:.2g} m/s², a turn of {turn:.2g} rad and "
    "{place:.2g} mm in place, the gyroscope by {drift:.2g} rad/s, as far as the data tell; this was learned with the "
    "rest",
    "feet-sink": "feet touch nearer to their centres than their balls end, by {subject} mm: they sink in or give way; "
    "this was learned with the rest",
    # The verdict. Ratios are geometric means over windows kept back; bounds hold with a probability of 97.5 %.
    "not-finite": "predictions on the held-out data are not finite",
    "against-start": "error of {what}: {ratio:.3g} × the initial model's (below {bound:.3g}; "
    "{windows} held-out windows)",
    "below-floor": "the fit is off by less than {floor:.1%} of the motion, and counts as off by that in these ratios",
    "start-unknown": "the robot file says nothing to compare with: it has no masses, or predicts nothing finite",
    "against-guess": "error of roll-outs: {ratio:.3g} × the better of constant velocity and standing still "
    "(below {bound:.3g}; at most {most:g} and surely below 1 is accepted)",
    "diverged": "{lost} of {windows} roll-outs diverge, {before} of the initial model's; each counts as one bad window",
    "torque-left": 'torques: {left:.1%} of joint "{subject}" is left, the most of all joints',
    "structure": 'a model without physics explains {removed:.1%} of the torque of joint "{subject}" that this one '
    "leaves (surely {bound:.1%}; at most {most:.1%} is accepted): the model lacks something, or these are not data of "
    "this robot",
    "unexplained": 'only {explained:.0%} of the {what} of joint "{subject}" is explained on held-out data; the model '
    "lacks something, or these are not data of this robot",
    "accelerations-decide": "nothing could be rolled out (samples without order in time, or too few), so accelerations "
    "decide: nMSE {fit:.3g}, of the initial model {start:.3g}",
    # Hints, each tried: what is left of the torques as given, and with the mistake undone.
    "hint-axis-turned": 'joint "{subject}": its axis points the other way than in the robot file '
    "(torque left: {before:.1%} as given, {after:.1%} so); "
    'write <axis xyz="{axis}"/>, or sign = -1 under [joints.{subject}] in a column map',
    "hint-axis": 'joint "{subject}": its axis has another direction than in the robot file '
    "(torque left: {before:.1%} as given, {after:.1%} so); "
    'write <axis xyz="{axis}"/>',
    "hint-position-sign": 'joint "{subject}": its position has the wrong sign, its input the right one '
    "(torque left: {before:.1%} as given, {after:.1%} so); give q of [joints.{subject}] sign = -1 in a column map",
    "hint-input-sign": 'joint "{subject}": its input has the wrong sign '
    "(torque left: {before:.1%} as given, {after:.1%} so); give u of [joints.{subject}] sign = -1 in a column map",
    "hint-swapped": 'joints "{subject}" and "{other}" are swapped in the log '
    "(torque left: {before:.1%} as given, {after:.1%} so); exchange their columns in a column map",
    "hint-inputs-swapped": 'inputs of joints "{subject}" and "{other}" are swapped '
    "(torque left: {before:.1%} as given, {after:.1%} so); exchange their u columns in a column map",
    "hint-positions-swapped": 'positions of joints "{subject}" and "{other}" are swapped, their inputs are not '
    "(torque left: {before:.1%} as given, {after:.1%} so); exchange their q columns in a column map",
    "hint-small-motion": 'joint "{subject}" moved through {moved:.1%} of its range, and accelerations take {took:.1%} '
    "of its torques: those of the whole range are foretold to ± {error:.0%} only; record larger motions "
    "(diffnea excite plans them)",
    "hint-slow-motion": 'joint "{subject}" moved so slowly that accelerations take {took:.1%} of its torques: those of '
    "faster motion are foretold to ± {error:.0%} only; record faster motions (diffnea excite plans them)",
    "foretold": 'good for motions like these: torques of the whole range of joint "{subject}", at speeds that its '
    "torques allow, are foretold to ± {error:.0%}",
    "hint-degrees": "positions are in degrees "
    '(torque left: {before:.1%} as given, {after:.1%} so); write units = {{ q = "deg" }} in a column map',
    "hint-zero": 'positions of joint "{subject}" are counted from elsewhere than in the robot file: {degrees} are '
    "missing (torque left: {before:.1%} as given, {after:.1%} so); write offset = {cure} in a column map",
    "hint-time-unit": "times are in {unit} (torque left: {before:.1%} as given, {after:.1%} so); "
    'write time = {{ column = "time", unit = "{unit}" }} in a column map',
    "hint-clock": "a second of the log is {factor:.3g} s (torque left: {before:.1%} as given, {after:.1%} so); "
    'write time = {{ column = "time", scale = {factor:.3g} }} in a column map',
    "hint-delay": "inputs act {milliseconds:.3g} ms ({samples:.2g} samples) late "
    "(torque left: {before:.1%} as given, {after:.1%} so); "
    "add +delay to --actuator (up to 8 samples), or move the u columns",
    "hint-early": "inputs are logged {milliseconds:.3g} ms ({samples:.2g} samples) late "
    "(torque left: {before:.1%} as given, {after:.1%} so); move their columns, or log what was sent with its time",
    "hint-gravity": "gravity points along {gravity} m/s² "
    "(torque left: {before:.1%} as given, {after:.1%} so): the robot is mounted otherwise; "
    'write <diffnea gravity="{gravity}"/> in the robot file',
    "hint-placement": 'joints are not where the robot file has them ({moved}): torque left of joint "{subject}": '
    "{before:.1%} as given, {after:.1%} so, and blocks in time that were left out are surely predicted better; check "
    "lengths and directions in the <origin>s of the file, or add kinematics to --learn",
    "hint-bending": 'joint "{subject}" bends, as with a spring of {spring:.2g} {unit} between motor and link (torque '
    "left of it: {before:.1%} rigid, {after:.1%} so), and no part here does: a rigid model is good for slower motion "
    "only; record that, or stiffen the joint",
    "hint-armature": "rotors are missing in the robot file "
    "(torque left: {before:.1%} as given, {after:.1%} so); add armature to --learn",
    "hint-scale": "inputs are in another unit, {scale:.3g} times what was taken "
    "(torque left: {before:.1%} as given, {after:.1%} so); "
    "give u scale = {scale:.3g} in a column map, or put gain+ before the --actuator",
    "hint-friction": "friction is missing in the model (torque left: {before:.1%}, {after:.1%} with it); "
    "add --actuator stribeck",
    "hint-friction-drift": 'friction of joint "{subject}" changes in the course of a recording, as of a gear that '
    "warms up: {before:.2g} N·m (or N) are left as if it did not, {after:.2g} so; warm the robot up first",
    "hint-loss": "the search ended in a poor place: it leaves {before:.1%} of the torques, a regression {after:.1%}; "
    "try --loss torque --method auto",
    "hint-position-goal": "inputs of {subject} are positions to go to, not torques (correlation {alike:.4f} with q); "
    "log torque or current, and name its column in a column map",
    "hint-shuffled": "samples are not in order of time: positions jump by {jump:.2g} of their spread from one to "
    "the next; sort the log, or give Samples",
    "hint-input-missing": 'joint "{subject}" has a motor and moves as if driven (torque {takes:.1f} '
    "× that of a free joint), "
    "but the log has no input of it; name its column in a column map",
    "hint-joint": 'only joint "{subject}" is not explained ({before:.0%} of its torque is left): look at its input, '
    "and for springs, cables or a coupling that the model lacks",
    "another-robot": "the robot would weigh {factor:.3g} times what its file says: these are data of another robot, or "
    "inputs in another unit",
}


@dataclass(frozen=True)
class Note:
    """One thing to say: a stable code, whose it is (a joint, link or recording; "" for the whole fit), and values."""

    code: str
    subject: str = ""
    values: Mapping[str, object] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.code, self.subject, self.text))

    @property
    def text(self) -> str:
        """The sentence."""
        return SENTENCES[self.code].format(subject=self.subject, **self.values)

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> Json:
        """For JSON."""
        return {"code": self.code, "subject": self.subject, "values": dict(self.values), "text": self.text}

    @classmethod
    def from_dict(cls, data: Json) -> "Note":
        """Read it back.

        Args:
            data: what `to_dict` made.
        """
        return cls(str(data["code"]), str(data["subject"]), dict(data["values"]))


def note(code: str, subject: str = "", **values: object) -> Note:
    """A note; an unknown code, or a value that its sentence lacks, is an error here and not when it is printed."""
    made = Note(code, subject, values)
    str(made)
    return made
