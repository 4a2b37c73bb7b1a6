"""The peers: each package's own way to the joint accelerations of many samples, in the layout it likes best."""

import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from contestants import TIME_STEP, Contestant, Files, Inputs, Work, places, runge_kutta

# The settings of XLA with which the peers in JAX are fastest, measured one by one. Its fusion emitters (JAX ≥ 0.7)
# compute shared values over and over, up to 300 times in MJX; the scheduler is the one that frax recommends.
FASTEST = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED",
}


# In JAX ------------------------------------------------------------------------------------------------------------


class JaxPeer(Contestant):
    """A function of one sample, under `vmap` and `jit`; `order` is that of its joints."""

    quantities = ("forward", "gradient")
    gradient_of = "state"
    order: list[int]

    def sample(self, q, qd, tau):
        """Joint accelerations of one sample."""
        raise NotImplementedError

    def accelerations(self, q, qd, tau):
        """Of a batch."""
        return jax.vmap(self.sample)(q, qd, tau)

    def _arrays(self, inputs: Inputs) -> list[jax.Array]:
        return inputs.each(lambda array: jax.device_put(array[:, self.order]))

    def _read(self, result: Any) -> np.ndarray:
        return np.asarray(result)[:, np.argsort(self.order)]

    def forward(self, inputs: Inputs) -> Work:
        function, arrays = jax.jit(self.accelerations, compiler_options=FASTEST), self._arrays(inputs)
        return Work(lambda: function(*arrays).block_until_ready(), self._read)

    def gradient(self, inputs: Inputs) -> Work:
        def loss(q, qd, tau):
            return (self.accelerations(q, qd, tau) ** 2).sum()

        function, arrays = jax.jit(jax.grad(loss, (0, 1)), compiler_options=FASTEST), self._arrays(inputs)
        return Work(
            lambda: jax.block_until_ready(function(*arrays)),
            lambda slopes: np.concatenate([self._read(slope) for slope in slopes], 1),
        )


class Mjx(JaxPeer):
    packages = ("mujoco-mjx",)

    def __init__(self, files: Files, cores: int):
        from mujoco import mjx

        model = mujoco_model(files.mjcf)
        self.order = places(files.joints, joint_names(model))
        self.mjx, self.model = mjx, mjx.put_model(model)
        self.data = mjx.make_data(self.model)

    def sample(self, q, qd, tau):
        return self.mjx.forward(self.model, self.data.replace(qpos=q, qvel=qd, qfrc_applied=tau)).qacc


class Brax(JaxPeer):
    """Brax's generalized pipeline up to the acceleration: no constraints, no contacts."""

    packages = ("brax",)

    def __init__(self, files: Files, cores: int):
        from brax.io import mjcf

        model = mujoco_model(files.mjcf)
        self.order = places(files.joints, joint_names(model))
        self.system = mjcf.load_model(model)

    def sample(self, q, qd, tau):
        from brax import kinematics
        from brax.generalized import dynamics, mass
        from brax.generalized.base import State

        state = State.init(q, qd, *kinematics.forward(self.system, q, qd))
        state = dynamics.transform_com(self.system, state)
        force = dynamics.forward(self.system, state, tau)
        return jax.scipy.linalg.solve(mass.matrix(self.system, state), force, assume_a="pos")


class JaxSim(JaxPeer):
    packages = ("jaxsim",)

    def __init__(self, files: Files, cores: int):
        import jaxsim.api as js

        self.js = js
        self.model = js.model.JaxSimModel.build_from_model_description(rod_model(files.urdf), gravity=9.81)
        self.order = places(files.joints, self.model.joint_names())

    def sample(self, q, qd, tau):
        data = self.js.data.JaxSimModelData.build(self.model, joint_positions=q, joint_velocities=qd)
        return self.js.model.forward_dynamics_aba(self.model, data, joint_forces=tau)[1]


class Adam(JaxPeer):
    """Adam's ABA is for floating bases: on a fixed one, its mass matrix, its bias and Cholesky, batched its own way."""

    packages = ("adam-robotics",)

    def __init__(self, files: Files, cores: int):
        from adam.jax import KinDynComputations

        self.order = list(range(len(files.joints)))
        gravity = jnp.array([0, 0, -9.81, 0, 0, 0])
        self.robot = KinDynComputations(files.urdf, list(files.joints), gravity=gravity)

    def accelerations(self, q, qd, tau):
        base, still = jnp.broadcast_to(jnp.eye(4), (len(q), 4, 4)), jnp.zeros((len(q), 6))
        mass = self.robot.mass_matrix(base, q)[:, 6:, 6:]
        bias = self.robot.bias_force(base, q, still, qd)[:, 6:]
        return jax.scipy.linalg.solve(mass, (tau - bias)[..., None], assume_a="pos")[..., 0]


