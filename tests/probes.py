"""What several tests look with: an accountant that listens, and a search for counts in bytes."""

import struct


class Recorder:
    """An accountant that only writes down what it is asked; one object for all clones."""

    def __init__(self):
        self.charges = []

    def __deepcopy__(self, memo):
        return self

    def charge(self, mechanism, releases=1, label=None):
        self.charges.append((mechanism, releases, label))


def encodings(count):
    """The bytes in which an exact count could hide."""
    return [
        struct.pack("<d", count),
        struct.pack("<q", count),
        struct.pack("<i", count),
        str(count).encode(),
    ]
