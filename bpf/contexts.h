// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// Which context is current on a thread, and on which device a context is.

static __always_inline s32 ordinal_of_context(struct process *process, u64 context)
{
    struct context_key key = {.token = process->token, .context = context};
    s64 *ordinal = bpf_map_lookup_elem(&contexts, &key);
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
    struct process *process = bpf_map_lookup_elem(&processes, &pid);
    if (!process || process->late)
        return UNKNOWN_ORDINAL;
    s64 known = process->contexts, sum = process->ordinal_sum;
    if (known <= 0 || known * process->square_sum != sum * sum)
        return UNKNOWN_ORDINAL;
    return (s32)((u64)sum / (u64)known);
}

static __always_inline void remove_context(struct process *process, u64 context)
{
    struct context_key key = {.token = process->token, .context = context};
    s64 *known = bpf_map_lookup_elem(&contexts, &key);
    if (!known)
        return;
    s64 value = *known;
    if (bpf_map_delete_elem(&contexts, &key))
        return;
    __sync_fetch_and_add(&process->contexts, -1);
    __sync_fetch_and_add(&process->ordinal_sum, -value);
    __sync_fetch_and_add(&process->square_sum, -(value * value));
}

static __always_inline void add_context(struct process *process, u64 context, s32 ordinal)
{
    struct context_key key = {.token = process->token, .context = context};
    s64 value = ordinal;
    s64 *known = bpf_map_lookup_elem(&contexts, &key);
    if (known && *known == value)
        return;
    if (known) // one that ended unseen, and whose address is another's now
        remove_context(process, context);
    if (bpf_map_update_elem(&contexts, &key, &value, BPF_NOEXIST)) {
        if (!bpf_map_lookup_elem(&contexts, &key))
            count(LOSS_CONTEXTS_FULL);
        return;
    }
    __sync_fetch_and_add(&process->contexts, 1);
    __sync_fetch_and_add(&process->ordinal_sum, value);
    __sync_fetch_and_add(&process->square_sum, value * value);
}

// The context of a green context is destroyed with it: under the complement of the one's handle is the other's.
static __always_inline void convert_context(struct process *process, u64 green, u64 context, s32 ordinal)
{
    struct context_key key = {.token = process->token, .context = ~green};
    s64 value = context;
    if (bpf_map_update_elem(&contexts, &key, &value, BPF_ANY))
        count(LOSS_CONTEXTS_FULL);
    add_context(process, context, ordinal);
}

static __always_inline void remove_converted(struct process *process, u64 green)
{
    struct context_key key = {.token = process->token, .context = ~green};
    s64 *context = bpf_map_lookup_elem(&contexts, &key);
    if (!context)
        return;
    u64 converted = *context;
    bpf_map_delete_elem(&contexts, &key);
    remove_context(process, converted);
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
    if (effect == EFFECT_CONVERT_CONTEXT) {
        bpf_probe_read_user(&context, sizeof(context), (void *)call->pointer);
        ordinal = ordinal_of_context(process, call->function);
        if (ordinal != UNKNOWN_ORDINAL)
            convert_context(process, call->function, context, ordinal);
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
        remove_converted(process, context);
        u32 depth = thread->context_depth;
        if (depth > 0 && depth <= MAX_CONTEXT_STACK
            && context_at(thread, depth - 1)->context == context)
            thread->context_depth = depth - 1;
    }
    return ordinal;
}

// What the process was told its device is: of a MIG instance its own UUID, where the library says so.
static __always_inline void read_uuid(u32 pid, struct call *call)
{
    struct process *process = this_process(pid);
    if (!process)
        return;
    struct resident_key key = {.token = process->token, .ordinal = call->ordinal};
    struct uuid uuid = {.start_ns = process->start_ns, .pid = pid};
    bpf_probe_read_user(uuid.bytes, sizeof(uuid.bytes), (void *)call->pointer);
    bpf_map_update_elem(&uuids, &key, &uuid, BPF_ANY);
}
