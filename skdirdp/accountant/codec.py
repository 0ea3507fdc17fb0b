"""How a charge is written into a ledger, and read back exactly."""

import json
import math
from dataclasses import fields
from functools import lru_cache
from numbers import Integral, Real
from typing import Any

from .._messages import brief
from ..accounting import (
    AllOf,
    ApproximateDP,
    NoPrivacy,
    OneOf,
    ProfiledDP,
    PureDP,
    RenyiDP,
    RepeatedSelection,
    TruncatedConcentratedDP,
    ZeroConcentratedDP,
)
from ..mechanisms import (
    DirichletMechanism,
    GaussianMechanism,
    JointMechanism,
    LaplaceMechanism,
    Mechanism,
    SimplexMechanism,
)
from ..mechanisms.selection import SelectionMechanism
from .ledger import LedgerError

#: What a ledger can hold, by the name it is stored under.
CHARGEABLE: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        AllOf,
        ApproximateDP,
        DirichletMechanism,
        GaussianMechanism,
        JointMechanism,
        LaplaceMechanism,
        NoPrivacy,
        OneOf,
        ProfiledDP,
        PureDP,
        RenyiDP,
        RepeatedSelection,
        SelectionMechanism,
        SimplexMechanism,
        TruncatedConcentratedDP,
        ZeroConcentratedDP,
    )
}


def encode(mechanism: Any) -> str:
    """A mechanism or guarantee as a text that gives it back exactly."""
    if not _is_chargeable(mechanism):
        known = ", ".join(CHARGEABLE)
        raise TypeError(
            f"mechanism must be one of {known}; got a {type(mechanism).__name__}. "
            "For a release made with something else, charge the guarantee it gives"
        )
    spec = json.dumps(_to_plain(mechanism), sort_keys=True, separators=(",", ":"))
    if decode(spec) != mechanism:
        raise TypeError(f"a {type(mechanism).__name__} with these parameters cannot be stored")
    return spec


def _is_chargeable(value: Any) -> bool:
    return CHARGEABLE.get(type(value).__name__) is type(value)


def _to_plain(value: Any) -> Any:
    if _is_chargeable(value):
        parameters = {f.name: _to_plain(getattr(value, f.name)) for f in fields(value)}
        return {"kind": type(value).__name__, **parameters}
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        value = float(value)
        # JSON has no infinity; finite floats are written with all their digits.
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, (list, tuple)):
        return [_to_plain(item) for item in value]
    raise TypeError(f"a parameter of type {type(value).__name__} cannot be stored in a ledger")


@lru_cache(maxsize=4096)
def decode(spec: str) -> Any:
    return _from_plain(json.loads(spec))


def _from_plain(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_from_plain(item) for item in value)
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    parameters = dict(value)
    kind = parameters.pop("kind")
    if kind not in CHARGEABLE:
        raise LedgerError(
            f"the ledger holds a charge of kind {kind!r}, which this version of skdirdp does "
            "not know; the total cannot be computed without it, and nothing can be charged"
        )
    return CHARGEABLE[kind](**{name: _from_plain(item) for name, item in parameters.items()})


def describe_parameters(mechanism: Any) -> str:
    """The parameters that are not at their defaults."""
    if isinstance(mechanism, JointMechanism):
        return ", ".join(f"{count} x {describe(part)}" for part, count in mechanism.parts)
    if isinstance(mechanism, ProfiledDP):
        return f"epsilon={mechanism.epsilons[-1]}, points={len(mechanism.epsilons)}"
    if isinstance(mechanism, AllOf):
        return ", ".join(map(describe, mechanism.parts))
    if isinstance(mechanism, OneOf):
        return f"the worst of {len(mechanism.alternatives)}"
    if isinstance(mechanism, RepeatedSelection):
        return f"{mechanism.mean:g} runs expected, shape={mechanism.shape:g}"
    values = ((field, getattr(mechanism, field.name)) for field in fields(mechanism))
    # A noise level may be shortened; the epsilon of a guarantee that was charged may not.
    show = brief if isinstance(mechanism, Mechanism) else str
    return ", ".join(
        f"{field.name}={show(value)}"
        for field, value in values
        if field.name != "adjacency" and value != field.default
    )


def describe(mechanism: Any) -> str:
    return f"{type(mechanism).__name__}({describe_parameters(mechanism)})"
