"""What people read after a run: report page, comparisons, differences, trackers."""
