"""The cache of compiled code: what is taken from it, and what is not."""

import ctypes

import pytest

from diffnea.kernels.jax import cache as code_cache
from diffnea.kernels.jax import cpu
from diffnea.kernels.llvm import machine as llvm_machine


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and a function that makes a small piece of code and says whether it had to be compiled."""
    monkeypatch.setenv("DIFFNEA_CACHE", str(tmp_path / "cache"))
    compile_it, calls = llvm_machine.object_code, []
    monkeypatch.setattr(llvm_machine, "object_code", lambda *given: calls.append(given) or compile_it(*given))

    def make(number: int = 1) -> bool:
        before = len(calls)
        code = cpu.compiled(f"define i32 @f() {{ ret i32 {number} }}", llvm_machine.host())
        (address,) = llvm_machine.load(code, llvm_machine.host(), "f")
        assert ctypes.CFUNCTYPE(ctypes.c_int)(address)() == number
        return len(calls) > before

    make.folder = tmp_path / "cache"
    return make


def test_code_is_compiled_once(cache):
    assert cache() and not cache() and cache(2) and not cache(2)


def test_a_damaged_or_foreign_entry_is_not_used(cache):
    cache()
    (path,) = cache.folder.iterdir()
    whole = path.read_bytes()
    cache(2)
    (other,) = set(cache.folder.iterdir()) - {path}
    for content in (b"", whole[:-1], whole[: len(whole) // 2], whole[:-1] + b"!", whole + b"!", other.read_bytes()):
        path.write_bytes(content)
        assert cache()
        assert path.read_bytes() == whole  # and it is mended
    path.chmod(0o666)
    assert cache()  # anyone could have written that


def test_garbage_with_a_right_checksum_is_compiled_anew(cache):
    cache()
    (path,) = cache.folder.iterdir()
    whole = path.read_bytes()
    start = len(code_cache.MAGIC) + 32
    length = int.from_bytes(whole[start : start + 8], "little")
    key = whole[start + 8 : start + 8 + length].decode()
    for garbage in (b"", b"garbage", bytes(1000), b"\x7fELF" + bytes(60)):
        code_cache.write(key, garbage)
        assert code_cache.read(key) == garbage and cache() and path.read_bytes() == whole
    code_cache.write("results\nf", b"[[1, 2, 3]]")
    assert code_cache.results_of("f") is None


def test_a_cache_on_a_read_only_disk_is_used(cache, monkeypatch):
    assert cache()

    def refuse(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("os.utime", refuse)
    monkeypatch.setattr(code_cache.files, "replace", refuse)
    assert not cache()


def test_a_cache_that_cannot_be_written_does_no_harm(cache, monkeypatch):
    cache.folder.write_text("a file where the directory should be")
    assert cache() and cache()
    monkeypatch.setenv("DIFFNEA_CACHE", "off")
    assert cache() and cache() and code_cache.directory() is None


def test_entries_unused_for_longest_go_first(cache, monkeypatch):
    monkeypatch.setattr(code_cache, "MOST_ENTRIES", 4)
    for number in range(5):
        cache(number)
    assert len(list(cache.folder.iterdir())) == 4
    assert not cache(4) and cache(0)
