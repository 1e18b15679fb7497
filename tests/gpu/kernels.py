"""Two kernels as PTX text: one that spins for a stated time, one that adds two vectors."""

from __future__ import annotations

import ctypes

SPIN, ADD = b"spin", b"add"


class Want(ctypes.Structure):
    """The spin kernel's only parameter, by value. A GPU reads ``duration_ns``; the emulated one, which has no
    code to run, reads all of it (tests/emulator/src/kernel.h)."""

    _fields_ = [
        ("magic", ctypes.c_uint32),
        ("sms", ctypes.c_uint32),
        ("duration_ns", ctypes.c_uint64),
        ("occupancy_ppm", ctypes.c_uint32),
        ("tensor_ppm", ctypes.c_uint32),
        ("dram_ppm", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


def want(duration_ns: int) -> Want:
    """Parameter of a launch that takes that long."""
    return Want(magic=0x4C4E524B, duration_ns=duration_ns)


PTX = b"""
.version 6.0
.target sm_50
.address_size 64

.visible .entry spin(.param .align 8 .b8 want[32])
{
    .reg .pred  %again;
    .reg .b64   %duration, %begin, %now, %passed;
    ld.param.u64 %duration, [want+8];
    mov.u64     %begin, %globaltimer;
LOOP:
    mov.u64     %now, %globaltimer;
    sub.u64     %passed, %now, %begin;
    setp.lt.u64 %again, %passed, %duration;
    @%again bra LOOP;
    ret;
}

.visible .entry add(.param .u64 left, .param .u64 right, .param .u64 sum, .param .u32 count)
{
    .reg .pred  %outside;
    .reg .b32   %index, %limit, %block, %width, %thread;
    .reg .b64   %a, %b, %c, %offset;
    .reg .f32   %x, %y, %z;
    ld.param.u64 %a, [left];
    ld.param.u64 %b, [right];
    ld.param.u64 %c, [sum];
    ld.param.u32 %limit, [count];
    mov.u32     %block, %ctaid.x;
    mov.u32     %width, %ntid.x;
    mov.u32     %thread, %tid.x;
    mad.lo.u32  %index, %block, %width, %thread;
    setp.ge.u32 %outside, %index, %limit;
    @%outside bra DONE;
    mul.wide.u32 %offset, %index, 4;
    cvta.to.global.u64 %a, %a;
    cvta.to.global.u64 %b, %b;
    cvta.to.global.u64 %c, %c;
    add.u64     %a, %a, %offset;
    add.u64     %b, %b, %offset;
    add.u64     %c, %c, %offset;
    ld.global.f32 %x, [%a];
    ld.global.f32 %y, [%b];
    add.f32     %z, %x, %y;
    st.global.f32 [%c], %z;
DONE:
    ret;
}
\0"""
