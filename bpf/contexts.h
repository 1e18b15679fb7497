// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// Which context is current on a thread, on which device a context is, and what ends with it.

// Beside contexts the table has, under numbers that no pointer is, what stands for the primary one of each device:
// what is allocated in it, and in contexts converted from green ones, which keep it, ends with it. And under the
// complement of a green one's handle the one converted from it, in place of an ordinal.
#define PRIMARY(ordinal) ((u64)(u32)(ordinal) + 1)

static __always_inline struct known_context *find_context(struct process *process, u64 context)
{
    struct context_key key = {.token = process->token, .context = context};
    return bpf_map_lookup_elem(&contexts, &key);
}

static __always_inline s32 ordinal_of_context(struct process *process, u64 context)
{
    struct known_context *known = find_context(process, context);
    return known ? (s32)known->ordinal : UNKNOWN_ORDINAL;
}

static __always_inline void add_resident(struct process *process, s32 ordinal, s64 bytes)
{
    struct resident_key key = {.token = process->token, .ordinal = ordinal};
    s64 none = 0;
    s64 *total = bpf_map_lookup_elem(&resident, &key);
    if (!total) {
        bpf_map_update_elem(&resident, &key, &none, BPF_NOEXIST);
        total = bpf_map_lookup_elem(&resident, &key);
    }
    if (total)
        __sync_fetch_and_add(total, bytes);
    else
        count(LOSS_CONTEXTS_FULL);
}

// What was allocated in a context is free; how much that is. The allocations stay in their table, of an era that is
// over: nobody frees them any more, and whoever is given their address takes their place.
static __always_inline u64 free_all_of(struct process *process, struct known_context *known)
{
    if (!known)
        return 0;
    known->era = bpf_ktime_get_boot_ns();
    s64 bytes = __sync_lock_test_and_set(&known->bytes, 0);
    add_resident(process, (s32)known->ordinal, -bytes);
    return bytes > 0 ? bytes : 0;
}

// The device that the thread's calls go to: that of its current context, else, where the thread never chose
// one, that of the process when all its contexts are on one device and none can have been missed.
static __always_inline s32 current_ordinal(struct thread *thread, u32 pid)
{
    u32 depth = thread->context_depth;
    if (depth > MAX_CONTEXT_STACK)
        return UNKNOWN_ORDINAL;
    struct process *process = bpf_map_lookup_elem(&processes, &pid);
    if (depth > 0) {
        struct current_context *top = context_at(thread, depth - 1);
        if (top->ordinal == UNKNOWN_ORDINAL && process) // it may have become known since it was chosen
            top->ordinal = ordinal_of_context(process, top->context);
        return (s32)top->ordinal;
    }
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
    struct known_context *known = bpf_map_lookup_elem(&contexts, &key);
    if (!known)
        return;
    s64 value = known->ordinal;
    if (bpf_map_delete_elem(&contexts, &key))
        return;
    __sync_fetch_and_add(&process->contexts, -1);
    __sync_fetch_and_add(&process->ordinal_sum, -value);
    __sync_fetch_and_add(&process->square_sum, -(value * value));
}

static __always_inline void add_context(struct process *process, u64 context, s32 ordinal, u64 owner)
{
    struct context_key key = {.token = process->token, .context = context};
    s64 value = ordinal;
    struct known_context fresh = {.ordinal = ordinal, .owner = owner, .era = bpf_ktime_get_boot_ns()};
    struct known_context *known = bpf_map_lookup_elem(&contexts, &key);
    if (known && known->ordinal == value && known->owner == owner)
        return;
    if (known) { // one that ended unseen, and whose address is another's now
        free_all_of(process, known);
        remove_context(process, context);
    }
    if (bpf_map_update_elem(&contexts, &key, &fresh, BPF_NOEXIST)) {
        if (!bpf_map_lookup_elem(&contexts, &key))
            count(LOSS_CONTEXTS_FULL);
        return;
    }
    __sync_fetch_and_add(&process->contexts, 1);
    __sync_fetch_and_add(&process->ordinal_sum, value);
    __sync_fetch_and_add(&process->square_sum, value * value);
}

// The context of a green context is destroyed with it.
static __always_inline void convert_context(struct process *process, u64 green, u64 context, s32 ordinal)
{
    struct context_key key = {.token = process->token, .context = ~green};
    struct known_context value = {.ordinal = context};
    if (bpf_map_update_elem(&contexts, &key, &value, BPF_ANY))
        count(LOSS_CONTEXTS_FULL);
    add_context(process, context, ordinal, PRIMARY(ordinal));
}

static __always_inline void remove_converted(struct process *process, u64 green)
{
    struct context_key key = {.token = process->token, .context = ~green};
    struct known_context *context = bpf_map_lookup_elem(&contexts, &key);
    if (!context)
        return;
    u64 converted = context->ordinal;
    bpf_map_delete_elem(&contexts, &key);
    remove_context(process, converted);
}

static __always_inline void retain_primary(struct process *process, s32 ordinal)
{
    struct context_key key = {.token = process->token, .context = PRIMARY(ordinal)};
    struct known_context fresh = {.ordinal = ordinal, .owner = key.context, .era = bpf_ktime_get_boot_ns()};
    bpf_map_update_elem(&contexts, &key, &fresh, BPF_NOEXIST);
    struct known_context *primary = bpf_map_lookup_elem(&contexts, &key);
    if (primary)
        __sync_fetch_and_add(&primary->references, 1);
    else
        count(LOSS_CONTEXTS_FULL);
}

// The last who releases it resets it. Of a process that was there before the probes nobody knows who is the last.
static __always_inline u64 release_primary(struct process *process, s32 ordinal)
{
    struct known_context *primary = find_context(process, PRIMARY(ordinal));
    if (!primary || process->late)
        return 0;
    return __sync_fetch_and_add(&primary->references, -1) == 1 ? free_all_of(process, primary) : 0;
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
    if (effect == EFFECT_CREATE_CONTEXT || effect == EFFECT_RETAIN_PRIMARY || effect == EFFECT_CREATE_GREEN) {
        bpf_probe_read_user(&context, sizeof(context), (void *)call->pointer);
        u64 owner = effect == EFFECT_CREATE_CONTEXT ? context : PRIMARY(ordinal);
        add_context(process, context, ordinal, owner);
        if (effect == EFFECT_CREATE_CONTEXT)
            push_context(thread, context, ordinal);
        else
            retain_primary(process, ordinal);
        return ordinal;
    }
    if (effect == EFFECT_RELEASE_PRIMARY) {
        call->bytes = release_primary(process, ordinal);
        return ordinal;
    }
    if (effect == EFFECT_RESET_PRIMARY) {
        call->bytes = free_all_of(process, find_context(process, PRIMARY(ordinal)));
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
    if (effect == EFFECT_DESTROY_GREEN) {
        remove_converted(process, context);
        call->bytes = release_primary(process, ordinal);
    }
    if (effect == EFFECT_DESTROY_CONTEXT)
        call->bytes = free_all_of(process, find_context(process, context));
    if (effect == EFFECT_DESTROY_CONTEXT || effect == EFFECT_DESTROY_GREEN) {
        remove_context(process, context);
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
