"""The filter of system calls by itself: what it says to each, without any other wall."""

import errno
import struct

import pytest

from turntree.sandbox.seccomp import find_filter

ALLOW, DENY = 0x7FFF0000, 0x00050000 | errno.EPERM
MARKS = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
READ = {"x86_64": 0, "aarch64": 63}
REFUSED = {
    "x86_64": {
        "socket": 41, "connect": 42, "accept": 43, "sendto": 44, "recvfrom": 45, "sendmsg": 46,
        "bind": 49, "listen": 50, "socketpair": 53, "fork": 57, "vfork": 58, "kill": 62,
        "unlink": 87, "symlink": 88, "chmod": 90, "chown": 92, "ptrace": 101, "mount": 165,
        "unshare": 272, "setns": 308, "memfd_create": 319, "bpf": 321, "io_uring_setup": 425,
    },
    "aarch64": {
        "socket": 198, "socketpair": 199, "bind": 200, "listen": 201, "accept": 202,
        "connect": 203, "sendto": 206, "recvfrom": 207, "sendmsg": 211, "kill": 129,
        "unlinkat": 35, "symlinkat": 36, "mount": 40, "fchmodat": 53, "unshare": 97,
        "ptrace": 117, "setns": 268, "memfd_create": 279, "bpf": 280, "io_uring_setup": 425,
    },
}  # fmt: skip


def judge(filter: bytes, machine: str, number: int, *arguments: int) -> int:
    """Return what a filter says to a call, as the kernel would run it."""
    words = (*arguments, 0, 0)[:2]
    data = struct.pack("=IIQ", number, MARKS[machine], 0) + struct.pack("=QQ", *words)
    steps = list(struct.iter_unpack("=HBBI", filter))
    loaded = place = 0
    while True:
        code, yes, no, value = steps[place]
        place += 1
        match code:
            case 0x20:
                (loaded,) = struct.unpack_from("=I", data, value)
            case 0x15:
                place += yes if loaded == value else no
            case 0x35:
                place += yes if loaded >= value else no
            case 0x54:
                loaded &= value
            case 0x06:
                return int(value)
            case _:
                raise AssertionError(code)


@pytest.mark.parametrize("machine", MARKS)
def test_a_program_may_read_and_opens_no_socket_and_starts_no_process(machine: str) -> None:
    filter = find_filter(machine)
    assert filter is not None
    assert judge(filter, machine, READ[machine]) == ALLOW
    answers = {name: judge(filter, machine, number) for name, number in REFUSED[machine].items()}
    assert {name for name, said in answers.items() if said != DENY} == set()
