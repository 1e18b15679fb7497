/* The workload program: a CUDA user whose demand is known. */
#ifndef GPUEMU_WORKLOAD_H
#define GPUEMU_WORKLOAD_H
#include "kernel.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct options {
    const char *mode;
    int device;
    double seconds; /* 0: until it is told to stop; it does something once, however little the machine lets it run */
    uint64_t memory_bytes;
    uint64_t seed;
    double duration_us, jitter; /* of a launch; jitter is the standard deviation of its logarithm */
    unsigned burst;             /* launches in a row */
    double gap_us;              /* from the end of a burst to the next */
    double rate;                /* bursts a second */
    unsigned sync_every;        /* bursts between two synchronisations, 0: never */
    unsigned functions;         /* launches take turns among so many functions, all of one duration */
    unsigned launch_threads;
    unsigned sms;
    double occupancy, tensor, dram; /* 0..1 */
    unsigned rounds, host_threads;  /* of count */
    bool wait, via_proc_address;
    const char *sync;  /* how it learns that its work is done */
    unsigned streams;  /* launches take turns among so many, 0: the default stream */
    bool graph;        /* a burst is one launch of a graph */
};

struct tally { /* what a workload has done */
    uint64_t launches, work_ns, synchronisations, bytes_h2d, bytes_d2h;
};

/* The exported functions of libcuda.so.1 that the workload uses. */
int cuInit(unsigned flags);
int cuDeviceGet(int *device, int ordinal);
int cuDeviceGetCount(int *count);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuCtxSetCurrent(void *context);
int cuCtxPushCurrent_v2(void *context);
int cuCtxPopCurrent_v2(void **context);
int cuCtxSynchronize(void);
int cuMemAlloc_v2(unsigned long long *address, size_t bytes);
int cuMemAllocManaged(unsigned long long *address, size_t bytes, unsigned flags);
int cuMemAllocAsync(unsigned long long *address, size_t bytes, void *stream);
int cuMemAllocAsync_ptsz(unsigned long long *address, size_t bytes, void *stream);
int cuMemFree_v2(unsigned long long address);
int cuMemFreeAsync(unsigned long long address, void *stream);
int cuMemFreeAsync_ptsz(unsigned long long address, void *stream);
int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t bytes);
int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes);
int cuMemcpyDtoD_v2(unsigned long long to, unsigned long long from, size_t bytes);
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t bytes, void *stream);
int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t bytes, void *stream);
int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes, void *stream);
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **parameters, void **extra);
int cuLaunchKernel_ptsz(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, void *stream, void **parameters, void **extra);
int cuLaunchCooperativeKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                              unsigned bz, unsigned shared, void *stream, void **parameters);
int cuLaunchKernelEx(const void *config, void *function, void **parameters, void **extra);
int cuLaunchKernelEx_ptsz(const void *config, void *function, void **parameters, void **extra);
int cuStreamCreate(void **stream, unsigned flags);
int cuStreamDestroy_v2(void *stream);
int cuStreamSynchronize(void *stream);
int cuStreamQuery(void *stream);
int cuEventCreate(void **event, unsigned flags);
int cuEventRecord(void *event, void *stream);
int cuEventSynchronize(void *event);
int cuEventQuery(void *event);
int cuEventDestroy_v2(void *event);
int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status);

struct options options_parse(int argc, char **argv);
void check(int result, const char *call); /* ends the program with status 3 unless the call succeeded */
bool stopped(void);                       /* told to, out of time, or the parent has gone */
void worked(void);                        /* it has done what there is to do once: its time may run out */
double now_us(void);
struct kernel kernel_of(const struct options *options, double duration_us);
void run_mode(const struct options *options, unsigned long long memory, struct tally *tally);
void *next_stream(const struct options *options); /* NULL for the default stream */
void synchronise(const struct options *options, struct tally *tally);
bool known_sync(const char *name);
bool usable_graph(const struct options *options);
void launch_graph(const struct options *options, struct tally *tally);
int run_count(const struct options *options); /* exit status */
int run_variants(const struct options *options);
bool known_mode(const char *mode);

#endif
