"""The seccomp filters: which system calls a program or a command may make.

The filter for programs is an allow list, because a deny list becomes wrong with every new kernel.
It contains no call that opens a socket, starts a process, changes a file or touches a namespace.
Threads are allowed, because a JavaScript engine has several; processes are not. One flag of
``clone`` distinguishes the two.

A filter is a BPF program, assembled here, so that no library is needed. Knows the numbers of system
calls. Must never know what is run behind it.
"""

import errno
import struct
from collections.abc import Mapping, Sequence
from typing import Final

# BPF instructions: load a word, compare, combine, return.
_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
# Offsets of the call's number, the architecture and the low halves of the arguments.
_NUMBER_AT, _ARCH_AT, _FIRST_AT, _SECOND_AT, _THIRD_AT, _FOURTH_AT = 0, 4, 16, 24, 32, 40
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_DENY = _ERRNO | errno.EPERM
_CLONE_THREAD: Final = 0x10000
_X32: Final = 0x40000000
"""Numbers from here on are the x32 ABI, which would bypass a list of x86-64 numbers."""

_IOCTLS: Final = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""isatty, window size, readable bytes, non-blocking mode, close-on-exec."""

_X86_64: Final[Mapping[str, int]] = {
    "read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "poll": 7,
    "lseek": 8, "mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13,
    "rt_sigprocmask": 14, "rt_sigreturn": 15, "pread64": 17, "readv": 19, "writev": 20,
    "access": 21, "select": 23, "sched_yield": 24, "mremap": 25, "madvise": 28, "dup": 32,
    "nanosleep": 35, "getpid": 39, "execve": 59, "exit": 60, "uname": 63, "fcntl": 72,
    "getcwd": 79, "readlink": 89, "gettimeofday": 96, "getrlimit": 97, "getrusage": 98,
    "sysinfo": 99, "getuid": 102, "getgid": 104, "geteuid": 107, "getegid": 108, "getppid": 110,
    "capget": 125, "sigaltstack": 131, "arch_prctl": 158, "gettid": 186, "time": 201,
    "futex": 202, "sched_getaffinity": 204, "getdents64": 217, "set_tid_address": 218,
    "restart_syscall": 219, "clock_gettime": 228, "clock_getres": 229, "clock_nanosleep": 230,
    "exit_group": 231, "epoll_wait": 232, "epoll_ctl": 233, "openat": 257, "newfstatat": 262,
    "readlinkat": 267, "faccessat": 269, "pselect6": 270, "ppoll": 271, "set_robust_list": 273,
    "epoll_pwait": 281, "eventfd2": 290, "epoll_create1": 291, "dup3": 292, "pipe2": 293,
    "prlimit64": 302, "getrandom": 318, "membarrier": 324, "statx": 332, "rseq": 334,
    "faccessat2": 439,
}  # fmt: skip
_AARCH64: Final[Mapping[str, int]] = {
    "getcwd": 17, "eventfd2": 19, "epoll_create1": 20, "epoll_ctl": 21, "epoll_pwait": 22,
    "dup": 23, "dup3": 24, "fcntl": 25, "faccessat": 48, "openat": 56, "close": 57, "pipe2": 59,
    "getdents64": 61, "lseek": 62, "read": 63, "write": 64, "readv": 65, "writev": 66,
    "pread64": 67, "pselect6": 72, "ppoll": 73, "readlinkat": 78, "newfstatat": 79, "fstat": 80,
    "capget": 90, "exit": 93, "exit_group": 94, "set_tid_address": 96, "futex": 98,
    "set_robust_list": 99, "nanosleep": 101, "clock_gettime": 113, "clock_getres": 114,
    "clock_nanosleep": 115, "sched_getaffinity": 123, "sched_yield": 124, "restart_syscall": 128,
    "sigaltstack": 132, "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigreturn": 139,
    "uname": 160, "getrlimit": 163, "getrusage": 165, "gettimeofday": 169, "getpid": 172,
    "getppid": 173, "getuid": 174, "geteuid": 175, "getgid": 176, "getegid": 177, "gettid": 178,
    "sysinfo": 179, "brk": 214, "munmap": 215, "mremap": 216, "execve": 221, "mmap": 222,
    "mprotect": 226, "madvise": 233, "prlimit64": 261, "getrandom": 278, "membarrier": 283,
    "statx": 291, "rseq": 293, "faccessat2": 439,
}  # fmt: skip
_X86_64_DENIED: Final = (
    101, 103, 135, 155, 159, 161, 163, 164, 165, 166, 167, 168, 169, 172, 173, 175, 176, 179, 212,
    227, 237, 238, 246, 248, 249, 250, 256, 272, 279, 298, 303, 304, 305, 308, 310, 311, 313, 319,
    320, 321, 323, 29,
)  # fmt: skip
_AARCH64_DENIED: Final = (
    18, 39, 40, 41, 51, 60, 89, 92, 97, 104, 105, 106, 112, 116, 117, 142, 170, 171, 217, 218, 219,
    224, 225, 235, 237, 238, 239, 241, 264, 265, 266, 268, 270, 271, 273, 279, 280, 282, 294, 194,
)  # fmt: skip
"""Tracing, mounting, modules, clocks, keys, handles, namespaces, other processes' memory.

