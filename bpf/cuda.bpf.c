// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// What processes ask of the CUDA driver library: one ring record a call, written when the call returns, and sums in
// place of records for a process that calls faster than a set rate (tally.h).
//
// One program serves every return, leave, and most entries, enter_call; the others (launch.h, copy.h) are for
// functions whose arguments lie on the stack or in structures. What differs
// from symbol to symbol (operation, which argument is what, what the call changes) travels in the attach
// cookie, whose layout comes from agent/probes/symbols.py as the preamble of this file: COOKIE_*, EFFECT_*,
// LOSS_*, limits. The same text is compiled in two surroundings, bcc.h and object.h: by bcc on the node, or ahead
// of time for libbpf.
//
// State kept here, because only here it is exact whatever the ring loses:
//   threads      calls in progress (a small stack: exported functions may call each other) and the stack of
//                current contexts; gone with the thread
//   processes    one life of a process image: a token, and which devices it has contexts on; gone with the
//                process or its exec
//   contexts     (token, context) -> device ordinal, bytes that end with it
//   resident     (token, ordinal) -> bytes of device memory that are allocated
//   allocations  (token, space, pointer) -> bytes, ordinal; taken out at the entry of a free, since after its
//                return another thread may already own the same address, and put back when the free fails
//   uuids        (token, ordinal) -> what the process was told
//   tallies      (token, function, cgroup, result, operation, ordinal) -> sums of the calls that made no record
//   outstanding  (token, ordinal) -> since when a tallied process has work outstanding (busy.h)
//   mappings     (token, address) -> bytes and handle of the physical memory
//   captures     (token, stream or event) -> the capture that it is part of (capture.h)
// Entries of the last eight whose token is dead are swept by user space: a token never comes back.
// And whatever processes do:
//   gone_cgroups paths of the cgroups that were removed last (cgroups.h)

#include "tables.h"
#include "lookup.h"
#include "calls.h"
#include "contexts.h"
#include "memory.h"
#include "launch.h"
#include "copy.h"
#include "capture.h"
#include "busy.h"
#include "tally.h"
#include "cgroups.h"

PROBE int enter_call(struct pt_regs *ctx)
{
    u64 cookie = bpf_get_attach_cookie(ctx), id = bpf_get_current_pid_tgid();
    u64 a1 = PT_REGS_PARM1(ctx); KEEP_APART(a1);
    u64 a2 = PT_REGS_PARM2(ctx); KEEP_APART(a2);
    u64 a3 = PT_REGS_PARM3(ctx); KEEP_APART(a3);
    u64 a4 = PT_REGS_PARM4(ctx); KEEP_APART(a4);
    u64 a5 = PT_REGS_PARM5(ctx); KEEP_APART(a5);
    u64 a6 = PT_REGS_PARM6(ctx); KEEP_APART(a6);
    struct call *call = begin(ctx, id, cookie);
    if (!call)
        return 0;
    u64 effect = COOKIE(cookie, EFFECT);
    u64 pointer = pick(COOKIE(cookie, POINTER), a1, a2, a3, a4, a5, a6);
    if (effect == EFFECT_FREE && call->extra && call->pointer == pointer)
        return 0;
    call->pointer = pointer;
    call->extra = 0;
    call->bytes = pick(COOKIE(cookie, BYTES), a1, a2, a3, a4, a5, a6) << COOKIE(cookie, SCALE);
    if (COOKIE(cookie, ROWS))
        call->bytes *= pick(COOKIE(cookie, ROWS), a1, a2, a3, a4, a5, a6);
    call->stream = pick(COOKIE(cookie, STREAM), a1, a2, a3, a4, a5, a6);
    call->function = pick(COOKIE(cookie, FUNCTION), a1, a2, a3, a4, a5, a6);
    if (COOKIE(cookie, DEVICE))
        call->ordinal = (s32)pick(COOKIE(cookie, DEVICE), a1, a2, a3, a4, a5, a6);
    if (effect == EFFECT_ALLOCATE_PITCHED) {
        call->extra = a2;
        call->height = (u32)a4;
    }
    if (effect == EFFECT_ALLOCATE_PHYSICAL) {
        // CUmemAllocationProp: int type, int handle types, struct { int type (1: device), int id } location
        s32 location[2] = {0, UNKNOWN_ORDINAL};
        bpf_probe_read_user(location, sizeof(location), (void *)(a3 + 8));
        call->ordinal = location[0] == 1 ? location[1] : UNKNOWN_ORDINAL;
        call->extra = location[0] == 1;
    }
    if (effect == EFFECT_MAP)
        call->extra = a4;
    if (effect == EFFECT_FREE)
        take_allocation(id >> 32, COOKIE(cookie, SPACE), call);
    if (effect == EFFECT_END_CAPTURE) // already here: it is over also where that is an error
        end_capture(id >> 32, stream_handle(cookie, id, call->stream));
    return 0;
}

static __always_inline int makes_record(struct process *process, u32 pid, struct call *call, s32 result, s32 ordinal,
                                        u64 now_ns)
{
    int tallied = is_tallied(process, now_ns);
    if (IS_WAIT(call->operation) || (IS_LAUNCH(call->operation) && !result))
        return work_is_record(process, pid, call, ordinal, now_ns, tallied);
    return !tallied;
}

