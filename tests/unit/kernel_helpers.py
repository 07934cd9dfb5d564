"""Helper functions that kernels of the tests inline from another module."""

from __future__ import annotations

from poot.dtypes import f32

HALF = 0.5


def relu(x):
    if x > 0:
        return x
    return x * 0


def clamp(x, lower, upper=10):
    if x < lower:
        return lower
    elif x > upper:
        return upper
    return x


def ordered(a, b):
    if a < b:
        return a, b
    return b, a


def steps(x: f32):
    count = 0.0
    while count < x:
        count += HALF
    return count


def first_positive(a, start):
    found = -1
    for k in range(start, len(a)):
        if a[k] > 0:
            found = k
            break
    return found


def put(array, place, value):
    array[place] = value
