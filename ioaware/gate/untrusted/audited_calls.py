"""Record by Python's audit events what host code does beyond its call.

Audit events name a function by whatever way it is called. Recorded is what looks at callers, starts processes, runs later, or
loads a CUDA library. What Python, ioaware or an installed package does by itself is left out.
"""

from __future__ import annotations

import _thread
import atexit
import signal
import sys
import sysconfig
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any, Protocol

from ioaware._monkeypatch import Patches
from ioaware.fakegpu.host_caller import is_library


class Notes(Protocol):
    """The lists that calls are added to."""

    looks: list[str]
    threads: list[str]
    later: list[str]
    cuda_calls: list[str]


LOOKS = frozenset({"sys._getframe", "sys._current_frames", "gc.get_objects", "gc.get_referrers"})
STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.exec", "os.system"})
LATER = frozenset({"sys.settrace", "sys.setprofile", "sys.addaudithook"})
ACT_FOR_THEIR_CALLER = ("inspect", "traceback")
"""Modules of Python that read frames for their caller."""
CUDA_LIBRARIES = ("libcuda", "libcudart", "cudart", "libnvrtc")
CUDA_PACKAGES = ("cupy", "cuda", "pycuda", "numba.cuda")
INSTALLED = tuple(f"{sysconfig.get_path(name)}/" for name in ("purelib", "platlib"))
_listener: Callable[[str, tuple[Any, ...]], None] | None = None
_hooked: list[bool] = []


@contextmanager
def audited_calls(notes: Callable[[], Notes]) -> Generator[None]:
    """Record inside the block what host code does beyond its call in `notes()`.

    The audit hook stays for the life of the process, and does nothing outside such blocks.
    """
    global _listener
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked.append(True)
    before, _listener = _listener, _Listener(notes).event
    try:
        with Patches() as patches:
            _note_handlers(notes, patches)
            main = sys.modules["__main__"]
            sys.modules["__main__"] = _WatchedMain(main, notes)
            try:
                yield
            finally:
                sys.modules["__main__"] = main
    finally:
        _listener = before


def _hook(event: str, args: tuple[Any, ...]) -> None:  # pragma: no mutate block (it counts frames)
    if _listener is not None:
        _listener(event, args)


class _Listener:
    """Sorts audit events into the notes."""

    def __init__(self, notes: Callable[[], Notes]) -> None:
        self._notes = notes
        self._busy = False

    def event(self, event: str, args: tuple[Any, ...]) -> None:  # pragma: no mutate block (it counts frames)
        if self._busy:
            return
        self._busy = True
        try:
            self._sort(event, args)
        finally:
            self._busy = False

    def _sort(self, event: str, args: tuple[Any, ...]) -> None:  # pragma: no mutate block (it counts frames)
        if event in LOOKS or (event == "object.__getattr__" and args[1] == "tb_frame"):
            if _is_host_code(_caller(4, ACT_FOR_THEIR_CALLER)):
                self._notes().looks.append(event if event in LOOKS else "traceback.tb_frame")
        elif event in STARTS and _is_host_code(_caller(4)):
            self._notes().threads.append(event)
        elif event in LATER and _is_host_code(_caller(4)):
            self._notes().later.append(event)
        elif event == "ctypes.dlopen" and str(args[0]).rpartition("/")[2].startswith(CUDA_LIBRARIES):
            if _is_host_code(_caller(4)):
                self._notes().cuda_calls.append(f"{args[0]}: loaded")
        elif event == "import" and str(args[0]) in CUDA_PACKAGES and _is_host_code(_caller(4)):
            self._notes().cuda_calls.append(f"{args[0]}: imported")


def _caller(depth: int, through: tuple[str, ...] | None = None) -> FrameType | None:  # pragma: no mutate block
    """Return the first frame from `depth` that acts for itself.

    Modules in `through` act for their callers; by default all of Python's own do.
    """
    frame: FrameType | None = sys._getframe(depth)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and _acts_for_its_caller(frame, through):
        frame = frame.f_back
    return frame


def _acts_for_its_caller(frame: FrameType, through: tuple[str, ...] | None) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    return name.partition(".")[0] in sys.stdlib_module_names if through is None else name in through


def _is_host_code(frame: FrameType | None) -> bool:
    return frame is not None and _is_own(frame.f_code.co_filename)


def _is_own(path: str) -> bool:
    """Return whether a file is of the host code, and of no installed package."""
    return not is_library(path) and not path.startswith(INSTALLED)


def _note_handlers(notes: Callable[[], Notes], patches: Patches) -> None:
    """Note what is registered to run later, and threads below the module `threading`."""

    def noting(owner: Any, name: str, found: Callable[[], list[str]]) -> None:
        plain: Callable[..., Any] = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if _is_host_code(sys._getframe(1)):  # pyright: ignore[reportPrivateUsage]
                found().append(f"{owner.__name__}.{name}")
            return plain(*args, **kwargs)

        patches.set(owner, name, call)

    noting(atexit, "register", lambda: notes().later)
    for name in ("signal", "setitimer", "alarm"):
        noting(signal, name, lambda: notes().later)
    for name in ("start_new_thread", "start_new"):
        noting(_thread, name, lambda: notes().threads)


class _WatchedMain(ModuleType):
    """Stands for the evaluator's main module, and notes what is looked up in it."""

    def __init__(self, main: ModuleType, notes: Callable[[], Notes]) -> None:
        super().__init__("__main__")
        object.__setattr__(self, "_main", main)
        object.__setattr__(self, "_notes", notes)

    def __getattribute__(self, name: str) -> Any:  # pragma: no mutate block (it counts frames)
        main = object.__getattribute__(self, "_main")
        caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        if (name == "__dict__" or not name.startswith("__")) and _is_own(caller.f_code.co_filename):
            object.__getattribute__(self, "_notes")().looks.append(f"__main__.{name}")
        return getattr(main, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(object.__getattribute__(self, "_main"), name, value)
