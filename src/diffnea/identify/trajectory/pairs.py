"""Independent fits of windows, two at a time: each spends its time in kernels, which run on one core."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

import numpy as np

from diffnea.identify.precision import double_precision

Given = TypeVar("Given")
Result = TypeVar("Result")

# Not the number of cores: what a chain knows of others would depend on the machine.
TOGETHER = 2


def in_pairs(function: Callable[[Given], Result], given: Iterable[Given]) -> list[Result]:
    """The results in the order of what was given."""
    each = list(given)
    if len(each) < TOGETHER:
        return [function(one) for one in each]

    def run(one: Given) -> Result:
        # Precision is a thread's own; what watches a fit is handed on with the context.
        with double_precision(), np.errstate(all="ignore"):
            return function(one)

    with ThreadPoolExecutor(TOGETHER) as pool:
        waiting = [pool.submit(copy_context().run, run, one) for one in each]
        try:
            return [one.result() for one in waiting]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
