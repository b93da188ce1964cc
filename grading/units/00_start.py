# %% [markdown]
# # 00 · Start here
#
# {{colab badge}}
#
# *About 20 minutes · one exercise for practice, no points*
#
# This page shows how the course works: what is in it, what an exercise looks like, how it is checked, and where you stand.
# Run the cells one by one with Shift-Enter, or all of them: menu *Run → Run All Cells*. Both are safe in every notebook of this course, before anything is solved.

# %%
# {{colab bootstrap}}

# %% tags=["parameters"]
DEVICE = "auto"
MODEL = "primer"
FAST = False
SEED = 0

# %%
from contextlib import suppress

import kvlab
from kvlab import check, course, glossary, progress, quiz, widgets
from kvlab.cli import doctor
from kvlab.generate import generate_cached

# %% [markdown]
# ## The map
#
# The course follows one question: what does a language model do while it writes, and what does that cost? The order is that of a published guide to the subject, made of 24 short pages, its *cards*.
# A notebook has a section for each card, and many of the guide's statements are tested there.

# %%
course.show()

# %% [markdown]
# Hours are a guess for somebody who does all exercises. Take the notebooks in order; the table says what each one builds on. All exercises, with their minutes:

# %%
course.exercises()

# %% [markdown]
# ## What you need
#
# - Some **Python**: functions, classes, loops, lists, dicts.
# - **numpy** or **torch** arrays: shapes, indexing, the product of two matrices. Either will do; answers may use both.
# - An idea of what attention in a transformer is: each position looks back at earlier ones and takes a weighted mean of what it finds. Notebook 01 says the rest.
# - No GPU, no account, and no network once the course is installed.
#
# The model that the course runs on is small and was trained for it. This cell loads it and lets it write:

# %%
model = kvlab.load(MODEL, DEVICE)
print("Once there was" + generate_cached(model, "Once there was", 12 if FAST else 40).text)

# %% [markdown]
# ## Is this machine ready?
#
# The same lines come from `kvlab doctor` in a terminal. A line that begins with `FAIL` has an arrow below it that says what to do; `warn` can wait.

# %%
doctor.show()

# %% [markdown]
# ## An exercise
#
# An exercise has three parts: an **answer cell**, hints, and a check cell. This one is for practice and earns nothing.
#
# The answer cell begins with `# exercise: NAME`. Keep that line: it is how your answer is found later. The text in quotes says exactly what is asked. Your code goes in place of the line with `raise`.


# %%
# exercise: double
def double(x: int) -> int:
    """Twice the number x. A negative x raises ValueError."""
    # YOUR CODE HERE
    raise NotImplementedError("not attempted yet: put your code in place of this line")


# %% [markdown]
# <details><summary>Hint 1 for <code>double</code></summary>
#
# Hints open one by one. The first one says where to look: what is twice 3?
#
# <details><summary>Hint 2</summary>
#
# The second one says how to begin: refuse a negative number first, then compute.
#
# <details><summary>Hint 3</summary>
#
# The third one nearly gives it away: when x is below 0, raise the error; after that, return the product of 2 and x.
#
# </details>
# </details>
# </details>

# %%
with check.exercise("double") as t:
    t.equal(double(3), 6, "twice the number, not two more")
    t.raises(ValueError, lambda: double(-1), "a negative number raises ValueError")

# %% [markdown]
# The panel says *not attempted yet*. Try it: write `return x + 2` into the answer cell, run that cell, then the check cell; then a right answer.
# A panel has three states, told by a sign and by words. These are the other two, for a wrong and for a right answer:


# %%
def two_more(x):
    return x + 2


# suppress: this one is wrong on purpose, so nothing may stop here. Your check cells do without it.
with suppress(AssertionError), check.exercise("a wrong answer") as t:
    t.equal(two_more(3), 6, "twice the number, not two more")


# %%
def twice(x):
    return 2 * x


with suppress(AssertionError), check.exercise("a right answer") as t:
    t.equal(twice(3), 6, "twice the number, not two more")