Also memory that belongs to no process (``memfd_create``, ``shmget``), which no limit counts.
"""
_DENIED_EVERYWHERE: Final = (425, 426, 427, 428, 429, 430, 431, 432, 433, 442, 443, 447)
"""io_uring, which bypasses every filter; the newer mount calls; and secret memory."""
_SOCKET_FAMILIES: Final = (2, 10, 16)
"""Internet and netlink, which reach only the sandbox's own empty network.

AF_UNIX is not allowed: a process outside may listen on a socket in the folder, or in any other path
that a command can see. AF_VSOCK is not allowed either: it reaches the machine's host.
"""
_PAIR_TYPES: Final = (1, 5)
"""SOCK_STREAM and SOCK_SEQPACKET, whose ends cannot be connected to anything else."""
_TYPE_MASK: Final = 0xF
_SET_ID: Final = 0o6000
"""The mode bits that make a program run as the owner of its file.

A command runs as the user of the process that started it, only without rights. A program that it
made set-user-ID in its folder would give that user's rights to others on the machine.
"""
_CREATES: Final = 0x400040
"""O_CREAT and O_TMPFILE: without them, the mode of ``open`` is whatever the register holds."""
_MODES: Final[Mapping[str, Mapping[int, int]]] = {
    # chmod, fchmod, creat, mknod; fchmodat, mknodat, fchmodat2: the call and where its mode is.
    "x86_64": {90: _SECOND_AT, 91: _SECOND_AT, 85: _SECOND_AT, 133: _SECOND_AT,
               268: _THIRD_AT, 259: _THIRD_AT, 452: _THIRD_AT},
    "aarch64": {52: _SECOND_AT, 53: _THIRD_AT, 33: _THIRD_AT, 452: _THIRD_AT},
}  # fmt: skip
_OPENS: Final[Mapping[str, Mapping[int, tuple[int, int]]]] = {
    # open and openat: where their flags and their mode are.
    "x86_64": {2: (_SECOND_AT, _THIRD_AT), 257: (_THIRD_AT, _FOURTH_AT)},
    "aarch64": {56: (_THIRD_AT, _FOURTH_AT)},
}
_OPENAT2: Final = 437
_TERMINAL_IOCTLS: Final = (0x5412, 0x541C)
"""ioctls that inject input into a terminal."""
_CLONE_NEW: Final = 0x7E020000
"""The flags of ``clone`` that create a namespace."""
_CLONE3: Final = 435
_MACHINES: Final = {
    # The audit architecture, its calls, and those that are judged by argument: clone and ioctl.
    "x86_64": (0xC000003E, _X86_64, 56, 16),
    "aarch64": (0xC00000B7, _AARCH64, 220, 29),
}
_SOCKETS: Final = {"x86_64": (41, 53), "aarch64": (198, 199)}
"""``socket`` and ``socketpair``."""
_DENIED: Final = {"x86_64": _X86_64_DENIED, "aarch64": _AARCH64_DENIED}


def find_filter(machine: str) -> bytes | None:
    """Return the filter for programs on a machine type, or None if it is not supported."""
    if machine not in _MACHINES:
        return None
    mark, calls, clone, ioctl = _MACHINES[machine]
    program = [
        *_enter(mark),
        *_judge_clone(clone, _CLONE_THREAD, denies_none=True),
        *_judge_argument(ioctl, _IOCTLS, otherwise=_DENY, among=_ALLOW),
        *_judge(sorted(calls.values()), otherwise=_DENY, among=_ALLOW),
    ]
    return b"".join(program)


def find_denials(machine: str) -> bytes | None:
    """Return the filter for commands, which denies calls that affect the machine itself.

    A command starts processes and writes files, so an allow list is impossible. This deny list is a
    second layer: inside the namespaces most of these calls would have no effect.
    """
    if machine not in _MACHINES:
        return None
    mark, _, clone, ioctl = _MACHINES[machine]
    numbers = sorted((*_DENIED[machine], *_DENIED_EVERYWHERE))
    open_socket, open_pair = _SOCKETS[machine]
    program = [
        *_enter(mark),
        *_judge_clone(clone, _CLONE_NEW, denies_none=False),
        *_judge_argument(
            open_socket, _SOCKET_FAMILIES, otherwise=_DENY, among=_ALLOW, at=_FIRST_AT
        ),
        *_judge_argument(open_pair, _PAIR_TYPES, otherwise=_DENY, among=_ALLOW, mask=_TYPE_MASK),
        *_judge_argument(ioctl, _TERMINAL_IOCTLS, otherwise=_ALLOW, among=_DENY),
        # Like the flags of ``clone3``, the mode of ``openat2`` is in memory.
        _step(_EQUAL, _OPENAT2, no=1),
        _step(_RETURN, _ERRNO | errno.ENOSYS),
        *(
            step
            for call, at in _MODES[machine].items()
            for step in _judge_argument(
                call, (0,), otherwise=_DENY, among=_ALLOW, at=at, mask=_SET_ID
            )
        ),
        *(
            step
            for call, (flags_at, mode_at) in _OPENS[machine].items()
            for step in _judge_creation(call, flags_at, mode_at)
        ),
        *_judge(numbers, otherwise=_ALLOW, among=_DENY),
    ]
    return b"".join(program)


def _enter(mark: int) -> list[bytes]:
    """Return the start of every filter: reject other architectures, x32 and ``clone3``."""
    return [
        _step(_LOAD, _ARCH_AT),
        _step(_EQUAL, mark, yes=1),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER_AT),
        _step(_AT_LEAST, _X32, no=1),
        _step(_RETURN, _DENY),
        # The flags of ``clone3`` are in memory, which a filter cannot read. After ENOSYS libraries
        # fall back to ``clone``, whose flags are in a register.
        _step(_EQUAL, _CLONE3, no=1),
        _step(_RETURN, _ERRNO | errno.ENOSYS),
    ]


def _judge_clone(clone: int, flags: int, *, denies_none: bool) -> list[bytes]:
    """Return instructions that deny a ``clone`` without any of the flags, or with any of them."""
    return [
        _step(_EQUAL, clone, no=5),
        _step(_LOAD, _FIRST_AT),
        _step(_AND, flags),
        _step(_EQUAL, 0, no=1) if denies_none else _step(_EQUAL, 0, yes=1),
        _step(_RETURN, _DENY),
        _step(_RETURN, _ALLOW),
    ]


def _judge_argument(
    number: int,
    values: Sequence[int],
    *,
    otherwise: int,
    among: int,
    at: int = _SECOND_AT,
    mask: int = 0xFFFFFFFF,
) -> list[bytes]:
    """Return instructions that judge a call by one argument; other calls pass through."""
    judged = [
        _step(_LOAD, at),
        _step(_AND, mask),
        *_judge(values, otherwise=otherwise, among=among),
    ]
    return [_step(_EQUAL, number, no=len(judged)), *judged]


def _judge_creation(number: int, flags_at: int, mode_at: int) -> list[bytes]:
    """Return instructions that deny a call which creates a file with a set-ID bit."""
    judged = [
        _step(_LOAD, flags_at),
        _step(_AND, _CREATES),
        _step(_EQUAL, 0, yes=4),
        _step(_LOAD, mode_at),
        _step(_AND, _SET_ID),
        _step(_EQUAL, 0, yes=1),
        _step(_RETURN, _DENY),
        _step(_RETURN, _ALLOW),
    ]
    return [_step(_EQUAL, number, no=len(judged)), *judged]


def _judge(values: Sequence[int], *, otherwise: int, among: int) -> list[bytes]:
    """Return instructions that end in one verdict if the loaded value is listed, else in the
    other."""
    return [
        *(_step(_EQUAL, one, yes=len(values) - n) for n, one in enumerate(values)),
        _step(_RETURN, otherwise),
        _step(_RETURN, among),
    ]


def _step(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    """Return an instruction; ``yes`` and ``no`` are how many to skip after a comparison."""
    return struct.pack("=HBBI", code, yes, no, value)
