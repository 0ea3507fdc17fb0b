"""Libraries that are measured in an environment of their own."""
