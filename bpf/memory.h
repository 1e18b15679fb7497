// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// Live allocations and resident bytes.

// What a free has taken at its entry: nothing where the allocation was not seen (0), the allocation, plus one
// if it counts as resident, or one of several references to it.
#define TAKEN 1
#define TAKEN_REFERENCE 3

static __always_inline void take_allocation(u32 pid, u64 space, struct call *call)
{
    struct process *process = bpf_map_lookup_elem(&processes, &pid);
    if (!process)
        return;
    struct allocation_key key = {.token = process->token, .pointer = call->pointer, .space = space};
    struct allocation *known = bpf_map_lookup_elem(&allocations, &key);
    if (!known)
        return;
    call->bytes = known->bytes;
    call->ordinal = known->ordinal;
    call->owner = known->owner;
    call->era = known->era;
    if (known->references) {
        // Another handle to it stays: this release gives nothing back.
        __sync_fetch_and_add(&known->references, -1);
        call->bytes = 0;
        call->extra = TAKEN_REFERENCE;
        return;
    }
    call->extra = TAKEN + known->counted;
    bpf_map_delete_elem(&allocations, &key);
}

// What ends with its context are plain allocations (CUDA runtime API reference, cudaDeviceReset, which names what a
// reset of a device frees); memory of pools and physical memory are of the device.
static __always_inline void find_owner(struct thread *thread, u32 pid, struct call *call)
{
    u32 depth = thread->context_depth;
    struct process *process = bpf_map_lookup_elem(&processes, &pid);
    if (!process || call->operation != OPERATION_ALLOCATE_DEVICE || depth == 0 || depth > MAX_CONTEXT_STACK)
        return;
    struct known_context *current = find_context(process, context_at(thread, depth - 1)->context);
    if (!current)
        return;
    u64 owner = current->owner;
    struct known_context *known = find_context(process, owner);
    if (!known)
        return;
    call->owner = owner;
    call->era = known->era;
}

static __always_inline void remember_allocation(u32 pid, struct call *call, u64 pointer, s32 ordinal, u32 counted)
{
    struct process *process = this_process(pid);
    if (!process)
        return;
    u64 space = COOKIE(call->cookie, SPACE);
    struct allocation_key key = {.token = process->token, .pointer = pointer, .space = space};
    struct allocation value = {.bytes = call->bytes, .ordinal = ordinal, .counted = counted,
                               .owner = call->owner, .era = call->era};
    if (bpf_map_update_elem(&allocations, &key, &value, BPF_ANY))
        count(LOSS_ALLOCATIONS_FULL);
}

static __always_inline void add_reference(u32 pid, struct call *call, u64 pointer)
{
    struct process *process = bpf_map_lookup_elem(&processes, &pid);
    if (!process)
        return;
    u64 space = COOKIE(call->cookie, SPACE);
    struct allocation_key key = {.token = process->token, .pointer = pointer, .space = space};
    struct allocation *known = bpf_map_lookup_elem(&allocations, &key);
    if (known)
        __sync_fetch_and_add(&known->references, 1);
}

// Whether it still counted: not what went with its context before.
static __always_inline u32 change_resident(u32 pid, struct call *call, s32 ordinal, s64 bytes)
{
    struct process *process = bpf_map_lookup_elem(&processes, &pid);
    if (!process)
        return 0;
    if (call->owner) {
        struct known_context *known = find_context(process, call->owner);
        if (!known || known->era != call->era)
            return 0;
        __sync_fetch_and_add(&known->bytes, bytes);
    }
    add_resident(process, ordinal, bytes);
    return 1;
}

static __always_inline s32 change_memory(struct thread *thread, u32 pid, u64 effect, s32 result, struct call *call)
{
    u32 counted = COOKIE(call->cookie, RESIDENT);
    if (effect == EFFECT_FREE) {
        s32 ordinal = call->ordinal;
        if (!call->extra)
            return ordinal == UNKNOWN_ORDINAL ? current_ordinal(thread, pid) : ordinal;
        if (call->extra == TAKEN_REFERENCE) {
            if (result)
                add_reference(pid, call, call->pointer);
            return ordinal;
        }
        counted = call->extra - TAKEN;
        if (result) {
            remember_allocation(pid, call, call->pointer, ordinal, counted);
            return ordinal;
        }
        if (counted)
            counted = change_resident(pid, call, ordinal, -(s64)call->bytes);
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
    if (counted)
        find_owner(thread, pid, call);
    remember_allocation(pid, call, pointer, ordinal, counted);
    if (counted)
        change_resident(pid, call, ordinal, call->bytes);
    return ordinal;
}

// cuMemRetainAllocationHandle gives the handle once more, and asks for one more release of it.
static __always_inline void retain_allocation(u32 pid, struct call *call)
{
    u64 handle = 0;
    bpf_probe_read_user(&handle, sizeof(handle), (void *)call->pointer);
    add_reference(pid, call, handle);
}

// A mapping holds physical memory as a handle does.
static __always_inline void map_memory(struct process *process, u32 pid, struct call *call)
{
    struct mapping_key key = {.token = process->token, .address = call->pointer};
    struct mapping value = {.bytes = call->bytes, .handle = call->extra};
    if (bpf_map_update_elem(&mappings, &key, &value, BPF_ANY)) {
        count(LOSS_ALLOCATIONS_FULL);
        return;
    }
    add_reference(pid, call, call->extra);
}

static __always_inline void drop_mapped(struct process *process, struct call *call, u64 handle)
{
    struct allocation_key key = {.token = process->token, .pointer = handle, .space = SPACE_PHYSICAL};
    struct allocation *known = bpf_map_lookup_elem(&allocations, &key);
    if (!known)
        return;
    call->ordinal = known->ordinal;
    if (known->references) {
        __sync_fetch_and_add(&known->references, -1);
        return;
    }
    u64 bytes = known->counted ? known->bytes : 0;
    if (bpf_map_delete_elem(&allocations, &key))
        return;
    call->bytes += bytes;
    add_resident(process, call->ordinal, -(s64)bytes);
}

// One call may unmap many neighbours: the bytes of the call are those whose last holder was among them. After its
// return, since the range stays the caller's.
static __always_inline void unmap_memory(struct process *process, struct call *call)
{
    u64 token = process->token, address = call->pointer, end = address + call->bytes;
    call->bytes = 0;
    for (u32 i = 0; i < MAX_UNMAPPED; i++) {
        struct mapping_key key = {.token = token, .address = address};
        if (address >= end)
            break;
        struct mapping *known = bpf_map_lookup_elem(&mappings, &key);
        if (!known)
            break;
        u64 handle = known->handle;
        address += known->bytes;
        bpf_map_delete_elem(&mappings, &key);
        drop_mapped(process, call, handle);
    }
}
