"""schedules: one file per component."""