class Frax(JaxPeer):
    packages = ("frax",)

    def __init__(self, files: Files, cores: int):
        from frax import Robot

        self.robot = Robot(files.urdf)
        self.order = places(files.joints, self.robot.joint_names)

    def sample(self, q, qd, tau):
        return self.robot.forward_dynamics(q, qd, tau, None)


# In C, C++ and torch -----------------------------------------------------------------------------------------------


class Pinocchio(Contestant):
    """`abaInParallel`, samples in columns, the result written into an array made before."""

    packages = ("pin",)
    compiles = False

    def __init__(self, files: Files, cores: int):
        import pinocchio as pin

        self.pin, self.cores = pin, cores
        self.model = pin.buildModelFromUrdf(files.urdf)
        self.data, self.pool = self.model.createData(), pin.ModelPool(self.model, cores)
        self.order = places(files.joints, list(self.model.names)[1:])
        self.back = np.argsort(self.order)

    def forward(self, inputs: Inputs) -> Work:
        arrays = inputs.each(lambda array: np.asfortranarray(array[:, self.order].T))
        out = np.zeros_like(arrays[0])

        def run():
            self.pin.abaInParallel(self.cores, self.pool, *arrays, out)
            return out

        return Work(run, lambda result: result.T[:, self.back].copy())

    # What the others are compared with; not timed.

    def parameter_gradient(self, inputs: Inputs) -> np.ndarray:
        """Of Σ q̈² in each link's (m, m·c, J): q̈ = M⁻¹ (τ − Y π), so it is −2 Yᵀ M⁻¹ q̈."""
        total: Any = 0
        for q, qd, tau in self._rows(inputs):
            qdd = self.pin.aba(self.model, self.data, q, qd, tau).copy()
            regressor = self.pin.computeJointTorqueRegressor(self.model, self.data, q, qd, qdd)
            total -= 2 * np.linalg.solve(self.pin.crba(self.model, self.data, q), qdd) @ regressor
        return total.reshape(-1, 10)[self.back]

    def state_gradient(self, inputs: Inputs) -> np.ndarray:
        """Of each sample's Σ q̈² in (q, q̇)."""
        rows = []
        for q, qd, tau in self._rows(inputs):
            slopes = self.pin.computeABADerivatives(self.model, self.data, q, qd, tau)[:2]
            rows.append(np.concatenate([(2 * self.data.ddq @ slope)[self.back] for slope in slopes]))
        return np.array(rows)

    def states(self, inputs: Inputs, steps: int) -> np.ndarray:
        """A few steps of roll-outs: (samples, steps, 2 n)."""

        def slope(state):
            q, qd = np.split(state, 2, 1)
            work = self.forward(replace(inputs, q=q, qd=qd))
            return np.concatenate([qd, work.read(work.run())], 1)

        found = [np.concatenate([inputs.q, inputs.qd], 1)]
        for _ in range(steps):
            found.append(runge_kutta(slope, found[-1]))
        return np.stack(found[1:], 1)

    def _rows(self, inputs: Inputs) -> Iterator[tuple]:
        return zip(*inputs.each(lambda array: array[:, self.order]), strict=True)


class Mujoco(Contestant):
    """MuJoCo's C `rollout`. For accelerations: an Euler step of one second gives q̇ + q̈, with no loop in Python."""

    packages = ("mujoco",)
    quantities = ("forward", "rollout")
    compiles = False

    def __init__(self, files: Files, cores: int):
        self.file, self.threads = files.mjcf, cores if cores > 1 else 0
        self.order = places(files.joints, joint_names(mujoco_model(files.mjcf)))
        self.back = np.argsort(self.order)

    def _work(self, inputs: Inputs, steps: int, timestep: float, integrator: str, read: Callable) -> Work:
        import mujoco
        from mujoco.rollout import Rollout

        model = mujoco_model(self.file, timestep, integrator)
        data = [mujoco.MjData(model) for _ in range(max(self.threads, 1))]
        q, qd, tau = inputs.each(lambda array: array[:, self.order])
        start = np.concatenate([np.zeros((len(q), 1)), q, qd], 1)
        torques = np.ascontiguousarray(np.broadcast_to(tau[:, None], (len(q), steps, tau.shape[1])))
        states, sensors = np.empty((len(q), steps, start.shape[1])), np.empty((len(q), steps, 0))
        pool, models = Rollout(nthread=self.threads), [model] * len(q)
        given = {"control_spec": mujoco.mjtState.mjSTATE_QFRC_APPLIED.value, "nstep": steps, "skip_checks": True}
        return Work(
            lambda: pool.rollout(models, data, start, torques, state=states, sensordata=sensors, **given)[0], read
        )

    def forward(self, inputs: Inputs) -> Work:
        columns = 1 + len(self.order) + self.back
        return self._work(inputs, 1, 1.0, "EULER", lambda states: states[:, 0, columns] - inputs.qd)

    def rollout(self, inputs: Inputs, steps: int) -> Work:
        columns = np.concatenate([1 + self.back, 1 + len(self.order) + self.back])
        return self._work(inputs, steps, TIME_STEP, "RK4", lambda states: states[:, :, columns])


