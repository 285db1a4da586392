"""From what a user types to Operators: ``file.py``, ``file.py:name``, ``package.module:name``, a library name.

Also the way back: the address by which a child process finds the same operator again.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tilewright.errors import (
    FileMissing,
    ImportFailed,
    NoOperator,
    NotImportable,
    TilewrightError,
    TritonMissing,
    UsageError,
)
from tilewright.spec.address import Address as Address
from tilewright.spec.address import KernelCall as KernelCall
from tilewright.spec.address import Named
from tilewright.spec.bare import is_kernel, of_kernel
from tilewright.spec.operator import Operator
from tilewright.spec.space import Space

LIBRARY = "tilewright.kernels"


def load(target: str, call: KernelCall | None = None) -> tuple[Operator, ...]:
    """The operators that a name stands for; one, unless a file holds several.

    Args:
        call: example arguments and a grid, where ``target`` names a bare kernel.

    Raises:
        FileMissing, ImportFailed, NoOperator, UsageError.
    """
    path, _, name = target.partition(":")
    if path.endswith(".py"):
        module = import_file(Path(path))
        return _from_module(module, name, target, call)
    if ":" in target:
        return _from_module(_import_module(path), name, target, call)
    if target in library_names():
        return _from_module(_import_module(f"{LIBRARY}.{target}.operator"), target, target, call)
    raise FileMissing(
        f"{target!r} is no Python file, no package.module:name and no library operator",
        f"library operators: {', '.join(library_names()) or 'none'}",
    )


def named(emit: Any, *, target: str, call: KernelCall | None) -> tuple[Named, ...]:
    """For a process that asks: names and addresses of the operators that :func:`load` finds here."""
    return tuple(Named(operator.name, address(operator, call)) for operator in load(target, call))


def library_names() -> tuple[str, ...]:
    """Operators that come with tilewright: the folders of ``kernels/``."""
    folder = Path(__file__).parent.parent / "kernels"
    return tuple(sorted(p.parent.name for p in folder.glob("*/operator.py")))


def import_file(path: Path) -> ModuleType:
    """Imports a file as the module that ``python`` would see, with its folder importable.

    Raises:
        FileMissing: no such file. ImportFailed: it raised; the message names the line in it.
    """
    path = path.resolve()
    if not path.is_file():
        raise FileMissing(f"no such file: {_shown(path)}")
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == str(path) and module.__name__ != "__main__":
            return module
    name, root = _module_name(path)
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    if "." in name:
        return _part_of_package(name, path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        sys.modules.pop(name, None)
        if isinstance(error, (KeyboardInterrupt, TilewrightError)):
            raise
        raise _import_failure(path, error) from error
    return module


def _part_of_package(name: str, path: Path) -> ModuleType:
    """A file imported by its dotted name: by another, its package would import it a second time."""
    module = _import_module(name)
    if Path(module.__file__ or "").resolve() != path:
        raise ImportFailed(
            f"{_shown(path)} is {name}, but {module.__file__} has that name already", "rename one package"
        )
    return module


def _module_name(path: Path) -> tuple[str, Path]:
    """The dotted name of a file inside its package, and the folder that must be importable for it."""
    parts, folder = [path.stem] if path.stem != "__init__" else [], path.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    name = ".".join(parts)
    if len(parts) == 1 and (name in sys.modules or name in sys.stdlib_module_names):
        name = f"{name}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    return name, folder


def _import_module(name: str) -> ModuleType:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise FileMissing(f"no module named {name!r}", "is it installed, or below the working directory?") from None
        raise _import_failure(Path(name), error) from error
    except (KeyboardInterrupt, TilewrightError):
        raise
    except BaseException as error:
        raise _import_failure(Path(name), error) from error


def _import_failure(path: Path, error: BaseException) -> TilewrightError:
    """What a file (or a module of that name) raised, with the line in the first file that was at work."""
    if isinstance(error, SyntaxError) and os.path.isfile(error.filename or ""):
        return ImportFailed(f"{_shown(Path(error.filename or ''))}:{error.lineno}: {error.msg}")
    missing = getattr(error, "name", "") or ""
    if isinstance(error, ModuleNotFoundError) and missing.split(".")[0] == "triton":
        return TritonMissing.here()  # a fact of this machine, not a fault of the file
    machinery = ("<frozen importlib", __file__, importlib.__file__)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(machinery)]
    lines = [f.lineno for f in frames if f.filename == frames[0].filename]
    where = f"{_shown(Path(frames[0].filename))}:{lines[-1]}" if frames else _shown(path)
    return ImportFailed(f"{where}: {type(error).__name__}: {error}")


def _from_module(module: ModuleType, name: str, target: str, call: KernelCall | None) -> tuple[Operator, ...]:
    if name:
        return (_named(module, name, target, call),)
    found: dict[Operator, str] = {}
    for attribute, value in vars(module).items():
        if isinstance(value, Operator):
            found.setdefault(value, attribute)  # a second name is an alias
    own = {v: n for v, n in found.items() if not _is_imported(v, module)} or found
    if not own:
        kernels = [
            n for n, v in vars(module).items() if is_kernel(v) and getattr(v, "__module__", "") == module.__name__
        ]
        hint = "decorate a launcher with @tw.operator(reference=...)"
        if kernels:
            hint += f", or give --args and --grid for a kernel: {target}:{kernels[0]}"
        raise NoOperator(f"no operator in {_shown(Path(module.__file__ or target))}", hint)
    _refuse_call(call, target)
    return tuple(_with_origin(v, module, n) for v, n in own.items())


def _refuse_call(call: KernelCall | None, target: str) -> None:
    if call is not None:
        raise UsageError(f"{target} is a declared operator: it makes its own arguments", "leave out --args and --grid")


def _is_imported(operator: Operator, module: ModuleType) -> bool:
    """Whether an operator is another module's: that of its launcher, which holds it too."""
    home = sys.modules.get(getattr(operator.run, "__module__", None) or "")
    return home is not None and home is not module and any(v is operator for v in vars(home).values())


