"""nbgrader's settings for this course. `cd grading`, then plain `nbgrader generate_assignment 01_kv_cache` and so on.

The builder (`python -m kvgrade build`) reads this file too, so a notebook released by either is the same to the byte.
"""

import os
import sys
import warnings

# nbgrader loads our steps by name, and its command has another folder on its path than this one.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

c = get_config()  # type: ignore[name-defined]  # noqa: F821 - nbgrader puts get_config there

c.CourseDirectory.course_id = "llm-internals"
c.CourseDirectory.root = os.path.dirname(os.path.abspath(__file__))

# What a learner sees in place of a solution. kvlab.check reads NotImplementedError as "not attempted yet".
c.ClearSolutions.code_stub = {
    "python": '# YOUR CODE HERE\nraise NotImplementedError("not attempted yet: put your code in place of this line")'
}
c.ClearSolutions.text_stub = "*Your answer here.*"

# A hand-in is hostile bytes. Its answers are grafted onto the released notebook and run in a jail (docs/grading.md).
c.Autograde.exporter_class = "kvgrade.preprocessors.HandInExporter"
c.Autograde.sanitize_preprocessors = ["kvgrade.preprocessors.Graft", "nbgrader.preprocessors.CheckCellMetadata"]
c.Autograde.autograde_preprocessors = [
    "kvgrade.preprocessors.GradeInJail",
    "nbgrader.preprocessors.SaveAutoGrades",
    "nbgrader.preprocessors.AssignLatePenalties",
    "nbgrader.preprocessors.CheckCellMetadata",
]
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", "feedback", "*.set-aside"]

# What learners write is shown to instructors: no scripts in it.
c.HTMLExporter.sanitize_html = True

# nbgrader adds rows in an order that SQLAlchemy remarks on, several times for every learner.
warnings.filterwarnings("ignore", message="Object of type .* not in session")
