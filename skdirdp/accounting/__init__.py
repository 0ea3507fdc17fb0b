"""Privacy guarantees and their exact composition. It does not depend on any mechanism."""

from .composition import Composition
from .guarantees import (
    ApproximateDP,
    NoPrivacy,
    PureDP,
    RenyiDP,
    TruncatedConcentratedDP,
    ZeroConcentratedDP,
)
from .guarantees import ProfiledDP as ProfiledDP
from .selection import AllOf as AllOf
from .selection import OneOf as OneOf
from .selection import RepeatedSelection

# `ProfiledDP`, `OneOf` and `AllOf` are created by estimators, not by users.
__all__ = [
    "ApproximateDP",
    "Composition",
    "NoPrivacy",
    "PureDP",
    "RenyiDP",
    "RepeatedSelection",
    "TruncatedConcentratedDP",
    "ZeroConcentratedDP",
]
