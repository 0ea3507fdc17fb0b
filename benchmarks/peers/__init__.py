"""Libraries that are measured in separate environments."""
