/* Device memory of this process: addresses that nobody may dereference, and what they stand for. */
#include "cuda_context.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ADDRESS 0x7f0000000000ull
#define ADDRESS_ALIGNMENT 512ull /* as cuMemAlloc promises at least 256 */

struct allocation {
    uint64_t address, bytes;
    struct context *context; /* NULL once freed */
    enum memory_kind kind;
    unsigned more_handles; /* that must be given back before it is free */
};

static struct allocation *allocations; /* by rising address */
static size_t allocation_count, allocation_capacity, freed_count;
static uint64_t next_address = FIRST_ADDRESS;

void memory_forget(void)
{
    allocation_count = freed_count = 0;
    next_address = FIRST_ADDRESS;
}

/* The allocation that holds this address, freed or not; NULL when none ever did. */
static struct allocation *find(uint64_t address)
{
    size_t low = 0, high = allocation_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (allocations[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return NULL;
    struct allocation *candidate = &allocations[low - 1];
    return address - candidate->address < candidate->bytes ? candidate : NULL;
}

static void compact(void)
{
    if (freed_count < 64 || freed_count * 2 < allocation_count)
        return;
    size_t kept = 0;
    for (size_t i = 0; i < allocation_count; i++)
        if (allocations[i].context)
            allocations[kept++] = allocations[i];
    allocation_count = kept;
    freed_count = 0;
}

static bool grow(void)
{
    if (allocation_count < allocation_capacity)
        return true;
    size_t capacity = allocation_capacity ? allocation_capacity * 2 : 256;
    struct allocation *grown = realloc(allocations, capacity * sizeof *grown);
    if (!grown)
        return false;
    allocations = grown;
    allocation_capacity = capacity;
    return true;
}

/* Holds the device's lock and says whether the client is still this process's. */
static int lock_client(struct context *context)
{
    device_lock(context->device);
    if (context->client->serial == context->client_serial && context->client->state == CLIENT_OPEN)
        return CUDA_SUCCESS;
    device_unlock(context->device);
    return CUDA_ERROR_UNKNOWN;
}

int memory_allocate(enum memory_kind kind, uint64_t bytes, uint64_t *address)
{
    struct context *context = context_current();
    int result = context_check(context);
    if (result)
        return result;
    if (!bytes || !address)
        return CUDA_ERROR_INVALID_VALUE;
    process_enter();
    result = grow() ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (!result && kind == MEMORY_DEVICE && !(result = lock_client(context))) {
        if (!client_reserve(context->device, context->client, bytes))
            result = CUDA_ERROR_OUT_OF_MEMORY;
        device_unlock(context->device);
    }
    if (!result) {
        *address = next_address;
        struct context *owner = context->primary_kept ? context->primary_kept : context;
        allocations[allocation_count++] = (struct allocation){next_address, bytes, owner, kind, 0};
        next_address += (bytes + ADDRESS_ALIGNMENT) / ADDRESS_ALIGNMENT * ADDRESS_ALIGNMENT;
    }
    process_leave();
    return result;
}

/* Holds the process lock. */
static int release(struct allocation *allocation)
{
    struct context *context = allocation->context;
    int result = CUDA_SUCCESS;
    if (allocation->kind == MEMORY_DEVICE && !(result = lock_client(context))) {
        client_release(context->device, context->client, allocation->bytes);
        device_unlock(context->device);
    }
    allocation->context = NULL;
    freed_count++;
    return result;
}

int memory_free(uint64_t address, bool synchronise)
{
    int result = context_check(context_current());
    if (result || !address)
        return result; /* freeing nothing is allowed */
    if (synchronise && (result = wait_all()))
        return result;
    process_enter();
    struct allocation *allocation = find(address);
    if (!allocation || !allocation->context || allocation->address != address)
        result = CUDA_ERROR_INVALID_VALUE;
    else if (allocation->more_handles)
        allocation->more_handles--;
    else
        result = release(allocation);
    compact();
    process_leave();
    return result;
}

int memory_retain(uint64_t address)
{
    process_enter();
    struct allocation *allocation = find(address);
    bool found = allocation && allocation->context && allocation->address == address;
    if (found)
        allocation->more_handles++;
    process_leave();
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void memory_free_all(struct context *context)
{
    for (size_t i = 0; i < allocation_count; i++)
        if (allocations[i].context == context)
            release(&allocations[i]);
    compact();
}

int memory_check(uint64_t address, uint64_t bytes)
{
    process_enter();
    const struct allocation *allocation = find(address);
    bool inside = allocation && allocation->context && bytes <= allocation->bytes &&
                  address - allocation->address <= allocation->bytes - bytes;
    process_leave();
    return inside || !bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

int memory_info(uint64_t *free_bytes, uint64_t *total_bytes)
{
    struct context *context = context_current();
    int result = context_check(context);
    if (result)
        return result;
    device_lock(context->device);
    *total_bytes = context->device->spec.memory_bytes;
    *free_bytes = *total_bytes - context->device->memory_used_bytes;
    device_unlock(context->device);
    return CUDA_SUCCESS;
}