# %% [markdown]
# - A panel names the line that failed, what was expected, what came, and the rule behind it. One thing at a time: after a correction, run both cells again.
# - How you get to the result is free: a loop is as good as one clever line, and speed earns nothing.
# - An answer must stand on its own: only the answer cell is graded. `math`, `np` and `torch` are there for it; put everything else that it needs into the cell.
# - Some functions of the course are *closed* in an exercise, because they are the answer. Its text names them, and the check says so when one is called.
# - In notebooks 01 to 08, `check.hint("NAME", 1)` prints a hint, and after an attempt `check.solution("NAME")` a solution, where the course's `grading/` folder is present.
#
# ## A prediction, a quiz
#
# Before a demonstration you are asked what it will show. A prediction is not graded; it makes the result worth looking at.

# %%
quiz.predict(
    "In a notebook with four exercises you have solved one. You choose Run All. What happens?",
    options=["It stops at the first open exercise", "It runs to the end"],
    answer="It runs to the end",
    reveal="An open exercise shows its panel and stops nothing. Demonstrations use the course's own functions, never your answers.",
)

# %% [markdown]
# At the end of each notebook there are five questions. They earn nothing either, and every option explains itself. These are about the course:

# %%
quiz.show("00_start")

# %% [markdown]
# ## A slider
#
# A widget begins with the question that it answers. Move its controls with the mouse, or choose one with the Tab key and move it with the arrow keys; figure and table follow. Where no slider can be shown, such as on a printed page, the figure and the table of its first setting remain.

# %%
widgets.kv_calculator("llama-3.1-8b", seq_len=8192)

# %% [markdown]
# *The figure: two bars, the cache and the weights of the chosen model, in GB. With more tokens or sequences the first bar grows; the second one only follows the model.* Notebook 01 explains both.

# %% [markdown]
# ## Points and marks
#
# - The check cells in a notebook are for you. In a class, marks come from other inputs of the same kind, run in a place that answers cannot influence. An answer that satisfies its text gets full marks; one that only satisfies the visible lines does not.
# - An exercise gives part of its points when part of it is right. An exercise that fails costs no other one anything.
# - Each notebook has one written question. A person marks it.
# - You may write notes, add cells and play with demonstrations as you like. None of that reaches the marks.
# - *Validate* in the notebook's toolbar runs everything from the top in a fresh process and tells which checks are not right. It does what you would do with *Kernel → Restart Kernel and Run All Cells*, and it is a good last step before handing in.
#
# ## Where you stand
#
# This table is read from your notebooks as they are saved (Ctrl-S). Nothing is run for it, and nothing leaves this machine. An answer that was edited after its last check does not count as solved. In a terminal: `kvlab progress`.

# %%
progress.show()

# %% [markdown]
# ## Words
#
# A term is explained where it is first used, and each notebook ends with its list. `glossary.explain("KV cache")` explains one; `glossary.show()` lists all of them.

# %%
glossary.show(["token", "attention", "logits", "KV cache", "prefill", "decode"])

# %%
glossary.vocabulary()

# %% [markdown]
# ## Where help is
#
# | what | what to do |
# |---|---|
# | a cell says that a name is not defined | *Run → Run All Above Selected Cell*: after a restart the cells above have to run first |
# | an answer is beyond repair | in a terminal, `kvlab reset 01 KVCache` gives you that one answer cell as released, `kvlab reset 01` the whole notebook; a copy of yours is kept |
# | a check says something that you do not understand | its last line is the rule; open the hints; read the text of the exercise again: all that is tested stands there |
# | the kernel hangs | the square button stops it; then *Kernel → Restart Kernel* |
# | something is wrong with the installation | `kvlab doctor` |
# | you want to hand in | `kvlab check 01` says what a grader will find in the file |
# | a newer release of a notebook exists | `kvlab lab` says so at its start; your changed notebooks stay as they are |
# | commands, folders, other models | `docs/learners.md` in the course's folder, and `kvlab --help` |
#
# In the terminal of the course's folder, `source .venv/bin/activate` makes the command `kvlab` known; `.venv/bin/kvlab` works without it.
#
# **Next:** notebook 01: the KV cache, and why it is exact.
