// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// What processes ask of the CUDA driver library, one ring record a call, written when the call returns.
//
// Four programs serve every symbol: enter_call, enter_launch, enter_launch_config and leave. What differs
// from symbol to symbol (operation, which argument is what, what the call changes) travels in the attach
// cookie, whose layout comes from agent/probes/symbols.py as the preamble of this file: COOKIE_*, EFFECT_*,
// LOSS_*, RING_PAGES, limits, and TASK_* / SIGNAL_* offsets read from the running kernel's own BTF.
//
// State kept here, because only here it is exact whatever the ring loses:
//   threads      calls in progress (a small stack: exported functions may call each other) and the stack of
//                current contexts; gone with the thread
//   processes    one life of a process image: a token, and which devices it has contexts on; gone with the
//                process or its exec
//   contexts     (token, context) -> device ordinal
//   resident     (token, ordinal) -> bytes of device memory that are allocated
//   allocations  (token, space, pointer) -> bytes, ordinal; taken out at the entry of a free, since after its
//                return another thread may already own the same address, and put back when the free fails
// Entries of the last three whose token is dead are swept by user space: a token never comes back.

#include <uapi/linux/ptrace.h>

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
    u32 pid;
    u32 tid;
    s32 result;
    u16 operation;
    s16 ordinal;
};

struct call {
    u64 cookie;
    u64 entry_ns;
    u64 stack;             // stack pointer at entry: tells calls in progress from calls that are over
    u64 bytes;
    u64 launched_threads;
    u64 function;
    u64 stream;
    u64 pointer;           // where the result goes, what is freed, or the context
    u64 extra;             // pitched allocation: where the pitch goes; free: the ordinal of the allocation
    u64 repeats;           // how often the entry was seen again: as many returns will be, or were missed
    u32 height;
    s32 ordinal;
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
};

struct context_key {
    u64 token;
    u64 context;
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
};

BPF_RINGBUF_OUTPUT(events, RING_PAGES);
BPF_PERCPU_ARRAY(losses, u64, LOSS_COUNT);
BPF_ARRAY(settled_ns, u64, 1);
BPF_ARRAY(blank_thread, struct thread, 1);
BPF_F_TABLE("hash", u64, struct thread, threads, MAX_THREADS, BPF_F_NO_PREALLOC);
BPF_F_TABLE("hash", u32, struct process, processes, MAX_PROCESSES, BPF_F_NO_PREALLOC);
BPF_F_TABLE("hash", u32, u64, late, MAX_PROCESSES, BPF_F_NO_PREALLOC);
BPF_F_TABLE("hash", struct context_key, s64, contexts, MAX_CONTEXTS, BPF_F_NO_PREALLOC);
BPF_F_TABLE("hash", struct resident_key, s64, resident, MAX_CONTEXTS, BPF_F_NO_PREALLOC);
BPF_F_TABLE("hash", struct allocation_key, struct allocation, allocations, MAX_ALLOCATIONS, BPF_F_NO_PREALLOC);

// Reads of neighbouring fields must stay apart, or the compiler merges them into an access to a changed
// context pointer, which the verifier refuses.
#define KEEP_APART(value) asm volatile("" : "+r"(value))

static __always_inline void count_many(int which, u64 amount)
{
    u64 *counter = losses.lookup(&which);
    if (counter)
        *counter += amount;
}

static __always_inline void count(int which)
{
    count_many(which, 1);
}

static __always_inline u64 field(u64 cookie, int shift, int bits)
{
    return (cookie >> shift) & ((1ULL << bits) - 1);
}

#define COOKIE(cookie, NAME) field(cookie, COOKIE_##NAME##_SHIFT, COOKIE_##NAME##_BITS)

// The verifier has to see the mask, which the compiler would drop where it knows the bound.
static __always_inline struct call *call_at(struct thread *thread, u64 index)
{
    KEEP_APART(index);
    return &thread->calls[index & (MAX_NESTED_CALLS - 1)];
}

