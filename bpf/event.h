// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// The record that a call leaves, and, with a count of 0, the one of a time in which work was outstanding (busy.h).

#define UNKNOWN_ORDINAL (-1)

struct event {
    u64 time_ns;
    u64 duration_ns;
    u64 cgroup_id;
    u64 bytes;
    u64 launched_threads;
    u64 function;
    u64 stream;
    u64 start_ns;
    u64 span_ns;
    u64 count;
    u32 pid;
    u32 tid;
    s32 result;
    u16 operation;
    s16 ordinal;
};
