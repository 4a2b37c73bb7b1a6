"""`make_env`: from a fit, a model or a robot to an environment."""

from typing import TYPE_CHECKING, Any

from jaxtyping import ArrayLike, Float

from diffnea.arrays import Rows
from diffnea.environment.task import Reward, model_of, task_of

if TYPE_CHECKING:
    from diffnea.environment.envs import RobotEnv, RobotVectorEnv
else:  # they need Gymnasium, which is not always there
    RobotEnv = RobotVectorEnv = Any


def make_env(
    model: Any,
    *,
    dt: float = 0.02,
    seconds: float = 10.0,
    goal: Rows | Float[ArrayLike, " n"] | None = None,
    reward: Reward | None = None,
    effort: Rows | Float[ArrayLike, " n"] | None = None,
    start: Rows | Float[ArrayLike, "2 n"] | None = None,
    spread: float | Rows | Float[ArrayLike, "2 n"] = 0.05,
    num_envs: int | None = None,
) -> "RobotEnv | RobotVectorEnv":
    """A Gymnasium environment that simulates a learned model.

    Args:
        model: a fit, a `Model`, or a robot (then torques drive it).
        dt: seconds between actions; the action is held meanwhile.
        seconds: how long an episode lasts before it is truncated.
        goal: joint positions to hold, for the reward; zeros by default.
        reward: `(q, qd, u) -> number` in JAX for one robot, after the step; by default minus the squared distance from
            the goal (angles by `2 − 2 cos`), less a hundredth of the squared speed.
        effort: the command of an action of 1, one a joint, 0 where nothing drives it; by default the file's limits.
        start: positions and velocities (two rows) that an episode starts from; all zero by default.
        spread: starts are drawn uniformly within this of `start`; one number or two rows.
        num_envs: None for one robot, a `gymnasium.Env`; a number for that many in one call, a `VectorEnv`.

    Returns:
        Actions are in [−1, 1], one a driven joint; observations are cosine and sine of joints that turn without end,
        positions of the others, then all velocities. An episode terminates where the simulation diverges.
    """
    from diffnea.environment.envs import RobotEnv, RobotVectorEnv

    task = task_of(model_of(model), dt, seconds, goal, reward, effort, start, spread)
    return RobotEnv(task) if num_envs is None else RobotVectorEnv(task, num_envs)
