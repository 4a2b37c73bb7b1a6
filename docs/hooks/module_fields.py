"""For the API page: Equinox modules are dataclasses, though nothing above them says so; fields are arguments."""

from griffe import Class, Decorator, ExprName, Extension

MODULES = {"equinox.Module", "AbstractActuator", "AbstractModel"}


class _Dataclass(ExprName):
    canonical_path = "dataclasses.dataclass"


class ModuleFields(Extension):
    def on_class_instance(self, *, cls: Class, **_: object) -> None:
        bases = {getattr(base, "canonical_path", str(base)) for base in cls.bases}
        if any(base in MODULES or base.rpartition(".")[2] in MODULES for base in bases):
            cls.decorators.append(Decorator(_Dataclass("dataclass"), lineno=None, endlineno=None))