static __always_inline struct current_context *context_at(struct thread *thread, u64 index)
{
    KEEP_APART(index);
    return &thread->contexts[index & (MAX_CONTEXT_STACK - 1)];
}

static __always_inline u64 process_start_ns(void)
{
    u64 start_ns = 0;
#if defined(TASK_GROUP_LEADER) && defined(TASK_START_BOOTTIME)
    u64 task = bpf_get_current_task(), leader = 0;
    bpf_probe_read_kernel(&leader, sizeof(leader), (void *)(task + TASK_GROUP_LEADER));
    bpf_probe_read_kernel(&start_ns, sizeof(start_ns), (void *)(leader + TASK_START_BOOTTIME));
#endif
    return start_ns;
}

static __always_inline struct process *this_process(u32 pid)
{
    struct process *process = processes.lookup(&pid);
    if (process)
        return process;
    struct process fresh = {};
    fresh.token = bpf_ktime_get_boot_ns() << TOKEN_PID_BITS | (pid & ((1 << TOKEN_PID_BITS) - 1));
    fresh.start_ns = process_start_ns();
    fresh.late = late.lookup(&pid) != 0;
    // Two threads may make their first call at once: the first to insert wins, both then read that one.
    processes.insert(&pid, &fresh);
    process = processes.lookup(&pid);
    if (!process)
        count(LOSS_PROCESSES_FULL);
    return process;
}

static __always_inline struct thread *this_thread(u64 id)
{
    struct thread *thread = threads.lookup(&id);
    if (thread)
        return thread;
    int zero = 0;
    struct thread *blank = blank_thread.lookup(&zero);
    if (!blank)
        return 0;
    threads.update(&id, blank);
    thread = threads.lookup(&id);
    if (!thread) {
        count(LOSS_THREADS_FULL);
        return 0;
    }
    struct process *process = this_process(id >> 32);
    thread->start_ns = process ? process->start_ns : process_start_ns();
    return thread;
}

static __always_inline void unreturned(u64 entry_ns, u64 amount)
{
    int zero = 0;
    u64 *settled = settled_ns.lookup(&zero);
    // A call that began while its probes were still being attached has no return to wait for.
    if (settled && entry_ns > *settled)
        count_many(LOSS_UNRETURNED, amount);
}

// The record of the call that begins now. A call in progress further out has a higher stack pointer; one at
// or below the present one is over, its return was missed.
static __always_inline struct call *begin(struct pt_regs *ctx, u64 id, u64 cookie)
{
    struct thread *thread = this_thread(id);
    if (!thread)
        return 0;
    u64 stack = PT_REGS_SP(ctx);
    u32 depth = thread->depth, keep = 0;
    u64 now_ns = bpf_ktime_get_boot_ns(), repeats = 0;
    if (thread->repeats_to_return) {
        unreturned(now_ns, thread->repeats_to_return);
        thread->repeats_to_return = 0;
    }
#pragma unroll
    for (int i = 0; i < MAX_NESTED_CALLS; i++) {
        if (depth == 0)
            break;
        struct call *outer = call_at(thread, depth - 1);
        if (outer->stack > stack)
            break;
        depth--;
        if (outer->stack == stack && outer->cookie == cookie) {
            // The same call once more: either the library is attached through two names, or the return of
            // the call before was missed; the returns will tell. Start the record again, but keep what a
            // first probe took out of the table of allocations.
            repeats = outer->repeats + 1;
            keep = COOKIE(cookie, EFFECT) == EFFECT_FREE;
            break;
        }
        unreturned(outer->entry_ns, 1 + outer->repeats);
    }
    if (depth >= MAX_NESTED_CALLS)
        return 0;
    thread->depth = depth + 1;
    struct call *call = call_at(thread, depth);
    call->cookie = cookie;
    call->stack = stack;
    call->entry_ns = now_ns;
    call->repeats = repeats;
    if (keep)
        return call;
    call->bytes = 0;
    call->launched_threads = 0;
    call->function = 0;
    call->stream = 0;
    call->pointer = 0;
    call->extra = 0;
    call->height = 0;
    call->ordinal = UNKNOWN_ORDINAL;
    return call;
}

