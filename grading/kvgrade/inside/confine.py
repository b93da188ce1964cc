"""The limits that a process sets on itself before it runs a learner's code. None of them can be undone.

Standard library only, and no other module of this project: in the jail this file is the top-level module `confine`.

The rule that makes the rest simple: the learner's process can't start another one, whoever runs the grader. So the
limits of one process on memory and CPU time are the limits of the whole answer.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct
from collections.abc import Iterable
from dataclasses import dataclass

_MB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What one submission may use. `kvgrade.jail` sets some of it, `confine` some, and the worker watches `files`."""

    memory_bytes: int = 4096 * _MB  # address space of the learner's process
    cpu_seconds: int = 120
    file_bytes: int = 16 * _MB  # size of one file
    open_files: int = 256
    temp_bytes: int = 64 * _MB  # /tmp
    home_bytes: int = 16 * _MB  # /home/jail, and as much again in /dev/shm
    files: int = 2000  # in /tmp, /home/jail and /dev/shm together
    tasks: int = 64  # threads and processes in the jail


# System calls that no answer needs, as name:number on x86_64:number on aarch64.
_REFUSED = """
    fork:57:- vfork:58:- execve:59:221 execveat:322:281 setsid:112:157 setpgid:109:154
    ptrace:101:117 process_vm_readv:310:270 process_vm_writev:311:271 process_madvise:440:440 pidfd_getfd:438:438
    kcmp:312:272 perf_event_open:298:241 bpf:321:280 userfaultfd:323:282
    add_key:248:217 request_key:249:218 keyctl:250:219
    io_uring_setup:425:425 io_uring_enter:426:426 io_uring_register:427:427 io_setup:206:0
    mount:165:40 umount2:166:39 pivot_root:155:41 chroot:161:51 setns:308:268 unshare:272:97 open_tree:428:428
    move_mount:429:429 fsopen:430:430 fsconfig:431:431 fsmount:432:432 fspick:433:433 mount_setattr:442:442
    name_to_handle_at:303:264 open_by_handle_at:304:265 fanotify_init:300:262 quotactl:179:60 quotactl_fd:443:443
    memfd_create:319:279 memfd_secret:447:447 shmget:29:194 msgget:68:186 semget:64:190 mq_open:240:180
    socket:41:198 socketpair:53:199
    reboot:169:142 kexec_load:246:104 kexec_file_load:320:294 init_module:175:105 finit_module:313:273
    delete_module:176:106 swapon:167:224 swapoff:168:225 acct:163:89 settimeofday:164:170 clock_settime:227:112
    adjtimex:159:171 clock_adjtime:305:266 sethostname:170:161 setdomainname:171:162 syslog:103:116
    personality:135:92 vhangup:153:58 iopl:172:- ioperm:173:- modify_ldt:154:-
    tkill:200:130 pidfd_open:434:434 pidfd_send_signal:424:424 setpriority:141:140 ioprio_set:251:30
    flock:73:32 inotify_init:253:- inotify_init1:294:26 inotify_add_watch:254:27 fanotify_mark:301:263
"""
# Allowed for this process only, which the first argument names: others in the jail watch it, and one stopped would not.
_ON_ITSELF = "kill:62:129 tgkill:234:131 rt_sigqueueinfo:129:138 rt_tgsigqueueinfo:297:240"
# The same, where 0 means the process or thread that asks.
_ON_ITSELF_OR_0 = """
    prlimit64:302:261 sched_setscheduler:144:119 sched_setparam:142:118 sched_setattr:314:274
    sched_setaffinity:203:122
"""
_FCNTL = "fcntl:72:25"
# Commands of fcntl. Locks and leases on a file of the host can be seen from another jail; an open file's owner gets
# signals, and may be any process.
_FCNTL_REFUSED = {
    **{"F_GETLK": 5, "F_SETLK": 6, "F_SETLKW": 7, "F_OFD_GETLK": 36, "F_OFD_SETLK": 37, "F_OFD_SETLKW": 38},
    **{"F_SETOWN": 8, "F_SETSIG": 10, "F_SETOWN_EX": 15, "F_SETLEASE": 1024, "F_GETLEASE": 1025, "F_NOTIFY": 1026},
}
# Numbers from here on are newer than the list above, or belong to the x32 ABI. Libraries take ENOSYS for an old kernel.
_FIRST_UNKNOWN = 463
_CLONE3 = 435


@dataclass(frozen=True)
class _Machine:
    """What the filter must know of a processor: the kernel's name for it, and the numbers of three system calls."""

    audit: int
    column: int  # in _REFUSED
    clone: int
    seccomp: int


_MACHINES = {
    "x86_64": _Machine(audit=0xC000003E, column=1, clone=56, seccomp=317),
    "aarch64": _Machine(audit=0xC00000B7, column=2, clone=220, seccomp=277),
}


def supported() -> str | None:
    """None where `confine` works; else one sentence that says why not and what to do."""
    if platform.system() != "Linux":
        return f"The jail needs Linux, and this is {platform.system()}: run the grader in a Linux container."
    if platform.machine() not in _MACHINES or struct.calcsize("P") != 8:
        known = " and ".join(_MACHINES)
        return f"The jail knows 64-bit {known} only, not {platform.machine()}: run the grader on one of these."
    return None