static __always_inline int write_record(struct thread *thread, u64 id, struct call *call, s32 result, s32 ordinal,
                                        u64 now_ns)
{
    struct event *event = bpf_ringbuf_reserve(&events, sizeof(struct event), 0);
    if (!event)
        return 0;
    event->time_ns = now_ns;
    event->duration_ns = now_ns - call->entry_ns;
    event->cgroup_id = bpf_get_current_cgroup_id();
    event->bytes = result ? 0 : call->bytes;
    event->launched_threads = result ? 0 : call->launched_threads;
    event->function = call->function;
    event->stream = call->stream;
    event->start_ns = thread->start_ns;
    event->span_ns = 0;
    event->count = 1;
    event->pid = id >> 32;
    event->tid = (u32)id;
    event->result = result;
    event->operation = call->operation;
    event->ordinal = ordinal;
    bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
    return 1;
}

// A record of the call that is over, or its part in the sums.
static __always_inline void tell_call(struct process *process, struct thread *thread, u64 id, struct call *call,
                                      s32 result, s32 ordinal, u64 now_ns)
{
    u32 pid = id >> 32;
    if (process && !makes_record(process, pid, call, result, ordinal, now_ns)) {
        add_to_tally(process, pid, call, result, ordinal, now_ns);
        return;
    }
    if (write_record(thread, id, call, result, ordinal, now_ns))
        return;
    if (!process) {
        count(LOSS_RING_FULL);
        return;
    }
    // The ring was not drained in time: nothing is lost, but the process is tallied from now on.
    process->tallied_before = 1;
    process->tallied_since_ns = now_ns;
    record_failed(process, pid, ordinal);
    add_to_tally(process, pid, call, result, ordinal, now_ns);
}

PROBE int leave(struct pt_regs *ctx)
{
    u64 now_ns = bpf_ktime_get_boot_ns();
    u64 cookie = bpf_get_attach_cookie(ctx), id = bpf_get_current_pid_tgid();
    u32 pid = id >> 32;
    s32 result = (s32)PT_REGS_RC(ctx);
    struct thread *thread = bpf_map_lookup_elem(&threads, &id);
    if (!thread)
        return 0;
    struct call *call = end(ctx, thread, cookie);
    if (!call)
        return 0;

    u64 effect = COOKIE(cookie, EFFECT);
    s32 ordinal = call->ordinal;
    struct process *process = bpf_map_lookup_elem(&processes, &pid);
    int captured = process && !result && is_captured(process, id, effect, call, now_ns);
    if (effect >= EFFECT_ALLOCATE && effect <= EFFECT_FREE)
        ordinal = change_memory(thread, pid, effect, captured || result, call);
    else if (effect >= EFFECT_CREATE_CONTEXT && effect <= EFFECT_RESET_PRIMARY && !result)
        ordinal = change_context(thread, pid, effect, call);
    else if (effect >= EFFECT_READ_UUID && effect <= EFFECT_END_CAPTURE) {
        if (!result && effect == EFFECT_READ_UUID)
            read_uuid(pid, call);
        if (!result && effect == EFFECT_RETAIN_PHYSICAL)
            retain_allocation(pid, call);
        return 0;
    } else if (effect == EFFECT_MAP || effect == EFFECT_UNMAP) {
        if (!process || result)
            call->bytes = 0;
        else if (effect == EFFECT_MAP)
            map_memory(process, pid, call);
        else
            unmap_memory(process, call);
        ordinal = call->ordinal;
        if (ordinal == UNKNOWN_ORDINAL)
            ordinal = current_ordinal(thread, pid);
    } else if (effect == EFFECT_QUERY && result == NOT_READY) {
        count(COUNT_NOT_READY);
        return 0;
    } else if (ordinal == UNKNOWN_ORDINAL)
        ordinal = current_ordinal(thread, pid);
    if (captured) {
        call->operation = OPERATION_CAPTURE;
        call->bytes = call->launched_threads = 0;
    }
    if (!process) // made by this very call
        process = bpf_map_lookup_elem(&processes, &pid);
    tell_call(process, thread, id, call, result, ordinal, now_ns);
    return 0;
}

static __always_inline void forget_process(u32 pid)
{
    bpf_map_delete_elem(&late, &pid);
    if (!bpf_map_delete_elem(&processes, &pid))
        count(COUNT_PROCESS_ENDS);
}

TRACEPOINT(sched_process_exit) int on_exit(struct bpf_raw_tracepoint_args *ctx)
{
    u64 id = bpf_get_current_pid_tgid();
    u32 pid = id >> 32;
    bpf_map_delete_elem(&threads, &id);
    if (process_ends(id))
        forget_process(pid);
    return 0;
}

// A new program image: the old one's contexts and memory are gone, the pid and its start time stay.
TRACEPOINT(sched_process_exec) int on_exec(struct bpf_raw_tracepoint_args *ctx)
{
    u64 id = bpf_get_current_pid_tgid();
    u64 before = (id & ~0xffffffffULL) | (u32)ctx->args[1];
    bpf_map_delete_elem(&threads, &id);
    bpf_map_delete_elem(&threads, &before);
    forget_process(id >> 32);
    return 0;
}
