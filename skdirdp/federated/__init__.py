"""Models of several data owners, without a trusted party: each draws a share of the noise.

`skdirdp.federated.flower` runs rounds on Flower, with secure aggregation. docs/federated.md
describes what is and what is not protected.
"""

from .rounds import Aggregator, FederatedRound, Share

__all__ = ["Aggregator", "FederatedRound", "Share"]
