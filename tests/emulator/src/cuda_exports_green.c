/* The C ABI of libcuda.so.1: green contexts. They have all of a device here, whatever resources they are given. They
 * keep its primary context (CUDA driver API reference, cuGreenCtxDestroy), and their memory is taken to be its. */
#include "cuda_abi.h"

#include <stdlib.h>

#define GREEN_MAGIC 0x4e455247u

struct green {
    uint32_t magic;
    struct context *context;
};

static int find(void *handle, struct green **green)
{
    *green = handle;
    return handle && (*green)->magic == GREEN_MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

EXPORT CUresult cuGreenCtxCreate(void **handle, void *resources, CUdevice ordinal, unsigned flags)
{
    struct context *context, *primary;
    if (!handle || !resources || !flags)
        return CUDA_ERROR_INVALID_VALUE;
    int result = context_retain_primary(ordinal, &primary);
    if (result)
        return result;
    if ((result = context_make(ordinal, &context))) {
        context_release_primary(ordinal);
        return result;
    }
    context->primary_kept = primary;
    struct green *green = calloc(1, sizeof *green);
    *green = (struct green){GREEN_MAGIC, context};
    *handle = green;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxFromGreenCtx(void **context, void *handle)
{
    struct green *green;
    int result = find(handle, &green);
    if (!result)
        *context = green->context;
    return result;
}

EXPORT CUresult cuGreenCtxDestroy(void *handle)
{
    struct green *green;
    int result = find(handle, &green);
    if (!result)
        result = context_destroy(green->context);
    if (result)
        return result;
    green->magic = 0; /* kept, so that a stale handle is found out */
    return context_release_primary(green->context->ordinal);
}
