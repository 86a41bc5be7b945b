"""The error for problems that the user can fix. Any other exception is a bug in Regard and shows its traceback."""


class RegardError(ValueError):
    """Invalid input or an invalid request: the message says what is wrong, why, and what to do."""
