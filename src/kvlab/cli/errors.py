"""The one exception that a command raises to stop with a sentence for the person at the keyboard."""


class CommandError(Exception):
    """Its message says what is wrong and what to do; `main` prints it and returns 2."""
