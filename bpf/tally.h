// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// Above a rate, the calls of a process are added up instead of making a record each.

// Whether the process's calls are tallied now. Time is cut into slots; it is tallied from the call that is one too
// many in its slot, to the end of the first slot with few calls.
static __always_inline int is_tallied(struct process *process, u64 now_ns)
{
    int zero = 0;
    struct rates *limit = bpf_map_lookup_elem(&rates, &zero);
    if (!limit)
        return 0;
    u64 slot = now_ns / RATE_SLOT_NS, before = process->slot, calls = process->calls;
    if (slot != before && __sync_val_compare_and_swap(&process->slot, before, slot) == before) {
        process->calls = 0;
        if (slot != before + 1)
            calls = 0;
        if (process->tallied_since_ns && calls < limit->below)
            process->tallied_since_ns = 0;
    }
    __sync_fetch_and_add(&process->calls, 1);
    if (!process->tallied_since_ns && process->calls > limit->above) {
        process->tallied_before = 1;
        process->tallied_since_ns = now_ns;
    }
    return process->tallied_since_ns != 0;
}

static __always_inline struct tally *tally_of(struct process *process, u32 pid, struct tally_key *key, u64 first_ns)
{
    struct tally *found = bpf_map_lookup_elem(&tallies, key);
    if (found)
        return found;
    if (process->tallies >= MAX_TALLIES_OF_PROCESS) {
        // So many functions are told apart, the rest is one.
        key->function = 0;
        found = bpf_map_lookup_elem(&tallies, key);
        if (found)
            return found;
    }
    struct tally fresh = {.first_ns = first_ns, .last_ns = first_ns, .start_ns = process->start_ns, .pid = pid};
    if (!bpf_map_update_elem(&tallies, key, &fresh, BPF_NOEXIST))
        __sync_fetch_and_add(&process->tallies, 1);
    return bpf_map_lookup_elem(&tallies, key);
}

static __always_inline void add_to_tally(struct process *process, u32 pid, struct call *call, s32 result, s32 ordinal,
                                         u64 now_ns)
{
    struct tally_key key = {
        .token = process->token,
        .function = call->function,
        .cgroup_id = bpf_get_current_cgroup_id(),
        .result = result,
        .operation = call->operation,
        .ordinal = ordinal,
    };
    struct tally *tally = tally_of(process, pid, &key, call->entry_ns);
    if (!tally) {
        count(LOSS_TALLIES_FULL);
        return;
    }
    __sync_fetch_and_add(&tally->duration_ns, now_ns - call->entry_ns);
    if (!result) {
        __sync_fetch_and_add(&tally->bytes, call->bytes);
        __sync_fetch_and_add(&tally->launched_threads, call->launched_threads);
    }
    if (tally->last_ns < now_ns)
        tally->last_ns = now_ns;
    __sync_fetch_and_add(&tally->count, 1);
    count(COUNT_TALLIED);
}