static __always_inline u64 pick(u64 index, u64 a1, u64 a2, u64 a3, u64 a4, u64 a5, u64 a6)
{
    u64 value = 0;
    if (index == 1)
        value = a1;
    if (index == 2)
        value = a2;
    if (index == 3)
        value = a3;
    if (index == 4)
        value = a4;
    if (index == 5)
        value = a5;
    if (index == 6)
        value = a6;
    return value;
}

static __always_inline void take_allocation(u32 pid, u64 space, struct call *call)
{
    struct process *process = processes.lookup(&pid);
    if (!process)
        return;
    struct allocation_key key = {.token = process->token, .pointer = call->pointer, .space = space};
    struct allocation *known = allocations.lookup(&key);
    if (!known)
        return;
    call->bytes = known->bytes;
    call->ordinal = known->ordinal;
    call->extra = 1 + known->counted;
    allocations.delete(&key);
}

int enter_call(struct pt_regs *ctx)
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
    if (effect == EFFECT_FREE)
        take_allocation(id >> 32, COOKIE(cookie, SPACE), call);
    return 0;
}

// cuLaunchKernel and cuLaunchCooperativeKernel: f, grid x y z, block x y z, shared bytes, stream, ...
int enter_launch(struct pt_regs *ctx)
{
    u64 cookie = bpf_get_attach_cookie(ctx), id = bpf_get_current_pid_tgid();
    u64 function = PT_REGS_PARM1(ctx); KEEP_APART(function);
    u64 grid_x = PT_REGS_PARM2(ctx); KEEP_APART(grid_x);
    u64 grid_y = PT_REGS_PARM3(ctx); KEEP_APART(grid_y);
    u64 grid_z = PT_REGS_PARM4(ctx); KEEP_APART(grid_z);
    u64 block_x = PT_REGS_PARM5(ctx); KEEP_APART(block_x);
    u64 block_y = PT_REGS_PARM6(ctx); KEEP_APART(block_y);
    u64 stack = PT_REGS_SP(ctx); KEEP_APART(stack);
    u64 block_z = 0, stream = 0;
#if defined(__TARGET_ARCH_arm64) || defined(bpf_target_arm64) || defined(__aarch64__)
    block_z = ((struct user_pt_regs *)ctx)->regs[6]; KEEP_APART(block_z);
    bpf_probe_read_user(&stream, sizeof(stream), (void *)stack);
#else
    u64 rest[3] = {};      // System V: the seventh argument lies right above the return address
    bpf_probe_read_user(rest, sizeof(rest), (void *)(stack + 8));
    block_z = rest[0];
    stream = rest[2];
#endif
    struct call *call = begin(ctx, id, cookie);
    if (!call)
        return 0;
    call->function = function;
    call->stream = stream;
    call->launched_threads = (u64)(u32)grid_x * (u32)grid_y * (u32)grid_z
                             * (u32)block_x * (u32)block_y * (u32)block_z;
    return 0;
}

// cuLaunchKernelEx: CUlaunchConfig { u32 grid[3], block[3], shared bytes; CUstream at 32; ... }, f, ...
int enter_launch_config(struct pt_regs *ctx)
{
    u64 cookie = bpf_get_attach_cookie(ctx), id = bpf_get_current_pid_tgid();
    u64 config = PT_REGS_PARM1(ctx); KEEP_APART(config);
    u64 function = PT_REGS_PARM2(ctx); KEEP_APART(function);
    struct call *call = begin(ctx, id, cookie);
    if (!call)
        return 0;
    u32 shape[6] = {};
    u64 stream = 0;
    bpf_probe_read_user(shape, sizeof(shape), (void *)config);
    bpf_probe_read_user(&stream, sizeof(stream), (void *)(config + 32));
    call->function = function;
    call->stream = stream;
    call->launched_threads = (u64)shape[0] * shape[1] * shape[2] * shape[3] * shape[4] * shape[5];
    return 0;
}

