"""What a user declares: a launcher, its golden reference, its inputs, its space, its baselines."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tilewright.errors import UnknownDim, UnknownParameter, UsageError
from tilewright.records import Case, Config
from tilewright.runtime.table import active_table
from tilewright.spec import contents
from tilewright.spec import dtypes as dtype_names
from tilewright.spec import signature as signatures
from tilewright.spec import values as value_classes
from tilewright.spec.declaration import (
    as_options,
    call_with_known,
    check_declaration,
    is_size,
    launcher_parameters,
    made,
    names,
    short_dtypes,
)
from tilewright.spec.inputs import APART, Inputs, generator, lay_out
from tilewright.spec.shapes import evaluate
from tilewright.spec.signature import Parameter, Signature
from tilewright.spec.space import Space
from tilewright.spec.suppression import Suppression as Suppression
from tilewright.spec.virtual import HUGE, RESERVED, apart, virtual


class Operator:
    """A launcher with all that is needed to check, measure and tune it.

    Args:
        name: how reports call it.
        run: the launcher: a Python function that launches one or several Triton kernels and returns its
            outputs; or a bare ``@triton.jit`` kernel, then with ``grid``.
        reference: the golden reference, called with the same positional arguments (and those options it
            names); a tensor or a tuple. None: everything but the values is checked.
        inputs: makes the arguments of a case, ``inputs(**case) -> tuple`` (or a dict for keyword
            arguments). Not needed where ``run`` is annotated.
        space: meta-parameters and launch options with their choices. A kernel under ``@triton.autotune``
            brings its own.
        dtypes: which dtypes the ``Float`` tensors take, one for all of them in each case: short names
            (``"bf16"``), or torch's own (``torch.bfloat16``).
        where: a constraint over dims and options, such as ``"N % 8 == 0"``.
        values: what parameters hold, by name. For a tensor a value class (``values.indices("V")``,
            ``offsets``, ``integers``, ``uniform`` …) or a function ``(request) -> Tensor`` of your own, where
            ``request`` has ``shape`` and ``dtype`` (which the tensor must have), ``sizes`` (the case's dims by
            name) and ``generator`` (seeded: pass it to ``torch.rand``). For inputs that are no tensors, a list
            or ``values.choice`` of what cases take.
        mutates: parameters the operator changes in place; they are compared after the call.
        grad: parameters whose gradient is compared with the reference's float64 autograd.
        baselines: other ways to compute the same, by name, with the launcher's positional arguments; as
            ``"package.module:function"`` where the package may not be installed.
        flops: floating-point operations of one call, from its dims and options.
        shapes: sizes worth timing, by name: ``{"prefill": dict(B=4, S=4096)}``.
        grid: for a bare kernel: a tuple, or a callable of its arguments by name.
        suppress: accepted findings, each with a reason.

    Raises:
        AnnotationError, UnknownDim, UnknownParameter, UsageError: the declaration contradicts itself.
    """

    def __init__(
        self,
        *,
        name: str,
        run: Callable[..., Any],
        reference: Callable[..., Any] | None = None,
        inputs: Callable[..., Any] | None = None,
        space: Space | None = None,
        dtypes: str | torch.dtype | Sequence[str | torch.dtype] = ("fp32",),
        where: str | None = None,
        values: Mapping[str, Any] | None = None,
        mutates: Sequence[str] = (),
        grad: Sequence[str] = (),
        baselines: Mapping[str, Callable[..., Any] | str] | None = None,
        flops: Callable[..., float] | None = None,
        shapes: Mapping[str, Mapping[str, Any]] | None = None,
        grid: Any = None,
        suppress: Sequence[Suppression] = (),
    ) -> None:
        self.name = name
        self.run = run
        self.reference = reference
        self.inputs = inputs
        self.space = space
        self.dtypes = short_dtypes(dtypes)
        self.where = where
        self.values = dict(values or {})
        self.mutates = names(mutates)
        self.grad = names(grad)
        self.baselines = dict(baselines or {})
        self.flops = flops
        self.shapes = {label: dict(sizes) for label, sizes in (shapes or {}).items()}
        self.grid = grid
        self.suppress = tuple(suppress)
        self.is_bare_kernel = hasattr(run, "run") and hasattr(run, "fn")
        self.signature: Signature | None = None if inputs or self.is_bare_kernel else signatures.read(run, space)
        self.origin = ""
        check_declaration(self)

    # ------------------------------------------------------------------------------------------ calling

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the launcher, with the tuned configuration for these shapes where one is known."""
        if self.space is None or any(name in kwargs for name in self.space.parameters):
            return self.run(*args, **kwargs)
        choice = active_table().find(self.name, self.shape_key(args, kwargs), device_name([*args, *kwargs.values()]))
        if choice is None or not self._offers(choice):
            return self.run(*args, **kwargs)
        return self.run(*args, **kwargs, **choice)

    def _offers(self, choice: Mapping[str, Any]) -> bool:
        """Whether a choice made earlier is still a point of the space: the kernel may have changed since."""
        parameters = self.space.parameters if self.space else {}
        return all(value in parameters.get(name, ()) for name, value in choice.items())

    def shape_key(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """What a tuned choice holds for: dtype and shape of each tensor, the values of other arguments."""
        bound = inspect.signature(self.run).bind(*args, **kwargs)
        bound.apply_defaults()
        metas = self.space.parameters if self.space else ()
        return " ".join(_key_word(value) for name, value in bound.arguments.items() if name not in metas)

    def launch(self, inputs: Inputs, config: Config | None = None) -> Any:
        """Calls the launcher on a case's inputs, with a configuration's values as keyword arguments."""
        keywords = {**inputs.kwargs, **(config.values if config else {})}
        if self.is_bare_kernel:
            return self._launch_kernel(inputs, keywords)
        return self.run(*inputs.args, **keywords)

    def _launch_kernel(self, inputs: Inputs, keywords: Mapping[str, Any]) -> None:
        named = {**dict(zip(inputs.names, inputs.args, strict=True)), **keywords}
        grid = self.grid(named) if callable(self.grid) else self.grid
        self.run[grid](*inputs.args, **keywords)  # type: ignore[index]

    # ------------------------------------------------------------------------------------------- cases

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the sizes a case chooses."""
        if self.signature:
            return self.signature.symbols
        return tuple(p.name for p in self._input_parameters() if is_size(p))

    @property
    def meta_names(self) -> tuple[str, ...]:
        """Meta-parameters and launch options that the launcher itself takes."""
        own = [p.name for p in self.signature.parameters if p.role == "meta"] if self.signature else []
        return tuple(dict.fromkeys([*own, *(self.space.parameters if self.space else ())]))

    @property
    def argument_names(self) -> tuple[str, ...] | None:
        """What a case may name beside a configuration; None where ``inputs`` takes anything."""
        parameters = self._input_parameters()
        if any(p.kind is p.VAR_KEYWORD for p in parameters):
            return None
        return tuple(dict.fromkeys([*self.dims, *self.choices, *(p.name for p in parameters)]))

    @property
    def choices(self) -> dict[str, tuple[Any, ...]]:
        """What a case chooses beside sizes: options, inputs that are no tensors, optional tensors."""
        found: dict[str, tuple[Any, ...]] = {}
        for parameter in self.signature.parameters if self.signature else ():
            if parameter.tensor is not None and parameter.tensor.optional:
                found[parameter.name] = (False, True)
            elif parameter.role in ("input", "option"):
                found[parameter.name] = self._choices_of(parameter)
        if self.inputs is not None:
            for name, given in self.values.items():
                found[name] = as_options(given)
        return found

    @property
    def default_arguments(self) -> dict[str, Any]:
        """Default values of the parameters of ``inputs``; empty where the annotations are the declaration."""
        return {p.name: p.default for p in self._input_parameters() if p.default is not p.empty and p.name != "seed"}

    def complete(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Sizes and options with the defaults of what a case leaves out."""
        return {**{name: options[0] for name, options in self.choices.items()}, **self.default_arguments, **arguments}

    def allows(self, arguments: Mapping[str, Any]) -> bool:
        """Whether sizes and options fulfil ``where``, and every dim expression is a size."""
        arguments = self.complete(arguments)
        if self.where is not None and not self._evaluate_where(arguments):
            return False
        if self.signature is None:
            return True
        try:
            shapes = [p.tensor.shape(arguments) for p in self.signature.tensors if p.tensor]
        except ZeroDivisionError:
            return False
        return all(size >= 0 for shape in shapes for size in shape)

    def make_inputs(self, case: Case, device: torch.device | str = "cpu", *, drawn: bool = True) -> Inputs:
        """Draws the arguments of a case, from its seed.

        With ``drawn=False`` float tensors are left uninitialised, which takes neither time nor memory:
        enough to catch launches, whose kernels nobody executes.

        Raises:
            UnknownParameter: the case names an argument the operator does not have.
        """
        made = self._draw(case, drawn) if self.signature else self._call_inputs(case)
        for tensor in (made.tensors[name] for name in self.grad if name in made.tensors):
            tensor.requires_grad_()
        return made if torch.device(device).type == "cpu" else made.copy(device)

    def flops_of(self, case: Case) -> float | None:
        """Floating-point operations of one call, or None where the declaration does not say."""
        return None if self.flops is None else float(call_with_known(self.flops, self.complete(case.arguments)))

    def result_dtypes(self, case: Case) -> tuple[torch.dtype | None, ...]:
        """Dtypes the annotation promises for the results, None where it promises none."""
        returns = self.signature.returns if self.signature else None
        return tuple(spec.torch_dtype(case.dtype) if spec and spec.dtype else None for spec in returns or ())

    def __repr__(self) -> str:
        return f"Operator({self.name})"

    # ----------------------------------------------------------------------------------------- details

    def _draw(self, case: Case, drawn: bool) -> Inputs:
        assert self.signature is not None
        args: list[Any] = []
        names: list[str] = []
        kwargs: dict[str, Any] = {}
        self._check_arguments(case)
        contents.check(case.values)
        for parameter in self.signature.parameters:
            if parameter.role == "meta":
                continue
            value = self._draw_one(parameter, case, drawn)
            if parameter.positional:
                args.append(value)
                names.append(parameter.name)
            else:
                kwargs[parameter.name] = value
        made = Inputs(tuple(args), kwargs, tuple(names))
        if case.values == "unnamed-poison":
            contents.poison_unnamed(made.tensors, self._dim_names(), self.indexed_dims)
        return made.aliased() if case.layout == "aliased" else made

    @property
    def indexed_dims(self) -> dict[str, str]:
        """The dim that each tensor of declared indices points into."""
        given = {n: make for n, make in self.values.items() if isinstance(make, value_classes.integers)}
        return {name: make.high for name, make in given.items() if isinstance(make.high, str)}

    def _dim_names(self) -> dict[str, tuple[str, ...]]:
        """The dims of each tensor as they are written, of those that have no ``*name`` among them."""
        specs = {p.name: p.tensor for p in self.signature.tensors if p.tensor} if self.signature else {}
        return {
            name: tuple(dim.expression for dim in spec.dims)
            for name, spec in specs.items()
            if not any(dim.variadic for dim in spec.dims)
        }

    def _draw_one(self, parameter: Parameter, case: Case, drawn: bool) -> Any:
        spec = parameter.tensor
        if spec is None:
            return case.arguments.get(parameter.name, self.choices[parameter.name][0])
        if spec.optional and not case.arguments.get(parameter.name, False):
            return None
        dtype = spec.torch_dtype(case.dtype)
        make = contents.maker(case.values, self.values.get(parameter.name), dtype)
        sizes = self.complete(case.arguments)
        request = value_classes.Request(spec.shape(sizes), dtype, sizes, generator(case.seed, parameter.name))
        if math.prod(request.shape) * dtype.itemsize >= self._reserved_from(case):
            return _laid_out_virtually(request.shape, dtype, case.layout)
        if drawn or not dtype.is_floating_point:
            tensor = made(make, request, parameter.name)
        else:
            tensor = torch.empty(request.shape, dtype=dtype)
        if tuple(tensor.shape) != request.shape or tensor.dtype != dtype:
            raise UsageError(
                f"values[{parameter.name!r}] made {dtype_names.short(tensor.dtype)}{list(tensor.shape)} "
                f"where {dtype_names.short(dtype)}{list(request.shape)} was asked for"
            )
        if case.layout.endswith(APART):
            axis = spec.axis(case.layout.removesuffix(APART))
            tensor = tensor if axis is None else apart(tensor, axis)
        else:
            tensor = lay_out(tensor, case.layout, written=parameter.name in self.mutates)
        return tensor.requires_grad_() if parameter.name in self.grad else tensor

    def _reserved_from(self, case: Case) -> int:
        """Bytes from which on tensors of a case are reserved only: all but small ones where one of them is huge."""
        assert self.signature is not None
        sizes = self.complete(case.arguments)
        each = [
            math.prod(p.tensor.shape(sizes)) * p.tensor.torch_dtype(case.dtype).itemsize
            for p in self.signature.tensors
            if p.tensor is not None
        ]
        return RESERVED if max(each, default=0) >= HUGE else HUGE

    def _call_inputs(self, case: Case) -> Inputs:
        assert self.inputs is not None
        parameters = {p.name: p for p in self._input_parameters()}
        arguments = dict(case.arguments)
        if "seed" in parameters:
            arguments.setdefault("seed", case.seed)
        if case.dtype and "dtype" in parameters:
            is_torch = isinstance(parameters["dtype"].default, torch.dtype)
            arguments["dtype"] = dtype_names.to_torch(case.dtype) if is_torch else case.dtype
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        for name in arguments:
            if name not in parameters and not takes_any:
                raise UnknownParameter(f"{self.name}: inputs() takes no {name!r}", f"it takes {', '.join(parameters)}")
        with _seeded(case.seed):  # one case has the same inputs each time, whoever draws them
            made = self.inputs(**arguments)
        if isinstance(made, Mapping):
            inputs = Inputs((), dict(made), ())
        else:
            args = tuple(made) if isinstance(made, (tuple, list)) else (made,)
            inputs = Inputs(args, {}, self._positional_names(len(args)))
        if case.values != "normal":
            contents.check(case.values)
            inputs = contents.refilled(inputs, case.values, case.seed, self.reference)
        return inputs.moved() if case.layout == "offset" else inputs

    def _positional_names(self, count: int) -> tuple[str, ...]:
        names = [p.name for p in launcher_parameters(self.run)][:count]
        return tuple(names + [f"argument{i}" for i in range(len(names), count)])

    def _input_parameters(self) -> tuple[inspect.Parameter, ...]:
        return () if self.inputs is None else tuple(inspect.signature(self.inputs).parameters.values())

    def _choices_of(self, parameter: Parameter) -> tuple[Any, ...]:
        if parameter.name in self.values:
            return as_options(self.values[parameter.name])
        if isinstance(parameter.default, bool):
            return (parameter.default, not parameter.default)
        if parameter.literals:
            return tuple(dict.fromkeys([*([parameter.default] if parameter.has_default else []), *parameter.literals]))
        return (parameter.default,)

    def _evaluate_where(self, arguments: Mapping[str, Any]) -> bool:
        assert self.where is not None
        try:
            return bool(evaluate(self.where, arguments))
        except NameError as error:
            raise UnknownDim(
                f"{self.name}: where={self.where!r}: {error}", f"it may use {', '.join(arguments)}"
            ) from None
        except ZeroDivisionError:
            return False

    def _check_arguments(self, case: Case) -> None:
        known = {*self.dims, *self.choices}
        for name in case.arguments:
            if name not in known:
                raise UnknownDim(f"{self.name} has no dim or option {name!r}", f"it has {', '.join(sorted(known))}")
        for name in self.dims:
            if name not in case.arguments:
                raise UnknownDim(f"{self.name}: the case gives no size for {name}", f"it needs {', '.join(self.dims)}")
        dim = case.layout.removesuffix(APART)
        if dim != case.layout and dim not in self.dims:
            raise UnknownDim(f"{self.name} has no dim {dim!r} to lay out", f"it has {', '.join(self.dims)}")


def _laid_out_virtually(shape: tuple[int, ...], dtype: torch.dtype, layout: str) -> torch.Tensor:
    """A tensor that takes no memory: transposed if that is asked for, in any other layout contiguous."""
    if layout == "transposed" and len(shape) >= 2:
        return virtual((*shape[:-2], shape[-1], shape[-2]), dtype).mT
    return virtual(shape, dtype)


def operator(*launchers: Any, **declaration: Any) -> Callable[[Callable[..., Any]], Operator]:
    """Declares the decorated, annotated launcher as an :class:`Operator`; takes the same arguments.

    The result is called like the launcher. Keyword-only parameters found in ``space`` are
    meta-parameters, other keyword-only ones options, positional non-tensors inputs.

    Raises:
        UsageError: it was written without parentheses.
    """
    if launchers:
        name = getattr(launchers[0], "__name__", repr(launchers[0]))
        raise UsageError(
            f"@tw.operator over {name} says nothing of it",
            "write @tw.operator(reference=...), or @tw.operator() to check all but the values",
        )

    def declare(launcher: Callable[..., Any]) -> Operator:
        declared = Operator(name=declaration.pop("name", launcher.__name__), run=launcher, **declaration)
        functools.update_wrapper(declared, launcher)
        return declared

    return declare


def default_config(operator: Operator) -> Config:
    """The configuration a plain call runs in: the launcher's own defaults, as far as they are fixed.

    A meta-parameter that defaults to None is left out: the launcher chooses it by the sizes.
    """
    if operator.space is None or not len(operator.space):
        return Config({})
    first = next(iter(operator.space)).values
    if operator.signature is None:
        parameters = {} if operator.is_bare_kernel else dict(inspect.signature(operator.run).parameters)
        defaults = {n: p.default for n, p in parameters.items() if p.default is not p.empty}
    else:
        defaults = {p.name: p.default for p in operator.signature.parameters if p.has_default}
    chosen = {name: defaults.get(name, first[name]) for name in first}
    return Config({name: value for name, value in chosen.items() if value is not None})


def source_file(operator: Operator) -> Path | None:
    """The file the launcher was written in."""
    function = operator.run
    while not inspect.isfunction(function) and hasattr(function, "fn"):
        function = function.fn  # type: ignore[attr-defined]
    path = inspect.getsourcefile(inspect.unwrap(function)) if inspect.isfunction(function) else None
    return Path(path).resolve() if path else None


def device_name(arguments: Sequence[Any]) -> str:
    """The device that the first tensor among the arguments lives on, as its driver calls it."""
    for value in arguments:
        if isinstance(value, torch.Tensor):
            return torch.cuda.get_device_name(value.device) if value.is_cuda else value.device.type
    return "none"


def _key_word(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return dtype_names.short(value.dtype) + "[" + ",".join(map(str, value.shape)) + "]"
    return repr(value)


def replace(operator: Operator, **changes: Any) -> Operator:
    """The same operator with some of the declaration changed."""
    fields = inspect.signature(Operator).parameters
    declaration = {name: getattr(operator, name) for name in fields}
    changed = Operator(**{**declaration, **changes})
    changed.origin = operator.origin
    return changed


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """The generators of torch, NumPy and Python start from a seed, and go on afterwards as if nothing had been."""
    plain, of_numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        try:
            yield
        finally:
            random.setstate(plain)
            np.random.set_state(of_numpy)
