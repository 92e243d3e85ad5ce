"""What differs by kind of work: one folder each, with the same file names, found by name."""
