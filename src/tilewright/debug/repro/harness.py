"""What a written script holds beside the user's code. It is copied there as text, and runs on torch and triton alone."""

import base64
import os
import zlib

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported: kernels run in its interpreter

import triton  # noqa: F401  # the user's code may be all that needs it
from torch.utils._python_dispatch import TorchDispatchMode
from triton.runtime import interpreter as repro_interpreter
from triton.runtime.interpreter import InterpretedFunction, InterpreterBuilder, TensorHandle
from triton.runtime.jit import JITFunction

# --- copied from here

REPRO_DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
REPRO_BAND = 4096  # bytes in front of and behind the memory of each tensor
REPRO_POISON = 0xFF  # NaN in all common floats, -1 in integers
REPRO_LARGE = 1 << 28  # bytes of a tensor from which on nothing is put around it


def repro_memory(values):
    """A tensor on the device with the same elements, in memory with bands on both sides."""
    size = values.untyped_storage().nbytes()
    if size >= REPRO_LARGE:
        return values.to(REPRO_DEVICE)
    memory = torch.full((size + 2 * REPRO_BAND,), REPRO_POISON, dtype=torch.uint8, device=REPRO_DEVICE)
    memory[REPRO_BAND : REPRO_BAND + size] = repro_bytes(values).to(REPRO_DEVICE)
    start = values.storage_offset() + REPRO_BAND // values.element_size()
    return repro_set(memory, values.dtype, start, values.shape, values.stride())


def repro_view(memory, dtype, shape, stride, offset):
    """A view of a tensor's memory, ``offset`` elements of ``dtype`` behind its start."""
    start = memory.storage_offset() * memory.element_size() // dtype.itemsize
    return repro_set(memory, dtype, start + offset, shape, stride)


def repro_set(memory, dtype, start, shape, stride):
    return torch.empty(0, dtype=dtype, device=memory.device).set_(memory.untyped_storage(), start, shape, stride)


def repro_bytes(tensor):
    """All bytes of the memory that a tensor is in."""
    return repro_set(tensor, torch.uint8, 0, (tensor.untyped_storage().nbytes(),), (1,))


def repro_packed(text, dtype, shape):
    return torch.frombuffer(bytearray(zlib.decompress(base64.b85decode(text))), dtype=dtype).reshape(shape)


def repro_sparse(shape, dtype, runs):
    """Zeros, but for runs of elements."""
    tensor = torch.zeros(shape, dtype=dtype)
    for start, values in runs:
        tensor.view(-1)[start : start + len(values)] = values
    return tensor


class ReproFences(TorchDispatchMode):
    """While the launcher runs: fresh memory holds poison and has bands; around each launch, so has what no argument covers.

    What a kernel writes there is told; what it reads there is NaN, or -1. So are, in the interpreter, masked lanes of
    a load without ``other``, which may hold anything.
    """

    FRESH = ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")
    FILLED = (
        "zeros",
        "zeros_like",
        "new_zeros",
        "ones",
        "ones_like",
        "new_ones",
        "full",
        "full_like",
        "new_full",
        "clone",
    )

    def __init__(self):
        super().__init__()
        self.broken = False

    def __enter__(self):
        self.runs = [(kind, kind.run) for kind in (JITFunction, InterpretedFunction)]
        for kind, run in self.runs:
            kind.run = self.watched(run)
        self.load = InterpreterBuilder.create_masked_load
        InterpreterBuilder.create_masked_load = repro_filling(self.load)
        return super().__enter__()

    def __exit__(self, *error):
        for kind, run in self.runs:
            kind.run = run
        InterpreterBuilder.create_masked_load = self.load
        return super().__exit__(*error)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("aten::")
        is_memory = isinstance(result, torch.Tensor) and result.numel() and result.device.type == REPRO_DEVICE
        if not is_memory or name not in self.FRESH + self.FILLED:
            return result
        with torch._C._DisableTorchDispatch():
            if name in self.FRESH and result.untyped_storage().nbytes() < REPRO_LARGE:
                repro_bytes(result).fill_(REPRO_POISON)
            return repro_memory(result)

    def watched(self, run):
        def launch(kernel, *args, **kwargs):
            with torch._C._DisableTorchDispatch():
                around = [(m, outside, m[outside]) for m, outside in repro_outside([*args, *kwargs.values()])]
                filled = [repro_pattern(memory, i)[outside] for i, (memory, outside, _) in enumerate(around)]
                for (memory, outside, _), pattern in zip(around, filled):
                    memory[outside] = pattern
            result = run(kernel, *args, **kwargs)
            with torch._C._DisableTorchDispatch():
                for (memory, outside, before), pattern in zip(around, filled):
                    written = int((memory[outside] != pattern).sum())
                    if written:
                        self.broken = True
                        print(f"a launch of {kernel.fn.__name__} wrote {written} bytes outside its tensors")
                    memory[outside] = before
            return result

        return launch


