"""Hand-ins: which answers a notebook file holds, what it lacks, and how to set it right. For learners and the grader."""
