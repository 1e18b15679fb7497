/* The probed functions with the prototypes of cuda.h, one line each: name, prototype, what it writes. */
#include <stddef.h>
#include <stdint.h>

typedef unsigned long long ptr; /* CUdeviceptr */
typedef void *han;              /* any CUDA handle */
typedef unsigned u32;

#define LAUNCH (han f, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared, han stream, void **p, void **e)
#define COOPERATIVE (han f, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared, han stream, void **p)
#define HTOD (ptr to, const void *from, size_t n)
#define DTOH (void *to, ptr from, size_t n)
#define DTOD (ptr to, ptr from, size_t n)
#define HTOD_ASYNC (ptr to, const void *from, size_t n, han stream)
#define DTOH_ASYNC (void *to, ptr from, size_t n, han stream)
#define DTOD_ASYNC (ptr to, ptr from, size_t n, han stream)
#define PEER (ptr to, han to_context, ptr from, han from_context, size_t n)
#define PEER_ASYNC (ptr to, han to_context, ptr from, han from_context, size_t n, han stream)

#define TWIN(X, name, suffix, prototype, body) X(name, prototype, body) X(name##suffix, prototype, body)

#define API(X)                                                                                                       \
    TWIN(X, cuLaunchKernel, _ptsz, LAUNCH, )                                                                         \
    TWIN(X, cuLaunchKernelEx, _ptsz, (const void *config, han f, void **p, void **e), )                              \
    TWIN(X, cuLaunchCooperativeKernel, _ptsz, COOPERATIVE, )                                                         \
    TWIN(X, cuGraphLaunch, _ptsz, (han graph, han stream), )                                                         \
    TWIN(X, cuLaunchHostFunc, _ptsz, (han stream, void (*f)(void *), void *data), )                                  \
    X(cuMemAlloc_v2, (ptr * out, size_t n), *out = fresh())                                                          \
    X(cuMemAllocPitch_v2, (ptr * out, size_t *pitch, size_t width, size_t height, u32 element),                      \
      *out = fresh(); *pitch = (width + 511) / 512 * 512)                                                            \
    X(cuMemAllocManaged, (ptr * out, size_t n, u32 flags), *out = fresh())                                           \
    TWIN(X, cuMemAllocAsync, _ptsz, (ptr * out, size_t n, han stream), *out = fresh())                               \
    TWIN(X, cuMemAllocFromPoolAsync, _ptsz, (ptr * out, size_t n, han pool, han stream), *out = fresh())             \
    X(cuMemCreate, (ptr * out, size_t n, const void *properties, unsigned long long flags), *out = fresh())          \
    X(cuMemAllocHost_v2, (void **out, size_t n), *out = (void *)fresh())                                             \
    X(cuMemHostAlloc, (void **out, size_t n, u32 flags), *out = (void *)fresh())                                     \
    X(cuMemFree_v2, (ptr p), )                                                                                       \
    TWIN(X, cuMemFreeAsync, _ptsz, (ptr p, han stream), )                                                            \
    X(cuMemRelease, (ptr handle), )                                                                                  \
    X(cuMemFreeHost, (void *p), )                                                                                    \
    TWIN(X, cuMemcpyHtoD_v2, _ptds, HTOD, )                                                                          \
    TWIN(X, cuMemcpyDtoH_v2, _ptds, DTOH, )                                                                          \
    TWIN(X, cuMemcpyDtoD_v2, _ptds, DTOD, )                                                                          \
    TWIN(X, cuMemcpy, _ptds, DTOD, )                                                                                 \
    TWIN(X, cuMemcpyHtoDAsync_v2, _ptsz, HTOD_ASYNC, )                                                               \
    TWIN(X, cuMemcpyDtoHAsync_v2, _ptsz, DTOH_ASYNC, )                                                               \
    TWIN(X, cuMemcpyDtoDAsync_v2, _ptsz, DTOD_ASYNC, )                                                               \
    TWIN(X, cuMemcpyAsync, _ptsz, DTOD_ASYNC, )                                                                      \
    TWIN(X, cuMemcpyPeer, _ptds, PEER, )                                                                             \
    TWIN(X, cuMemcpyPeerAsync, _ptsz, PEER_ASYNC, )                                                                  \
    TWIN(X, cuMemsetD8_v2, _ptds, (ptr to, unsigned char value, size_t n), )                                         \
    TWIN(X, cuMemsetD16_v2, _ptds, (ptr to, unsigned short value, size_t n), )                                       \
    TWIN(X, cuMemsetD32_v2, _ptds, (ptr to, u32 value, size_t n), )                                                  \
    TWIN(X, cuMemsetD8Async, _ptsz, (ptr to, unsigned char value, size_t n, han stream), )                           \
    TWIN(X, cuMemsetD16Async, _ptsz, (ptr to, unsigned short value, size_t n, han stream), )                         \
    TWIN(X, cuMemsetD32Async, _ptsz, (ptr to, u32 value, size_t n, han stream), )                                    \
    TWIN(X, cuStreamSynchronize, _ptsz, (han stream), )                                                              \
    X(cuCtxSynchronize, (void), )                                                                                    \
    X(cuCtxSynchronize_v2, (han context), )                                                                          \
    X(cuEventSynchronize, (han event), )                                                                             \
    X(cuInit, (u32 flags), )                                                                                         \
    X(cuCtxCreate_v2, (han * out, u32 flags, int device), *out = (han)fresh())                                       \
    X(cuCtxCreate_v3, (han * out, void *affinity, int n, u32 flags, int device), *out = (han)fresh())                \
    X(cuCtxCreate_v4, (han * out, void *parameters, u32 flags, int device), *out = (han)fresh())                     \
    X(cuDevicePrimaryCtxRetain, (han * out, int device), *out = (han)(uintptr_t)(0x1000 + device))                   \
    X(cuCtxSetCurrent, (han context), )                                                                              \
    X(cuCtxPushCurrent_v2, (han context), )                                                                          \
    X(cuCtxPopCurrent_v2, (han * out), *out = NULL)                                                                  \
    X(cuCtxDestroy_v2, (han context), )                                                                              \
    X(cuDevicePrimaryCtxRelease_v2, (int device), )

#define DECLARE(name, prototype, body) int name prototype;
API(DECLARE)
void answer_with(int result); /* what every function returns to this thread from now on */