class DifferentiableRobotModel(Contestant):
    """Torch, in single precision, which is all it has; it takes every joint for a revolute one."""

    packages = ("differentiable-robot-model", "torch")
    compiles = False
    tolerance = 1e-2

    def __init__(self, files: Files, cores: int):
        import torch
        from differentiable_robot_model.robot_model import DifferentiableRobotModel

        torch.set_num_threads(cores)
        self.torch, self.model = torch, DifferentiableRobotModel(files.urdf)
        tree, links = self.model._urdf_model, (self.model._bodies[i].name for i in self.model._controlled_joints)
        self.order = places(files.joints, (tree.robot.joints[tree.find_joint_of_body(link)].name for link in links))

    def forward(self, inputs: Inputs) -> Work:
        arrays = inputs.each(lambda array: self.torch.tensor(array[:, self.order], dtype=self.torch.float32))

        def run():
            with self.torch.no_grad():
                return self.model.compute_forward_dynamics(*arrays)

        return Work(run, lambda result: result.numpy().astype(float)[:, np.argsort(self.order)])


PEERS: dict[str, type[Contestant]] = {
    "pinocchio": Pinocchio,
    "mujoco": Mujoco,
    "mjx": Mjx,
    "jaxsim": JaxSim,
    "adam": Adam,
    "frax": Frax,
    "brax": Brax,
    "diff-robot-model": DifferentiableRobotModel,
}


# Robots in their own form -------------------------------------------------------------------------------------------


def mujoco_model(path: str, timestep: float = TIME_STEP, integrator: str = "EULER") -> Any:
    """A MuJoCo model that computes the smooth dynamics and nothing else."""
    import mujoco

    spec = mujoco.MjSpec.from_file(path)
    spec.compiler.fusestatic = True
    for actuator in list(spec.actuators):
        spec.delete(actuator)
    for joint in spec.joints:
        joint.limited = joint.actfrclimited = mujoco.mjtLimited.mjLIMITED_FALSE
    spec.option.timestep = timestep
    spec.option.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{integrator}")
    flags = mujoco.mjtDisableBit
    spec.option.disableflags = flags.mjDSBL_CONSTRAINT | flags.mjDSBL_CONTACT | flags.mjDSBL_EULERDAMP
    return spec.compile()


def joint_names(model: Any) -> list[str]:
    """The joints of a MuJoCo model."""
    return [model.joint(i).name for i in range(model.njnt)]


def rod_model(urdf: str) -> Any:
    """A robot of `Files` in the form of JaxSim's reader, which needs Gazebo's programs to read URDF itself."""
    import rod

    def numbers(element: Any, *names: str) -> list[float]:
        return [float(number) for name in names for number in element.attrib[name].split()]

    def link(element: Any, mover: str | None) -> Any:
        centre, mass, tensor = (element.find(f"inertial/{tag}") for tag in ("origin", "mass", "inertia"))
        moments = rod.Inertia(**{key: float(value) for key, value in tensor.items()})
        inertial = rod.Inertial(numbers(mass, "value")[0], moments, pose=rod.Pose(numbers(centre, "xyz", "rpy")))
        return rod.Link(element.attrib["name"], mover and rod.Pose([0.0] * 6, relative_to=mover), inertial)

    def joint(element: Any) -> Any:
        parent, child = (element.find(tag).attrib["link"] for tag in ("parent", "child"))
        pose = rod.Pose(numbers(element.find("origin"), "xyz", "rpy"), relative_to=parent)
        axis = rod.Axis(rod.Xyz(numbers(element.find("axis"), "xyz")))
        return rod.Joint(element.attrib["name"], element.attrib["type"], parent, child, pose, axis)

    root: Any = ET.parse(urdf).getroot()
    movers = {element.find("child").attrib["link"]: element.attrib["name"] for element in root.iter("joint")}
    links = [link(element, movers.get(element.attrib["name"])) for element in root.iter("link")]
    joints = [rod.Joint("ground", "fixed", "world", links[0].name), *map(joint, root.iter("joint"))]
    return rod.Model("robot", link=links, joint=joints)
