"""A plan as a JSON file, and back; files of older versions are read for ever."""
