// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// Calls in progress: an entry and its return are paired for each thread.

// Whether a call that began then has its return probed. While probes are being attached, entries come first.
static __always_inline u32 return_is_probed(u64 entry_ns)
{
    int zero = 0;
    u64 *settled = bpf_map_lookup_elem(&settled_ns, &zero);
    return settled && entry_ns > *settled;
}

// Counts the entries of a call that is over and whose returns did not come, but for those that had none to come.
static __always_inline void unreturned(struct call *call)
{
    count_many(LOSS_UNRETURNED, call->repeats + return_is_probed(call->entry_ns) - call->unprobed);
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
    u32 unprobed = 0;
    if (thread->repeats_to_return > thread->unprobed_repeats)
        count_many(LOSS_UNRETURNED, thread->repeats_to_return - thread->unprobed_repeats);
    thread->repeats_to_return = 0;
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
            unprobed = outer->unprobed + !return_is_probed(outer->entry_ns);
            keep = COOKIE(cookie, EFFECT) == EFFECT_FREE;
            break;
        }
        unreturned(outer);
    }
    if (depth >= MAX_NESTED_CALLS)
        return 0;
    thread->depth = depth + 1;
    struct call *call = call_at(thread, depth);
    call->cookie = cookie;
    call->stack = stack;
    call->entry_ns = now_ns;
    call->repeats = repeats;
    call->unprobed = unprobed;
    if (keep)
        return call;
    call->bytes = 0;
    call->launched_threads = 0;
    call->function = 0;
    call->stream = 0;
    call->pointer = 0;
    call->extra = 0;
    call->owner = 0;
    call->era = 0;
    call->height = 0;
    call->ordinal = UNKNOWN_ORDINAL;
    call->operation = COOKIE(cookie, OPERATION);
    return call;
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
    thread->unprobed_repeats = call->unprobed;
    return call;
}
