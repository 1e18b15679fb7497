/* The C ABI of libcuda.so.1: addresses that are reserved, and physical memory that is mapped there. A mapping holds the
 * memory as a handle does. */
#include "cuda_abi.h"
#include "cuda_context.h"

enum { MOST_MAPPINGS = 4096 };

struct mapping {
    uint64_t address, bytes, handle; /* no bytes: a free place */
};

static struct mapping mappings[MOST_MAPPINGS];
static uint64_t next_reserved = 0x7e0000000000ull;

/* Holds the process lock. The mapping that holds this address, or a free place for address 0. */
static struct mapping *find(uint64_t address)
{
    for (int i = 0; i < MOST_MAPPINGS; i++) {
        struct mapping *mapping = &mappings[i];
        if (address ? address - mapping->address < mapping->bytes : !mapping->bytes)
            return mapping;
    }
    return NULL;
}

EXPORT CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr wish,
                                    unsigned long long flags)
{
    (void)alignment, (void)wish;
    if (!address || !bytes || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *address = __atomic_fetch_add(&next_reserved, bytes, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, unsigned long long handle,
                         unsigned long long flags)
{
    if (!address || !bytes || offset || flags || memory_check(handle, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    int result = memory_retain(handle);
    if (result)
        return result;
    process_enter();
    struct mapping *place = find(address) ? NULL : find(0);
    if (place)
        *place = (struct mapping){address, bytes, handle};
    process_leave();
    if (place)
        return CUDA_SUCCESS;
    memory_free(handle, false);
    return CUDA_ERROR_INVALID_VALUE;
}

/* Whole mappings only, all of the range. */
EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
    int result = address && bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    while (!result && bytes) {
        process_enter();
        struct mapping *found = find(address), gone = {0, 0, 0};
        if (found && found->address == address && found->bytes <= bytes) {
            gone = *found;
            *found = (struct mapping){0, 0, 0};
        }
        process_leave();
        result = gone.bytes ? memory_free(gone.handle, false) : CUDA_ERROR_INVALID_VALUE;
        address += gone.bytes;
        bytes -= gone.bytes;
    }
    return result;
}
