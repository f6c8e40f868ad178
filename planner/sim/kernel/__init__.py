"""The compiled part: plain scalar Python over arrays, run by numba or, without it, as it stands."""