def repro_pattern(memory, number):
    """NaN in all common floats, another one for each memory: what is copied from one's outside to another's is seen."""
    pair = torch.tensor([0xFE - number % 14, 0xFF], dtype=torch.uint8, device=memory.device)
    return pair.repeat(len(memory) // 2 + 1)[: len(memory)]


def repro_filling(load):
    """The interpreter's masked load, with poison in lanes that are given nothing else."""

    def filled(builder, pointers, mask, other, *options):
        if other is None:
            kind = pointers.get_element_ty()
            lanes = repro_interpreter.np.zeros(pointers.data.shape, repro_interpreter._get_np_dtype(kind))
            lanes.view(repro_interpreter.np.uint8)[...] = REPRO_POISON
            other = TensorHandle(lanes, kind)
        return load(builder, pointers, mask, other, *options)

    return filled


def repro_outside(arguments):
    """For each memory that arguments of a launch are in: its bytes, and which of them no argument covers."""
    covered = {}
    for argument in arguments:
        tensor = getattr(argument, "base", argument)  # of a descriptor
        if isinstance(tensor, torch.Tensor) and 0 < tensor.untyped_storage().nbytes() < REPRO_LARGE:
            memory = repro_bytes(tensor)
            _, outside = covered.setdefault(memory.data_ptr(), (memory, torch.ones_like(memory, dtype=torch.bool)))
            size = tensor.element_size()
            strides = [stride * size for stride in tensor.stride()]
            outside.as_strided((*tensor.shape, size), (*strides, 1), tensor.storage_offset() * size).fill_(False)
    return list(covered.values())


def repro_benchmark(call, quantiles=None, **options):
    """In place of a tuner's benchmark where nothing can be timed: one call, and all configurations tie."""
    call()
    return [1.0] * len(quantiles) if quantiles else 1.0


def repro_differs(name, value, golden, tolerance):
    """Prints how a result differs from its golden values; whether it does."""
    if tuple(value.shape) != tuple(golden.shape):
        print(f"{name} has shape {tuple(value.shape)}, golden is {tuple(golden.shape)}")
        return True
    if value.is_floating_point():
        largest, value = torch.finfo(value.dtype).max, value.detach().cpu().double()
        overflowed = value.isinf() & (golden.sign() == value.sign()) & (golden.abs() + tolerance > largest)
        same = (value == golden) | (value.isnan() & golden.isnan()) | overflowed
        wrong = ~(same | ((value - golden).abs() <= tolerance))
    else:
        value = value.detach().cpu()
        wrong = value != golden
    if not wrong.any():
        return False
    print(f"{name} differs in {int(wrong.sum())} of {wrong.numel()} elements")
    for index in wrong.nonzero()[:5].tolist():
        print(f"  {name}{index} = {value[tuple(index)].item():.6g}, golden {golden[tuple(index)].item():.6g}")
    return True


def repro_changed(name, before, after):
    """Prints that an argument changed that the operator does not declare to change; whether it did."""
    one, other = (tensor.detach().cpu().reshape(-1).view(torch.uint8) for tensor in (before, after))
    if not torch.equal(one, other):
        print(f"{name} was changed by the call")
    return not torch.equal(one, other)


def repro_unwritten(name, value):
    """Prints how many elements of a result nobody wrote; whether there are any."""
    elements = value.detach().cpu().reshape(-1, 1).view(torch.uint8)
    count = int((elements == REPRO_POISON).all(dim=1).sum())
    if count:
        print(f"nobody wrote {count} of {value.numel()} elements of {name}")
    return count > 0


def repro_not_finite(name, value):
    """Prints that a result holds NaN or infinity; whether it does."""
    found = value.is_floating_point() and not bool(torch.isfinite(value.detach().double()).all())
    if found:
        print(f"{name} holds NaN or infinity")
    return found
