/* For the files that export. Each exported function has a body and an address of its own and calls no other
 * exported one, so a probe on a symbol fires exactly once a call. */
#ifndef GPUEMU_CUDA_ABI_H
#define GPUEMU_CUDA_ABI_H
#include "cuda_state.h"

#define EXPORT __attribute__((visibility("default"), noinline, noclone, used))

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;

/* A function and its twin for the per-thread default stream. */
#define TWIN(name, suffix, prototype, body)                                                                          \
    EXPORT CUresult name prototype                                                                                   \
    {                                                                                                                \
        return body;                                                                                                 \
    }                                                                                                                \
    EXPORT CUresult name##suffix prototype                                                                           \
    {                                                                                                                \
        return body;                                                                                                 \
    }

#endif
