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

#define ROWS_ASYNC(type) (ptr to, size_t pitch, type value, size_t width, size_t height, han stream)
#define REGION (const void *region)
#define REGION_ASYNC (const void *region, han stream)
#define BATCH                                                                                                        \
    ptr *to, ptr *from, size_t *sizes, size_t n, void *attributes, size_t *indices, size_t attribute_count

#define PREFETCH_BATCH                                                                                               \
    ptr *p, size_t *sizes, size_t n, void *places, size_t *indices, size_t count, unsigned long long flags, han stream
#define CAPTURE_INTO (han stream, han graph, const han *after, const void *edges, size_t n, int mode)
#define SEMAPHORES (const han *list, const void *parameters, u32 n, han stream)

struct location { /* CUmemLocation */
    int type, id;
};

#define TWIN(X, name, suffix, prototype, body) X(name, prototype, body) X(name##suffix, prototype, body)

#define API(X)                                                                                                       \
    TWIN(X, cuLaunchKernel, _ptsz, LAUNCH, )                                                                         \
    TWIN(X, cuLaunchKernelEx, _ptsz, (const void *config, han f, void **p, void **e), )                              \
    TWIN(X, cuLaunchCooperativeKernel, _ptsz, COOPERATIVE, )                                                         \
    TWIN(X, cuGraphLaunch, _ptsz, (han graph, han stream), )                                                         \
    TWIN(X, cuLaunchHostFunc, _ptsz, (han stream, void (*f)(void *), void *data), )                                  \
    X(cuLaunchCooperativeKernelMultiDevice, (const void *list, u32 n, u32 flags), )                                  \
    X(cuLaunch, (han f), )                                                                                           \
    X(cuLaunchGrid, (han f, int width, int height), )                                                                \
    X(cuLaunchGridAsync, (han f, int width, int height, han stream), )                                               \
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
    X(cuMemRetainAllocationHandle, (ptr * out, void *address), *out = (ptr)address)                                  \
    X(cuMemRelease, (ptr handle), )                                                                                  \
    X(cuMemMap, (ptr p, size_t n, size_t offset, ptr handle, unsigned long long flags), )                            \
    X(cuMemUnmap, (ptr p, size_t n), )                                                                               \
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
    TWIN(X, cuMemsetD2D8_v2, _ptds, (ptr to, size_t pitch, unsigned char value, size_t width, size_t height), )      \
    TWIN(X, cuMemsetD2D16_v2, _ptds, (ptr to, size_t pitch, unsigned short value, size_t width, size_t height), )    \
    TWIN(X, cuMemsetD2D32_v2, _ptds, (ptr to, size_t pitch, u32 value, size_t width, size_t height), )               \
    TWIN(X, cuMemsetD2D8Async, _ptsz, ROWS_ASYNC(unsigned char), )                                                   \
    TWIN(X, cuMemsetD2D16Async, _ptsz, ROWS_ASYNC(unsigned short), )                                                 \
    TWIN(X, cuMemsetD2D32Async, _ptsz, ROWS_ASYNC(u32), )                                                            \
    TWIN(X, cuMemPrefetchAsync, _ptsz, (ptr p, size_t n, int device, han stream), )                                  \
    TWIN(X, cuMemPrefetchAsync_v2, _ptsz, (ptr p, size_t n, struct location to, u32 flags, han stream), )            \
    TWIN(X, cuMemcpyHtoA_v2, _ptds, (han to, size_t offset, const void *from, size_t n), )                           \
    TWIN(X, cuMemcpyAtoH_v2, _ptds, (void *to, han from, size_t offset, size_t n), )                                 \
    TWIN(X, cuMemcpyDtoA_v2, _ptds, (han to, size_t offset, ptr from, size_t n), )                                   \
    TWIN(X, cuMemcpyAtoD_v2, _ptds, (ptr to, han from, size_t offset, size_t n), )                                   \
    TWIN(X, cuMemcpyAtoA_v2, _ptds, (han to, size_t offset, han from, size_t at, size_t n), )                        \
    TWIN(X, cuMemcpyHtoAAsync_v2, _ptsz, (han to, size_t offset, const void *from, size_t n, han stream), )          \
    TWIN(X, cuMemcpyAtoHAsync_v2, _ptsz, (void *to, han from, size_t offset, size_t n, han stream), )                \
    TWIN(X, cuMemcpy2D_v2, _ptds, REGION, )                                                                          \
    TWIN(X, cuMemcpy2DUnaligned_v2, _ptds, REGION, )                                                                 \
    TWIN(X, cuMemcpy3D_v2, _ptds, REGION, )                                                                          \
    TWIN(X, cuMemcpy3DPeer, _ptds, REGION, )                                                                         \
    TWIN(X, cuMemcpy2DAsync_v2, _ptsz, REGION_ASYNC, )                                                               \
    TWIN(X, cuMemcpy3DAsync_v2, _ptsz, REGION_ASYNC, )                                                               \
    TWIN(X, cuMemcpy3DPeerAsync, _ptsz, REGION_ASYNC, )                                                              \
    TWIN(X, cuMemcpyBatchAsync, _ptsz, (BATCH, size_t * failed, han stream), )                                       \
    TWIN(X, cuMemcpyBatchAsync_v2, _ptsz, (BATCH, han stream), )                                                     \
    TWIN(X, cuMemcpy3DBatchAsync, _ptsz, (size_t n, void *list, size_t *failed, unsigned long long flags, han stream), ) \
    TWIN(X, cuMemcpy3DBatchAsync_v2, _ptsz, (size_t n, void *list, unsigned long long flags, han stream), )          \
    TWIN(X, cuStreamSynchronize, _ptsz, (han stream), )                                                              \
    X(cuCtxSynchronize, (void), )                                                                                    \
    X(cuCtxSynchronize_v2, (han context), )                                                                          \
    X(cuEventSynchronize, (han event), )                                                                             \
    TWIN(X, cuStreamQuery, _ptsz, (han stream), )                                                                    \
    X(cuEventQuery, (han event), )                                                                                   \
    TWIN(X, cuEventRecord, _ptsz, (han event, han stream), )                                                         \
    TWIN(X, cuEventRecordWithFlags, _ptsz, (han event, han stream, u32 flags), )                                     \
    TWIN(X, cuStreamWaitEvent, _ptsz, (han stream, han event, u32 flags), )                                          \
    TWIN(X, cuGraphUpload, _ptsz, (han graph, han stream), )                                                         \
    TWIN(X, cuLaunchHostFunc_v2, _ptsz, (han stream, void (*f)(void *), void *data, u32 mode), )                     \
    TWIN(X, cuStreamAddCallback, _ptsz, (han stream, void (*f)(void *), void *data, u32 flags), )                    \
    TWIN(X, cuMemcpyWithAttributesAsync, _ptsz, (ptr to, ptr from, size_t n, void *attributes, han stream), )        \
    TWIN(X, cuMemcpy3DWithAttributesAsync, _ptsz, (void *one, unsigned long long flags, han stream), )               \
    TWIN(X, cuMemPrefetchBatchAsync, _ptsz, (PREFETCH_BATCH), )                                                      \
    TWIN(X, cuMemDiscardAndPrefetchBatchAsync, _ptsz, (PREFETCH_BATCH), )                                            \
    TWIN(X, cuMemDiscardBatchAsync, _ptsz, (ptr *p, size_t *sizes, size_t n, unsigned long long flags, han stream), ) \
    TWIN(X, cuMemBatchDecompressAsync, _ptsz, (void *list, size_t n, u32 flags, size_t *failed, han stream), )       \
    TWIN(X, cuFabricCpyBatchAsync, _ptsz, (size_t n, void *list, unsigned long long flags, han stream), )            \
    TWIN(X, cuMemMapArrayAsync, _ptsz, (void *list, u32 n, han stream), )                                            \
    TWIN(X, cuStreamBatchMemOp, _ptsz, (han stream, u32 n, void *list, u32 flags), )                                 \
    TWIN(X, cuStreamBatchMemOp_v2, _ptsz, (han stream, u32 n, void *list, u32 flags), )                              \
    TWIN(X, cuStreamWriteValue32, _ptsz, (han stream, ptr p, uint32_t value, u32 flags), )                           \
    TWIN(X, cuStreamWriteValue32_v2, _ptsz, (han stream, ptr p, uint32_t value, u32 flags), )                        \
    TWIN(X, cuStreamWriteValue64, _ptsz, (han stream, ptr p, uint64_t value, u32 flags), )                           \
    TWIN(X, cuStreamWriteValue64_v2, _ptsz, (han stream, ptr p, uint64_t value, u32 flags), )                        \
    TWIN(X, cuStreamWaitValue32, _ptsz, (han stream, ptr p, uint32_t value, u32 flags), )                            \
    TWIN(X, cuStreamWaitValue32_v2, _ptsz, (han stream, ptr p, uint32_t value, u32 flags), )                         \
    TWIN(X, cuStreamWaitValue64, _ptsz, (han stream, ptr p, uint64_t value, u32 flags), )                            \
    TWIN(X, cuStreamWaitValue64_v2, _ptsz, (han stream, ptr p, uint64_t value, u32 flags), )                         \
    TWIN(X, cuSignalExternalSemaphoresAsync, _ptsz, SEMAPHORES, )                                                    \
    TWIN(X, cuWaitExternalSemaphoresAsync, _ptsz, SEMAPHORES, )                                                      \
    TWIN(X, cuStreamBeginCapture, _ptsz, (han stream), )                                                             \
    TWIN(X, cuStreamBeginCapture_v2, _ptsz, (han stream, int mode), )                                                \
    TWIN(X, cuStreamBeginCaptureToGraph, _ptsz, CAPTURE_INTO, )                                                      \
    X(cuStreamBeginCaptureToCig, (han stream, void *parameters), )                                                   \
    X(cuStreamBeginRecaptureToGraph, (han stream, int mode, han graph, void *f, void *data), )                       \
    TWIN(X, cuStreamEndCapture, _ptsz, (han stream, han * graph), )                                                  \
    X(cuStreamEndCaptureToCig, (han stream), )                                                                       \
    X(cuStreamDestroy_v2, (han stream), )                                                                            \
    X(cuCtxRecordEvent, (han context, han event), )                                                                  \
    X(cuCtxWaitEvent, (han context, han event), )                                                                    \
    X(cuGreenCtxRecordEvent, (han context, han event), )                                                             \
    X(cuGreenCtxWaitEvent, (han context, han event), )                                                               \
    X(cuDeviceGetUuid, (unsigned char *uuid, int device), fill(uuid, device))                                        \
    X(cuDeviceGetUuid_v2, (unsigned char *uuid, int device), fill(uuid, 16 * device))                                \
    X(cuInit, (u32 flags), )                                                                                         \
    X(cuCtxCreate_v2, (han * out, u32 flags, int device), *out = (han)fresh())                                       \
    X(cuCtxCreate_v3, (han * out, void *affinity, int n, u32 flags, int device), *out = (han)fresh())                \
    X(cuCtxCreate_v4, (han * out, void *parameters, u32 flags, int device), *out = (han)fresh())                     \
    X(cuGreenCtxCreate, (han * out, void *resources, int device, u32 flags), *out = (han)fresh())                    \
    X(cuCtxFromGreenCtx, (han * out, han green), *out = (han)((uintptr_t)green + 64))                                \
    X(cuGreenCtxDestroy, (han green), )                                                                              \
    X(cuDevicePrimaryCtxRetain, (han * out, int device), *out = (han)(uintptr_t)(0x1000 + device))                   \
    X(cuCtxSetCurrent, (han context), )                                                                              \
    X(cuCtxPushCurrent_v2, (han context), )                                                                          \
    X(cuCtxPopCurrent_v2, (han * out), *out = NULL)                                                                  \
    X(cuCtxDestroy_v2, (han context), )                                                                              \
    X(cuDevicePrimaryCtxRelease, (int device), )                                                                     \
    X(cuDevicePrimaryCtxReset, (int device), )                                                                       \
    X(cuDevicePrimaryCtxReset_v2, (int device), )                                                                    \
    X(cuDevicePrimaryCtxRelease_v2, (int device), )

#define DECLARE(name, prototype, body) int name prototype;
API(DECLARE)
void answer_with(int result); /* what every function returns to this thread from now on */
