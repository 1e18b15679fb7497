// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// The tables of what is remembered of threads and processes.

#include "event.h"

struct call {
    u64 cookie;
    u64 entry_ns;
    u64 stack;             // stack pointer at entry: tells calls in progress from calls that are over
    u64 bytes;
    u64 launched_threads;
    u64 function;
    u64 stream;
    u64 pointer;           // where the result goes, what is freed, or the context
    u64 extra;             // pitched allocation: where the pitch goes; free: what it took (memory.h)
    u64 owner;             // free: with what the allocation ends that it took, and of which era it is
    u64 era;
    u64 repeats;           // how often the entry was seen again: as many returns will be, or were missed
    u32 height;
    s32 ordinal;
    u32 operation;
    u32 unprobed;          // of the repeats: began before the return was probed, no loss if none comes
};

struct current_context {
    u64 context;
    s64 ordinal;
};

struct thread {
    u64 start_ns;
    u64 last_return_cookie;
    u64 last_return_stack;
    u64 repeats_to_return; // of the call that returned last
    u64 unprobed_repeats;  // how many of them may stay away
    u32 depth;
    u32 context_depth;
    struct call calls[MAX_NESTED_CALLS];
    struct current_context contexts[MAX_CONTEXT_STACK];
};

struct process {
    u64 token;             // boot clock at its first call and pid: names this life of this pid
    u64 start_ns;
    u64 late;              // it had the library before the probes: contexts may exist that nobody saw
    s64 contexts;          // how many contexts are known, and the sums that say whether they are all on
    s64 ordinal_sum;       // one device: contexts * square_sum == ordinal_sum * ordinal_sum
    s64 square_sum;
    u64 slot;              // the rate meter: number of the slot of time, and calls in it so far
    u64 calls;
    u64 tallied_since_ns;  // 0: each call makes a record
    u64 tallied_before;    // it was tallied at some time: `busy` may know of it
    u64 tallies;           // entries that it has in the table of tallies
    s64 captures;          // streams on which it has begun a capture and not ended it
};

struct context_key {
    u64 token;
    u64 context;
};

struct known_context {
    s64 ordinal;
    u64 owner;             // with which ends what is allocated in it: itself, or what stands for the primary one
    u64 era;               // since when, in ns: what was allocated before ended
    s64 bytes;             // of the allocations that end with it
    s64 references;        // of a primary one: how often it is retained
};

struct resident_key {
    u64 token;
    s64 ordinal;
};

struct allocation_key {
    u64 token;
    u64 pointer;
    u64 space;
};

struct allocation {
    u64 bytes;
    s32 ordinal;
    u32 counted;           // whether it is part of resident
    u64 references;        // further handles and mappings of physical memory: so many releases give nothing back
    u64 owner;             // the known context with which it ends, 0: with the process
    u64 era;
};

struct mapping_key {
    u64 token;
    u64 address;
};

struct mapping {
    u64 bytes;
    u64 handle;            // of the physical memory
};

struct capture_key {
    u64 token;
    u64 handle;
    u64 is_event;          // else a stream
};

struct capture {
    u64 origin;            // the stream that it was begun on
    u64 since_ns;
};

struct rates {
    u64 above;             // calls in a slot with more than so many are tallied
    u64 below;             // after a slot with fewer they are records again
};

struct tally_key {
    u64 token;
    u64 function;
    u64 cgroup_id;
    s32 result;
    u16 operation;
    s16 ordinal;
};

// Sums since the process began; they only grow, and user space takes differences: nothing is lost between a read
// and a reset, since there is none.
struct tally {
    u64 count;             // first, and added to last: who reads both at once never has a count without its sums
    u64 duration_ns;
    u64 bytes;
    u64 launched_threads;
    u64 first_ns;
    u64 last_ns;
    u64 start_ns;
    u64 pid;
};

// Since when a tallied process has work outstanding on a device: busy.h.
struct busy {
    u64 lock;
    u64 state;
    u64 opened_ns;         // of the burst that goes on, 0: idle
    u64 opened_launches;
    u64 run_ns;            // of the run of short bursts before it, where there were any
    u64 run_end_ns;
    u64 run_work_ns;
    u64 run_witnessed_ns;
    u64 run_launches;
    u64 run_bursts;
    u64 sampled;           // of the short bursts since the last run the first was told by itself
    u64 cgroup_id;
    u64 start_ns;
    u64 pid;
};

struct uuid {
    u8 bytes[16];
    u64 start_ns;
    u64 pid;               // whose, also when the token is dead
};

// A cgroup that was removed, its path from the root of the hierarchy.
struct gone_cgroup {
    u64 id;
    char path[CGROUP_PATH_BYTES];
};

RING(events);
COUNTERS(losses, LOSS_COUNT);
ARRAY(settled_ns, u64);
ARRAY(blank_thread, struct thread);
HASH(threads, u64, struct thread, MAX_THREADS);
HASH(processes, u32, struct process, MAX_PROCESSES);
HASH(late, u32, u64, MAX_PROCESSES);
HASH(contexts, struct context_key, struct known_context, MAX_CONTEXTS);
HASH(resident, struct resident_key, s64, MAX_CONTEXTS);
HASH(uuids, struct resident_key, struct uuid, MAX_CONTEXTS);
HASH(allocations, struct allocation_key, struct allocation, MAX_ALLOCATIONS);
HASH(mappings, struct mapping_key, struct mapping, MAX_MAPPINGS);
ARRAY(rates, struct rates);
HASH(captures, struct capture_key, struct capture, MAX_CONTEXTS);
HASH(tallies, struct tally_key, struct tally, MAX_TALLIES);
HASH(outstanding, struct resident_key, struct busy, MAX_CONTEXTS);
ARRAY(gone_cgroup, struct gone_cgroup);
QUEUE(gone_cgroups, struct gone_cgroup, MAX_GONE_CGROUPS); // where it is full the oldest goes
