"""A source made of two: the pools on which registrations and slices agree."""
