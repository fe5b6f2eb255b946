"""The project's runtime as a process: started, found, watched and logged."""
