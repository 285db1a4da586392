"""What the tests of a run share: configurations that come compiled at once, and a machine that is simulated."""

from dataclasses import dataclass, field, replace

from tilewright.hardware.target import Target
from tilewright.hardware.targets import find
from tilewright.records import Case, Config, Resources, Trial
from tilewright.spec.load import Address
from tilewright.tune.ahead import compilers_here
from tilewright.tune.crew import Crew
from tilewright.tune.gpu_runner import GpuRunner, Measuring

CASE = Case("simulated", {"N": 4096})
CONFIGS = [Config({"BLOCK": 2**b, "num_warps": w}) for b in range(4, 10) for w in (1, 2, 4, 8)]


class Compiled:
    """An ``Ahead`` for which nothing has to be compiled; ``lost`` are configurations that compilers fail on."""

    def __init__(self, configs=CONFIGS, lost=(), binaries=None):
        self.trials = [Trial("simulated", CASE, config, "h100", "compiled") for config in configs]
        self.known = frozenset()
        self._lost, self._binaries, self._waiting = set(lost), binaries or {}, []

    def survey(self):
        yield from ()

    def want(self, index):
        self._waiting.append(index)

    def ended(self, timeout=None):
        found, self._waiting = self._waiting, []
        for index in found:
            trial = self.trials[index]
            if trial.config.key in self._lost:
                self.trials[index] = replace(trial, status="failed", reason="compiling it: the process died of SIGABRT")
            else:
                needs = (Resources(1024, 32, 0, 0, 0, 4, 0.1),)
                binary = self._binaries.get(trial.config.key, trial.config.key)
                self.trials[index] = replace(trial, resources=needs, binary=binary)
        return found

    def close(self):
        pass


def runner(configs=CONFIGS, seats=2, limit_seconds=20.0, memory_bytes=2**30, **more):
    measuring = Measuring(
        Address("nowhere"),
        CASE,
        limit_seconds=limit_seconds,
        memory_bytes=memory_bytes,
        tasks="simulated_tasks",
        more=more,
    )
    return GpuRunner(configs, measuring, crew_of(seats))


def crew_of(seats):
    def make(first):
        crew = Crew([{}] * seats, first=first, stdout_to_stderr=True)
        crew.warm_up()
        return crew

    return make


@dataclass
class Simulated:
    """A ``Machine``; ``made`` counts the runners that were asked for."""

    device: str = "a simulated H100"
    target: Target = field(default_factory=lambda: find("h100"))
    seats: int = 1
    more: dict = field(default_factory=dict)
    made: int = 0

    def runner(self, configs, measuring):
        self.made += 1
        return GpuRunner(configs, replace(measuring, tasks="simulated_tasks", more=self.more), crew_of(self.seats))

    def compilers(self, workers, measuring):
        return compilers_here(workers or 1)
