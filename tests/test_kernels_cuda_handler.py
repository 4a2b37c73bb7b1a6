"""What is launched on NVIDIA's GPUs: the handler, with a driver and an interface of our own."""

import ctypes

import pytest
from kernel_programs import swing

from diffnea.kernels.cuda.source import THREADS, source
from diffnea.kernels.ir.layout import Layout
from diffnea.kernels.jax import cuda_handler
from diffnea.kernels.llvm import machine as llvm_machine

_Function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
_Launch = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)


class _Calls:
    """A handler for `swing`, and what it did."""

    def __init__(self, status: int = 0):
        written = source(swing(), Layout((True, False), (False, True)), "float64")
        self.launches: list[tuple] = []
        self.memory: list[int] = []
        self.errors: list[bytes] = []
        self.slots = 2 * 4 + 4
        name = f"test_{id(self)}"
        self.keep: list = [_Launch(lambda *given: self._launch(status, *given))]
        address = ctypes.cast(self.keep[0], ctypes.c_void_p).value
        llvm_machine.publish(f"{name}_launch", address or 0)
        llvm_machine.publish(f"{name}_name", ctypes.cast(_no_name, ctypes.c_void_p).value or 0)
        llvm_machine.publish(f"{name}_compute", 1)
        llvm_machine.publish(f"{name}_reduce", 2)
        arrays = written.arguments, written.outputs
        launch = cuda_handler.Launch(
            f"{name}_compute", f"{name}_reduce", *arrays, THREADS, 4, 100, 1234, written.summed
        )
        machine, assembly = llvm_machine.host(), cuda_handler.handler(launch, 64)
        assembly = assembly.replace("diffnea_cuLaunchKernel", f"{name}_launch")
        assembly = assembly.replace("diffnea_cuGetErrorName", f"{name}_name")
        (self.handler,) = llvm_machine.load(llvm_machine.object_code(assembly, machine), machine, "handler")

    def _launch(self, status, kernel, x, y, _z, threads, _ty, _tz, shared, stream, parameters, _extra):
        pointers = ctypes.cast(parameters, ctypes.POINTER(ctypes.c_void_p))
        slots = [ctypes.cast(pointers[k] or 0, ctypes.POINTER(ctypes.c_int64))[0] for k in range(self.slots)]
        self.launches.append((kernel, (x, y), threads, shared, stream, slots))
        return status

    def __call__(self, *shapes: tuple[int, int, int]) -> bool:
        """Call with buffers of these shapes; whether it went well."""
        interface = cuda_handler.interface()
        api = (ctypes.c_void_p * (6 + interface["functions"]))()
        functions = {"stream_get": self._stream, "allocate": self._allocate, "free": self._free}
        functions["error_create"] = self._error
        for name, function in functions.items():
            self.keep.append(_Function(function))
            api[6 + interface[name]] = ctypes.cast(self.keep[-1], ctypes.c_void_p).value
        buffers = *self._buffers(shapes[:2]), *self._buffers(shapes[2:])
        frame = (ctypes.c_int64 * 15)(0, 0, ctypes.addressof(api), 0, 3, *buffers)
        error = _Function(self.handler)(ctypes.cast(ctypes.pointer(frame), ctypes.POINTER(ctypes.c_void_p)))
        return error is None

    def _buffers(self, shapes) -> list[int]:
        places = (ctypes.c_int64 * len(shapes))()
        for k, shape in enumerate(shapes):
            dims = (ctypes.c_int64 * 3)(*shape)
            buffer = (ctypes.c_int64 * 6)(48, 0, 12, 1000 + k, 3, ctypes.addressof(dims))
            places[k] = ctypes.addressof(buffer)
            self.keep += [dims, buffer]
        self.keep.append(places)
        return [40, 0, len(shapes), 0, ctypes.addressof(places)]

    def _stream(self, arguments):
        arguments[3] = 77

    def _allocate(self, arguments):
        self.memory.append(arguments[3])
        arguments[5] = 4096

    def _free(self, arguments):
        assert arguments[4] == 4096
        self.memory.append(-arguments[3])

    def _error(self, arguments):
        self.errors.append(ctypes.string_at(arguments[2]))
        return 1


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
def _no_name(_status, _place):
    return 0


def _shapes(models: int, samples: int):
    return (models, samples, 2), (1, 1, 2), (models, samples, 2), (models, 1, 3)


@pytest.fixture(scope="module")
def handler_needs():
    try:
        llvm_machine.host()
        cuda_handler.interface()
    except (ImportError, ValueError) as error:
        pytest.skip(str(error))


def test_handler_cuts_samples_into_blocks(handler_needs):
    calls = _Calls()
    assert calls(*_shapes(1, 100_000))
    (kernel, grid, threads, shared, stream, slots), (second, *_, more) = calls.launches
    assert (kernel, threads, shared, stream, second) == (1, THREADS, 1234, 77, 2)
    blocks = slots[-1]
    assert grid == (blocks, 1) and blocks <= 100 and blocks * THREADS * 8 >= 100_000
    assert calls.memory == [8 * 3 * blocks, -8 * 3 * blocks] and slots[-4] == more[-4] == 4096
    assert slots[:8] == [1000, 200_000, 1001, 2, 1000, 200_000, 1001, 3] and slots[-3:-1] == [100_000, 1]


def test_handler_takes_any_number_of_models(handler_needs):
    calls = _Calls()
    assert calls(*_shapes(100_000, 5)) and calls.launches[0][1] == (1, 65_535)
    assert calls.launches[0][-1][2:4] == [1001, 0]  # one copy for all
    assert calls(*_shapes(0, 5)) and len(calls.launches) == 2


def test_handler_sums_no_samples_to_zero(handler_needs):
    calls = _Calls()
    assert calls(*_shapes(2, 0)) and [launch[0] for launch in calls.launches] == [2] and not calls.memory


def test_handler_refuses_other_shapes_and_reports_failures(handler_needs):
    calls = _Calls()
    assert not calls((1, 5, 2), (1, 1, 2), (1, 6, 2), (1, 1, 3)) and b"shapes" in calls.errors[0]
    assert not calls((1, 5, 2), (1, 1, 2), (1, 5, 2), (2, 1, 3)) and not calls.launches
    failing = _Calls(status=1)
    assert not failing(*_shapes(1, 5)) and len(failing.errors) == 1 and sum(failing.memory) == 0
