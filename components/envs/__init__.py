"""envs: one file per component."""
