"""The command line, one command a file: each has ``HELP``, ``add_arguments(parser)`` and ``run(arguments)``.

Nothing heavy is imported before ``run``: ``coverwalk --help`` answers at once.
"""
