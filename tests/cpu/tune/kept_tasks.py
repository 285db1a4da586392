"""What children do here: launch as a program would, and say what Triton's cache answered."""

import os

os.environ.pop("TRITON_INTERPRET", None)


def answers(emit, *, address, case, configs, target, folder):
    """For each kernel that a call launches, configuration by configuration: whether Triton's own ``compile`` found it."""
    from triton import knobs
    from triton.compiler import compiler

    from tilewright.launch.capture import record
    from tilewright.launch.compile import specialise
    from tilewright.spec.load import resolve

    knobs.cache.dir = folder
    found = []
    knobs.compilation.listener = lambda **told: found[-1].append(told["cache_hit"])
    operator = resolve(address)
    inputs = operator.make_inputs(case, drawn=False)
    for config in configs:
        found.append([])
        for launch in record(operator, inputs, target, config):
            one = specialise(launch, target)
            source = compiler.ASTSource(launch.kernel, one.signature, one.constexprs, one.attributes)
            compiler.compile(source, target=one.chip, options=dict(vars(one.options)))
    return found