static __always_inline s32 ordinal_of_context(struct process *process, u64 context)
{
    struct context_key key = {.token = process->token, .context = context};
    s64 *ordinal = contexts.lookup(&key);
    return ordinal ? (s32)*ordinal : UNKNOWN_ORDINAL;
}

// The device that the thread's calls go to: that of its current context, else, where the thread never chose
// one, that of the process when all its contexts are on one device and none can have been missed.
static __always_inline s32 current_ordinal(struct thread *thread, u32 pid)
{
    u32 depth = thread->context_depth;
    if (depth > MAX_CONTEXT_STACK)
        return UNKNOWN_ORDINAL;
    if (depth > 0)
        return (s32)context_at(thread, depth - 1)->ordinal;
    struct process *process = processes.lookup(&pid);
    if (!process || process->late)
        return UNKNOWN_ORDINAL;
    s64 known = process->contexts, sum = process->ordinal_sum;
    if (known <= 0 || known * process->square_sum != sum * sum)
        return UNKNOWN_ORDINAL;
    return (s32)((u64)sum / (u64)known);
}

static __always_inline void add_context(struct process *process, u64 context, s32 ordinal)
{
    struct context_key key = {.token = process->token, .context = context};
    s64 value = ordinal;
    if (contexts.lookup(&key))
        return;
    if (contexts.insert(&key, &value)) {
        if (!contexts.lookup(&key))
            count(LOSS_CONTEXTS_FULL);
        return;
    }
    __sync_fetch_and_add(&process->contexts, 1);
    __sync_fetch_and_add(&process->ordinal_sum, value);
    __sync_fetch_and_add(&process->square_sum, value * value);
}

static __always_inline void remove_context(struct process *process, u64 context)
{
    struct context_key key = {.token = process->token, .context = context};
    s64 *known = contexts.lookup(&key);
    if (!known)
        return;
    s64 value = *known;
    if (contexts.delete(&key))
        return;
    __sync_fetch_and_add(&process->contexts, -1);
    __sync_fetch_and_add(&process->ordinal_sum, -value);
    __sync_fetch_and_add(&process->square_sum, -(value * value));
}

static __always_inline void set_top(struct thread *thread, u32 depth, u64 context, s32 ordinal)
{
    if (depth == 0 || depth > MAX_CONTEXT_STACK)
        return;
    struct current_context *top = context_at(thread, depth - 1);
    top->context = context;
    top->ordinal = ordinal;
}

static __always_inline void push_context(struct thread *thread, u64 context, s32 ordinal)
{
    thread->context_depth += 1;
    set_top(thread, thread->context_depth, context, ordinal);
}

// Changes the thread's context stack; returns the ordinal the call was about.
static __always_inline s32 change_context(struct thread *thread, u32 pid, u64 effect, struct call *call)
{
    struct process *process = this_process(pid);
    u64 context = call->pointer;
    s32 ordinal = call->ordinal;
    if (!process)
        return ordinal;
    if (effect == EFFECT_CREATE_CONTEXT || effect == EFFECT_RETAIN_CONTEXT) {
        bpf_probe_read_user(&context, sizeof(context), (void *)call->pointer);
        add_context(process, context, ordinal);
        if (effect == EFFECT_CREATE_CONTEXT)
            push_context(thread, context, ordinal);
        return ordinal;
    }
    if (effect == EFFECT_POP_CONTEXT) {
        ordinal = current_ordinal(thread, pid);
        if (thread->context_depth)
            thread->context_depth -= 1;
        return ordinal;
    }
    ordinal = ordinal_of_context(process, context);
    if (effect == EFFECT_PUSH_CONTEXT)
        push_context(thread, context, ordinal);
    if (effect == EFFECT_SELECT_CONTEXT) {
        if (!context) {
            if (thread->context_depth)
                thread->context_depth -= 1;
        } else if (!thread->context_depth) {
            push_context(thread, context, ordinal);
        } else {
            set_top(thread, thread->context_depth, context, ordinal);
        }
    }
    if (effect == EFFECT_DESTROY_CONTEXT) {
        remove_context(process, context);
        u32 depth = thread->context_depth;
        if (depth > 0 && depth <= MAX_CONTEXT_STACK
            && context_at(thread, depth - 1)->context == context)
            thread->context_depth = depth - 1;
    }
    return ordinal;
}

