"""A runtime of this project as a process: started, watched, shown, found again."""
