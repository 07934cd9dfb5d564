"""Staged compiles: a graph over a set of devices.

    part = Partition(experts=ExpertPlacement.ALL_RESIDENT, devices=DevicePlacement.single(DeviceId(0)))
    staged = compile_staged(graph, TargetSet.single(DeviceId(0), target), part, options)

A placement over one device is what there is: the types say more, so that what is stored and passed around need not
change when there is more; anything else is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from typing_extensions import override

from poot.errors import ArgumentError, ArgumentTypeError, PlacementError
from poot.plan.compile import compile as compile_graph
from poot.plan.limits import CompileOptions
from poot.plan.program import Program
from poot.target import Target
from poot.trace.graph import Graph


@dataclass(frozen=True, slots=True, order=True)
class DeviceId:
    """The number of a device within a placement, from 0."""

    number: int

    def __post_init__(self) -> None:
        if type(self.number) is not int:
            raise ArgumentTypeError(what="DeviceId", actual=type(self.number).__name__, expected="an int of at least 0")
        if self.number < 0:
            raise ArgumentError(what="DeviceId", actual=self.number, expected="an int of at least 0")

    @override
    def __str__(self) -> str:
        return f"device {self.number}"


class ExpertPlacement(Enum):
    """Where the experts of a mixture live."""

    ALL_RESIDENT = "all resident"


@dataclass(frozen=True, slots=True)
class DevicePlacement:
    """The devices that take part, in the order of the stages that they run."""

    stages: tuple[DeviceId, ...]

    @staticmethod
    def single(device: DeviceId) -> DevicePlacement:
        """Everything on one device."""
        return DevicePlacement((device,))


@dataclass(frozen=True, slots=True)
class Partition:
    """How a graph is spread: its experts, and its stages over devices."""

    experts: ExpertPlacement
    devices: DevicePlacement


@dataclass(frozen=True, slots=True)
class TargetSet:
    """The target of every device."""

    targets: tuple[tuple[DeviceId, Target], ...]

    @staticmethod
    def single(device: DeviceId, target: Target) -> TargetSet:
        """One device alone."""
        return TargetSet(((device, target),))

    @property
    def by_device(self) -> Mapping[DeviceId, Target]:
        return dict(self.targets)


@dataclass(frozen=True, slots=True)
class Staged:
    """A compiled placement: the program of its one device."""

    program: Program
    device: DeviceId
    partition: Partition


def compile_staged(
    graph: Graph, targets: TargetSet, partition: Partition, options: CompileOptions | None = None
) -> Staged:
    """Compile a graph for a placement over one device.

    Raises PlacementError for a placement over several devices, or on a device that `targets` does not have; and what
    `compile` raises.
    """
    if len(partition.devices.stages) != 1:
        raise PlacementError(message=f"a placement over {len(partition.devices.stages)} devices is not supported")
    if len(targets.targets) != 1:
        raise PlacementError(message=f"a set of {len(targets.targets)} targets is not supported")
    (device,) = partition.devices.stages
    if device not in targets.by_device:
        known = ", ".join(str(each) for each, _ in targets.targets)
        remedy = f"name its target in the set: TargetSet.single(DeviceId({device.number}), device.target)."
        raise PlacementError(message=f"{device} has no target; the set has {known}", remedy=remedy)
    return Staged(compile_graph(graph, targets.by_device[device], options), device, partition)
