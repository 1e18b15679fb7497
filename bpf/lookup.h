// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// Counters, fields of the attach cookie, and the entries of this thread and this process.

// Reads of neighbouring fields must stay apart, or the compiler merges them into an access to a changed
// context pointer, which the verifier refuses.
#define KEEP_APART(value) asm volatile("" : "+r"(value))

static __always_inline void count_many(int which, u64 amount)
{
    u64 *counter = bpf_map_lookup_elem(&losses, &which);
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

static __always_inline struct process *this_process(u32 pid)
{
    struct process *process = bpf_map_lookup_elem(&processes, &pid);
    if (process)
        return process;
    struct process fresh = {};
    fresh.token = bpf_ktime_get_boot_ns() << TOKEN_PID_BITS | (pid & ((1 << TOKEN_PID_BITS) - 1));
    fresh.start_ns = process_start_ns();
    fresh.late = bpf_map_lookup_elem(&late, &pid) != 0;
    // Two threads may make their first call at once: the first to insert wins, both then read that one.
    bpf_map_update_elem(&processes, &pid, &fresh, BPF_NOEXIST);
    process = bpf_map_lookup_elem(&processes, &pid);
    if (!process)
        count(LOSS_PROCESSES_FULL);
    return process;
}

static __always_inline struct thread *this_thread(u64 id)
{
    struct thread *thread = bpf_map_lookup_elem(&threads, &id);
    if (thread)
        return thread;
    int zero = 0;
    struct thread *blank = bpf_map_lookup_elem(&blank_thread, &zero);
    if (!blank)
        return 0;
    bpf_map_update_elem(&threads, &id, blank, BPF_ANY);
    thread = bpf_map_lookup_elem(&threads, &id);
    if (!thread) {
        count(LOSS_THREADS_FULL);
        return 0;
    }
    struct process *process = this_process(id >> 32);
    thread->start_ns = process ? process->start_ns : process_start_ns();
    return thread;
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

// The seventh, eighth and ninth argument: System V has them right above the return address, AArch64 the first
// two in registers and the third on the stack.
#if defined(__TARGET_ARCH_arm64) || defined(bpf_target_arm64) || defined(__aarch64__)
#define READ_REST(ctx, stack, rest)                                                                                  \
    do {                                                                                                             \
        rest[0] = ((struct user_pt_regs *)ctx)->regs[6]; KEEP_APART(rest[0]);                                        \
        rest[1] = ((struct user_pt_regs *)ctx)->regs[7]; KEEP_APART(rest[1]);                                        \
        bpf_probe_read_user(&rest[2], sizeof(rest[2]), (void *)stack);                                               \
    } while (0)
#else
#define READ_REST(ctx, stack, rest) bpf_probe_read_user(rest, sizeof(rest), (void *)(stack + 8))
#endif
