"""The commands of `python -m kvgrade`: each module has `add_parser(commands)`, whose parser's `execute` runs it."""
