"""A hash of what functions say: equal while they, and what they reach by name, are written alike.

Where code stands, its comments and its decorators are no part of it, so a space or a list of configurations may change
and what was tuned before still holds. Kernels are known by being wrapped (``.fn``); Triton is not imported.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import sysconfig
import textwrap
import types
from collections.abc import Iterator
from typing import Any

_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_LIBRARIES = ("torch", "triton", "numpy", "jaxtyping", "tilewright")  # wherever they are installed
_DEEPEST = 100  # decorators over one another; what wraps itself ends here
_CONSTANTS = (bool, int, float, str, tuple, type(None))


def source_hash(*functions: Any) -> str:
    """Sixteen hex digits for functions, kernels or partial functions, in this order.

    Followed by name: kernels, functions of the user's own files and of the packages the given ones are in, constants.
    """
    walk = _Walk(functions)
    for function in functions:
        walk.visit(function)
    return hashlib.sha256("\n".join(walk.parts).encode()).hexdigest()[:16]


class _Walk:
    def __init__(self, roots: tuple[Any, ...]) -> None:
        self._packages = {_package(function) for root in roots if (function := _function(root)) is not None}
        self._seen: set[int] = set()
        self.parts: list[str] = []

    def visit(self, value: Any) -> None:
        function = _function(value)
        if function is None:
            self.parts.append(_constant(value))
            return
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        self.parts.append(_text(value, function))
        for layer in _layers(value):
            for part in (*_heuristics(layer), *_bound(layer)):
                self.visit(part)
        for name, reached in _reached(function):
            if _function(reached) is not None:
                if self._follows(reached):
                    self.visit(reached)
            elif text := _constant(reached):
                self.parts.append(f"{name}={text}")

    def _follows(self, value: Any) -> bool:
        function = _function(value)
        assert function is not None
        package = _package(function)
        if package == "triton":
            return False  # its version is part of every key
        if package in self._packages or (value is not function and hasattr(value, "fn")):
            return True
        return package not in _LIBRARIES and not function.__code__.co_filename.startswith(_INSTALLED)


def _layers(value: Any) -> Iterator[Any]:
    """A kernel's decorators from the outside in, and what they wrap."""
    for _ in range(_DEEPEST):
        yield value
        inner = None if isinstance(value, type) else _wrapped(value)
        if inner is None:
            return
        value = inner


def _wrapped(value: Any) -> Any:
    """What a kernel, a partial function or a decorated one wraps."""
    return next(
        (vars(value)[name] for name in ("fn", "__wrapped__") if name in getattr(value, "__dict__", ())), None
    ) or (value.func if isinstance(value, functools.partial) else None)


def _function(value: Any) -> types.FunctionType | None:
    """The Python function below all wrapping, or None where there is none."""
    innermost = value
    for layer in _layers(value):
        innermost = layer
    innermost = getattr(innermost, "__func__", innermost)
    return innermost if isinstance(innermost, types.FunctionType) else None


def _heuristics(layer: Any) -> list[Any]:
    """The functions of ``@triton.heuristics``, which compute meta-parameters."""
    values = getattr(layer, "values", None)
    return [each for each in values.values() if callable(each)] if isinstance(values, dict) else []


def _bound(layer: Any) -> list[Any]:
    """What a partial function has of its arguments."""
    return [*layer.args, *layer.keywords.values()] if isinstance(layer, functools.partial) else []


def _package(function: types.FunctionType) -> str:
    return (function.__module__ or "").partition(".")[0]


def _text(value: Any, function: types.FunctionType) -> str:
    """The function as code without comments, decorators and layout; as bytecode where it has no text of its own."""
    try:
        kept = next((layer.src for layer in _layers(value) if isinstance(getattr(layer, "src", None), str)), None)
        tree = ast.parse(textwrap.dedent(kept or inspect.getsource(function))).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        return _bytecode(function.__code__)
    if not isinstance(tree, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return _bytecode(function.__code__)  # a lambda: its line may hold more than itself
    tree.decorator_list = []
    return ast.unparse(tree)


def _bytecode(code: types.CodeType) -> str:
    constants = [_bytecode(c) if isinstance(c, types.CodeType) else _constant(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {constants}"


def _reached(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function's code names in its module and in the functions around it, attributes of modules included."""
    names = _names(function.__code__)
    known = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            known[name] = cell.cell_contents
        except ValueError:  # not yet assigned
            continue
        names.setdefault(name)
    for name in names:
        value = known.get(name, _Walk)
        if isinstance(value, types.ModuleType):
            if not value.__name__.startswith("triton"):
                yield from ((f"{name}.{part}", vars(value)[part]) for part in names if part in vars(value))
        elif value is not _Walk:
            yield name, value


def _names(code: types.CodeType) -> dict[str, None]:
    names = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names.update(_names(constant))
    return names


def _constant(value: Any) -> str:
    """The text of a constant, ``tl.constexpr`` included, or a name; empty for what may change meanwhile."""
    value = getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
    if isinstance(value, (type, types.BuiltinFunctionType)):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_constant, value))})"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(_constant, value)))}}}"
    return repr(value) if isinstance(value, _CONSTANTS) else ""