static __always_inline void add_resident(u32 pid, s32 ordinal, s64 bytes)
{
    struct process *process = processes.lookup(&pid);
    if (!process)
        return;
    struct resident_key key = {.token = process->token, .ordinal = ordinal};
    s64 none = 0;
    s64 *total = resident.lookup(&key);
    if (!total) {
        resident.insert(&key, &none);
        total = resident.lookup(&key);
    }
    if (total)
        __sync_fetch_and_add(total, bytes);
    else
        count(LOSS_CONTEXTS_FULL);
}

static __always_inline void remember_allocation(u32 pid, struct call *call, u64 pointer, s32 ordinal, u32 counted)
{
    struct process *process = this_process(pid);
    if (!process)
        return;
    u64 space = COOKIE(call->cookie, SPACE);
    struct allocation_key key = {.token = process->token, .pointer = pointer, .space = space};
    struct allocation value = {.bytes = call->bytes, .ordinal = ordinal, .counted = counted};
    if (allocations.update(&key, &value))
        count(LOSS_ALLOCATIONS_FULL);
}

static __always_inline s32 change_memory(struct thread *thread, u32 pid, u64 effect, s32 result, struct call *call)
{
    u32 counted = COOKIE(call->cookie, RESIDENT);
    if (effect == EFFECT_FREE) {
        // extra is 0 where the allocation was not seen, else 1 + whether it counts as resident
        s32 ordinal = call->extra ? call->ordinal : current_ordinal(thread, pid);
        if (!call->extra)
            return ordinal;
        counted = call->extra - 1;
        if (result) {
            remember_allocation(pid, call, call->pointer, ordinal, counted);
            return ordinal;
        }
        if (counted)
            add_resident(pid, ordinal, -(s64)call->bytes);
        // What a free gives back is device memory that was resident; managed memory never counted as that.
        if (!counted && COOKIE(call->cookie, SPACE) != SPACE_HOST)
            call->bytes = 0;
        return ordinal;
    }
    s32 ordinal = call->ordinal;
    if (effect != EFFECT_ALLOCATE_PHYSICAL)
        ordinal = current_ordinal(thread, pid);
    else
        counted = call->extra;
    if (result)
        return ordinal;
    u64 pointer = 0;
    bpf_probe_read_user(&pointer, sizeof(pointer), (void *)call->pointer);
    if (effect == EFFECT_ALLOCATE_PITCHED) {
        u64 pitch = 0;
        bpf_probe_read_user(&pitch, sizeof(pitch), (void *)call->extra);
        call->bytes = pitch * call->height;
    }
    remember_allocation(pid, call, pointer, ordinal, counted);
    if (counted)
        add_resident(pid, ordinal, call->bytes);
    return ordinal;
}