def _named(module: ModuleType, name: str, target: str, call: KernelCall | None) -> Operator:
    value = getattr(module, name, None)
    if isinstance(value, Operator):
        _refuse_call(call, target)
        return _with_origin(value, module, name)
    if value is not None and is_kernel(value):
        if call is None:
            raise UsageError(
                f"{target} is a bare kernel: give example arguments and a grid",
                '--args "torch.randn(1000), torch.empty(1000), 1000, BLOCK=128" --grid "(8,)"',
            )
        return _with_origin(of_kernel(value, call, vars(module)), module, name)
    names = [n for n, v in vars(module).items() if isinstance(v, Operator)]
    where = _shown(Path(module.__file__)) if module.__file__ else module.__name__
    raise NoOperator(f"no operator named {name!r} in {where}", f"it has: {', '.join(names) or 'none'}")


def _with_origin(operator: Operator, module: ModuleType, name: str) -> Operator:
    operator.origin = f"{module.__file__}:{name}" if module.__file__ else f"{module.__name__}:{name}"
    return operator


def _shown(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


# --------------------------------------------------------------------------- the way to a child process


@dataclass(frozen=True)
class _Named:
    """A module-level object, by file and name."""

    file: str
    name: str


@dataclass(frozen=True)
class _SpaceParts:
    configs: tuple[Mapping[str, Any], ...]


def address(operator: Operator, call: KernelCall | None = None) -> Address:
    """The address of an operator.

    Raises:
        NotImportable: it was made from functions that no other process can import.
    """
    origin = operator.origin or _global_name(operator, but=("__main__",))
    if origin:
        return Address(origin, call)
    fields = inspect.signature(Operator).parameters
    try:
        return Address("", parts={name: _pack(getattr(operator, name), operator, name) for name in fields})
    except NotImportable:
        # Of a script only what stands above its main guard exists in another process: the parts come first.
        script = _global_name(operator)
        if not script:
            raise
        return Address(script, call)


def resolve(where: Address) -> Operator:
    """The operator at an address, in this process."""
    if where.parts is None:
        return load(where.origin, where.call)[0]
    return Operator(**{name: _unpack(value) for name, value in where.parts.items()})


def _global_name(value: Any, but: tuple[str, ...] = ()) -> str:
    """File and name under which a module holds an object; modules named in ``but`` are passed over."""
    home = sys.modules.get(getattr(value, "__module__", None) or "")
    for module in [home, *sys.modules.values()]:
        file = getattr(module, "__file__", None) or ""
        if getattr(module, "__name__", "") in but or not file.endswith(".py"):
            continue
        for name, candidate in list(vars(module).items()):
            if candidate is value:
                return f"{file}:{name}"
    return ""


def _pack(value: Any, operator: Operator, field: str) -> Any:
    if isinstance(value, Space):
        return _SpaceParts(tuple(config.values for config in value))
    if isinstance(value, dict):
        return {name: _pack(item, operator, field) for name, item in value.items()}
    if callable(value) and not isinstance(value, type) and hasattr(value, "__module__") and not _is_data(value):
        found = _global_name(value)
        if not found:
            raise NotImportable(
                f"{operator.name}: {field}= is not reachable by name from another process",
                "define it at a module's top level (no lambda, no inner function)",
            )
        file, _, name = found.rpartition(":")
        return _Named(file, name)
    return value


def _is_data(value: Any) -> bool:
    return type(value).__module__ == "tilewright.spec.values"


def _unpack(value: Any) -> Any:
    if isinstance(value, _SpaceParts):
        return Space.of_configs(value.configs)
    if isinstance(value, _Named):
        return getattr(import_file(Path(value.file)), value.name)
    if isinstance(value, dict):
        return {name: _unpack(item) for name, item in value.items()}
    return value
