/* cuGetProcAddress, which hands out the exported functions themselves, and the texts of results. */
#include "cuda_abi.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define PER_THREAD_STREAM_FLAG 2ull /* CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM */

enum { QUERY_FOUND = 0, QUERY_NOT_FOUND = 1, LONGEST_NAME = 128, FIRST_WITH_NEWER = 13000 };

static void *self_handle(void)
{
    Dl_info info;
    if (!dladdr((void *)self_handle, &info))
        return NULL;
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
}

/* Whether the second ABI of a function came with CUDA 13, so that whoever asks for an older one gets the first. */
static bool second_is_newer(const char *name)
{
    static const char *const names[] = {"cuCtxSynchronize", "cuMemPrefetchAsync", "cuMemcpyBatchAsync",
                                        "cuMemcpy3DBatchAsync"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

/* A base name stands for the newest ABI of the version asked for, so "cuMemAlloc" is cuMemAlloc_v2. */
static void *resolve(const char *name, int version, uint64_t flags)
{
    static const char *const suffixes[] = {"_ptsz", "_v2", ""};
    void *self = strncmp(name, "cu", 2) ? NULL : self_handle();
    void *found = NULL;
    bool skip_second = version < FIRST_WITH_NEWER && second_is_newer(name);
    for (size_t i = flags & PER_THREAD_STREAM_FLAG ? 0 : 1; self && !found && i < 3; i++) {
        char full[LONGEST_NAME];
        if (i == 1 && skip_second)
            continue;
        snprintf(full, sizeof full, "%s%s", name, suffixes[i]);
        found = dlsym(self, full);
    }
    if (self)
        dlclose(self);
    return found;
}

static int look_up(const char *name, void **function, int version, uint64_t flags, int *status)
{
    if (!name || !function)
        return CUDA_ERROR_INVALID_VALUE;
    *function = resolve(name, version, flags);
    if (status)
        *status = *function ? QUERY_FOUND : QUERY_NOT_FOUND;
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

EXPORT int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
    return look_up(name, function, version, flags, NULL);
}

EXPORT int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status)
{
    return look_up(name, function, version, flags, status);
}

struct result_text {
    int code;
    const char *name, *text;
};

static const struct result_text *text_of(int code)
{
    static const struct result_text texts[] = {
        {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
        {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
        {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
        {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
        {CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE", "device is busy or unavailable"},
        {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no device is visible"},
        {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
        {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
        {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
        {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
        {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
        {CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
        {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
        {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i].code == code)
            return &texts[i];
    return NULL;
}

EXPORT int cuGetErrorName(int code, const char **name)
{
    const struct result_text *found = text_of(code);
    *name = found ? found->name : NULL;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT int cuGetErrorString(int code, const char **text)
{
    const struct result_text *found = text_of(code);
    *text = found ? found->text : NULL;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
