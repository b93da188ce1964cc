"""What runs in the jail: mounted there at /grader, and nothing else of the instructor's files with it."""