// Ends the innermost call of this symbol; calls further in have lost their returns.
static __always_inline struct call *end(struct pt_regs *ctx, struct thread *thread, u64 cookie)
{
    u32 depth = thread->depth;
    struct call *call = 0;
#pragma unroll
    for (int i = 0; i < MAX_NESTED_CALLS; i++) {
        if (depth == 0)
            break;
        depth--;
        struct call *inner = call_at(thread, depth);
        if (inner->cookie == cookie) {
            call = inner;
            break;
        }
    }
    u64 stack = PT_REGS_SP(ctx);
    if (!call) {
        if (thread->repeats_to_return && thread->last_return_cookie == cookie
            && thread->last_return_stack == stack) {
            thread->repeats_to_return -= 1;
            count(LOSS_DUPLICATE);
        } else {
            count(LOSS_RETURN_WITHOUT_ENTRY);
        }
        return 0;
    }
    thread->depth = depth;
    thread->last_return_cookie = cookie;
    thread->last_return_stack = stack;
    thread->repeats_to_return = call->repeats;
    return call;
}

int leave(struct pt_regs *ctx)
{
    u64 now_ns = bpf_ktime_get_boot_ns();
    u64 cookie = bpf_get_attach_cookie(ctx), id = bpf_get_current_pid_tgid();
    u32 pid = id >> 32;
    s32 result = (s32)PT_REGS_RC(ctx);
    struct thread *thread = threads.lookup(&id);
    if (!thread)
        return 0;
    struct call *call = end(ctx, thread, cookie);
    if (!call)
        return 0;

    u64 effect = COOKIE(cookie, EFFECT);
    s32 ordinal = call->ordinal;
    if (effect >= EFFECT_ALLOCATE && effect <= EFFECT_FREE)
        ordinal = change_memory(thread, pid, effect, result, call);
    else if (effect >= EFFECT_CREATE_CONTEXT && !result)
        ordinal = change_context(thread, pid, effect, call);
    else if (ordinal == UNKNOWN_ORDINAL)
        ordinal = current_ordinal(thread, pid);

    struct event *event = events.ringbuf_reserve(sizeof(struct event));
    if (!event) {
        count(LOSS_RING_FULL);
        return 0;
    }
    event->time_ns = now_ns;
    event->duration_ns = now_ns - call->entry_ns;
    event->cgroup_id = bpf_get_current_cgroup_id();
    event->bytes = result ? 0 : call->bytes;
    event->launched_threads = result ? 0 : call->launched_threads;
    event->function = call->function;
    event->stream = call->stream;
    event->start_ns = thread->start_ns;
    event->pid = pid;
    event->tid = (u32)id;
    event->result = result;
    event->operation = COOKIE(cookie, OPERATION);
    event->ordinal = ordinal;
    events.ringbuf_submit(event, BPF_RB_NO_WAKEUP);
    return 0;
}

static __always_inline void forget_process(u32 pid)
{
    late.delete(&pid);
    if (!processes.delete(&pid))
        count(COUNT_PROCESS_ENDS);
}

int on_exit(struct bpf_raw_tracepoint_args *ctx)
{
    u64 id = bpf_get_current_pid_tgid();
    u32 pid = id >> 32;
    threads.delete(&id);
#if defined(TASK_SIGNAL) && defined(SIGNAL_LIVE)
    u64 task = bpf_get_current_task(), group = 0;
    s32 threads_alive = 0;
    bpf_probe_read_kernel(&group, sizeof(group), (void *)(task + TASK_SIGNAL));
    bpf_probe_read_kernel(&threads_alive, sizeof(threads_alive), (void *)(group + SIGNAL_LIVE));
    if (threads_alive == 0)
        forget_process(pid);
#else
    if (pid == (u32)id)
        forget_process(pid);
#endif
    return 0;
}

// A new program image: the old one's contexts and memory are gone, the pid and its start time stay.
int on_exec(struct bpf_raw_tracepoint_args *ctx)
{
    u64 id = bpf_get_current_pid_tgid();
    u64 before = (id & ~0xffffffffULL) | (u32)ctx->args[1];
    threads.delete(&id);
    threads.delete(&before);
    forget_process(id >> 32);
    return 0;
}
