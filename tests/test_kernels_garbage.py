"""The search for garbage is put off during work, and comes back as it was."""

import gc

import pytest

from diffnea.kernels.jax.garbage import without_pauses


@pytest.mark.parametrize("wanted", [True, False])
def test_collecting_pauses_and_comes_back_as_it_was(wanted):
    try:
        gc.enable() if wanted else gc.disable()
        with without_pauses():
            with pytest.raises(ZeroDivisionError), without_pauses():
                _ = 1 / 0
            assert not gc.isenabled()  # the inner one does not end the outer one
        assert gc.isenabled() == wanted
    finally:
        gc.enable()