def confine(limits: Limits, extra_memory: int | None = None, sandboxed: bool = True) -> None:
    """Limit this process for good: call it in a freshly forked child, before any learner's code.

    With `extra_memory` the process may take that many bytes of address space more than it has now.
    Raises RuntimeError where the system can't do it, and OSError when the kernel refuses. With `sandboxed=False` a
    processor that the filter does not know is no error, and the process then goes without the filter.
    """
    reason = supported()
    if reason and sandboxed:
        raise RuntimeError(reason)
    memory = limits.memory_bytes
    if extra_memory is not None:
        memory = min(memory, address_space() + extra_memory)
    prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: end with the process that forked this one
    _resource_limits(limits, memory)
    prctl(38, 1)  # PR_SET_NO_NEW_PRIVS: needed for a filter without root, and setuid programs give nothing
    if not reason:
        _install(_program(_MACHINES[platform.machine()], os.getpid()))


def make_undumpable() -> None:
    """Forbid processes of the same user to trace this one or to read its memory. Children inherit it."""
    prctl(4, 0)  # PR_SET_DUMPABLE


def address_space() -> int:
    """Bytes of address space of this process: what RLIMIT_AS counts."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def used_files(paths: Iterable[str], baseline: int = 0) -> int:
    """Files in the file systems at `paths`, less `baseline`: what this function gave before any learner's code ran.

    In the jail /tmp, /home/jail and /dev/shm are file systems of their own. No mount option that bubblewrap has limits
    the number of their files, so the worker asks here while a learner's process runs, and ends that process.
    """
    used = 0
    for path in paths:
        state = os.statvfs(path)
        used += state.f_files - state.f_ffree
    return used - baseline


def _resource_limits(limits: Limits, memory: int) -> None:
    import resource  # here, because Windows lacks it and must still be able to import this module and say why

    wanted = {
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_CPU: limits.cpu_seconds,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_RTPRIO: 0,
    }
    for kind, value in wanted.items():
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


# The filter is a program for the kernel's packet filter machine. Each step is (code, if true, if false, value), where
# the middle two say how many steps to jump over.
_Step = tuple[int, int, int, int]
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS = 1, 38
# Offsets in the kernel's struct seccomp_data. Of an argument this is its lower half: all that the kernel takes here.
_NUMBER_AT, _ARCH_AT, _FIRST_ARGUMENT_AT, _SECOND_ARGUMENT_AT = 0, 4, 16, 24
_CLONE_THREAD = 0x10000


def _program(machine: _Machine, pid: int) -> list[_Step]:
    """Refuse what no answer needs, allow the rest. A number means another call on another machine: that one kills."""
    steps: list[_Step] = [
        (_LOAD, 0, 0, _ARCH_AT),
        (_EQUAL, 1, 0, machine.audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_AT_LEAST, 0, 1, _FIRST_UNKNOWN),
        (_RETURN, 0, 0, _ERRNO | _ENOSYS),
        # The flags of clone3 lie in memory, where a filter can't look. glibc goes on with clone when it is told ENOSYS.
        (_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _ERRNO | _ENOSYS),
        # clone makes a thread or a process; threads are welcome.
        (_EQUAL, 0, 4, machine.clone),
        (_LOAD, 0, 0, _FIRST_ARGUMENT_AT),
        (_ANY_BIT, 1, 0, _CLONE_THREAD),
        (_RETURN, 0, 0, _ERRNO | _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    for number in _numbers(_REFUSED, machine):
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | _EPERM)]
    for calls, allowed in ((_ON_ITSELF, [pid]), (_ON_ITSELF_OR_0, [pid, 0])):
        for number in _numbers(calls, machine):
            steps += _with_argument(number, _FIRST_ARGUMENT_AT, allowed, _ALLOW, _ERRNO | _EPERM)
    for number in _numbers(_FCNTL, machine):
        steps += _with_argument(number, _SECOND_ARGUMENT_AT, _FCNTL_REFUSED.values(), _ERRNO | _EPERM, _ALLOW)
    return [*steps, (_RETURN, 0, 0, _ALLOW)]


def _numbers(calls: str, machine: _Machine) -> list[int]:
    numbers = (entry.split(":")[machine.column] for entry in calls.split())
    return [int(number) for number in numbers if number != "-"]


def _with_argument(number: int, at: int, listed: Iterable[int], then: int, otherwise: int) -> list[_Step]:
    """What becomes of a system call whose argument is one of those listed, and of the same call with another one."""
    inner: list[_Step] = [(_LOAD, 0, 0, at)]
    for value in listed:
        inner += [(_EQUAL, 0, 1, value), (_RETURN, 0, 0, then)]
    inner.append((_RETURN, 0, 0, otherwise))
    return [(_EQUAL, 0, len(inner), number), *inner]


class _Filter(ctypes.Structure):
    """The kernel's struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))


def _install(program: list[_Step]) -> None:
    """Put the filter on every thread of this process."""
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in program))
    wanted = _Filter(len(program), ctypes.addressof(code))
    set_filter, all_threads = 1, 1  # SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC
    number = _MACHINES[platform.machine()].seccomp
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = (ctypes.c_long(number), ctypes.c_long(set_filter), ctypes.c_long(all_threads), ctypes.byref(wanted))
    # A positive result is the id of a thread that could not get the filter.
    if libc.syscall(*arguments) != 0:
        raise OSError(ctypes.get_errno(), "The kernel refused the system call filter of the jail.")


def prctl(option: int, value: int) -> None:
    """Ask the kernel to change something about this process. Raises OSError when it refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    if libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), zero, zero, zero) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value}) was refused.")
