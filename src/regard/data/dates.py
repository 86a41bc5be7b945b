"""Dates, times and durations in two languages: a corpus that needs no download.

    Monday, August 3, 1992  →  lunes, 3 de agosto de 1992

Babel knows the formats of hundreds of languages. Years that end in 7 are held out from training and used for
validation.
"""

import random
from collections.abc import Iterator
from datetime import date, time, timedelta

from babel import Locale, UnknownLocaleError
from babel.dates import format_date, format_time
from babel.units import format_unit

from regard.errors import RegardError

FIRST, LAST = date(1900, 1, 1), date(2099, 12, 31)
UNITS = ("second", "minute", "hour", "day", "week", "month", "year")


def dates(source: str, target: str, seed: int, unseen: bool = False) -> Iterator[tuple[str, str]]:
    """An endless stream of pairs in two languages; `unseen` gives dates of the held-out years only."""
    locales = _locale(source), _locale(target)
    rng = random.Random(seed)
    while True:
        day = FIRST + timedelta(days=rng.randrange((LAST - FIRST).days + 1))
        if (day.year % 10 == 7) != unseen:
            continue
        kind = rng.choices(("full", "long", "medium", "time", "duration"), (8, 5, 2, 2, 3))[0]
        if kind == "time" and not unseen:
            moment = time(rng.randrange(24), rng.randrange(60))
            yield tuple(format_time(moment, "short", locale=locale) for locale in locales)  # type: ignore[misc]
        elif kind == "duration" and not unseen:
            count, unit = rng.randrange(1, 100), rng.choice(UNITS)
            yield tuple(format_unit(count, f"duration-{unit}", locale=locale) for locale in locales)  # type: ignore[misc]
        else:
            forms = {form: format_date(day, form, locale=locales[0]) for form in ("full", "long", "medium")}
            form = kind if kind in forms else "full"
            # "May" is its own abbreviation: a date that reads the same in two forms has no unique translation
            if list(forms.values()).count(forms[form]) == 1 or source == target:
                yield forms[form], format_date(day, form, locale=locales[1])


def _locale(name: str) -> Locale:
    try:
        return Locale.parse(name, sep="-" if "-" in name else "_")
    except (ValueError, UnknownLocaleError):
        raise RegardError(f"unknown language '{name}'; give a code such as en, es or pt-BR") from None
