"""A plan as a JSON file, and back; files of all older versions load."""
