"""The error for what a user can mend. Any other exception that surfaces is a bug of ours, and shows its traceback."""


class RegardError(ValueError):
    """Something is wrong with what was asked or given: the message says what, why, and what to do about it."""
