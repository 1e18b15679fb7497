/* What libcuda keeps of the process it lives in: visible devices, contexts, allocations. No exported names. */
#ifndef GPUEMU_CUDA_STATE_H
#define GPUEMU_CUDA_STATE_H
#include "model.h"
#include <stddef.h>

#define PCIE_BYTES_PER_S 12000000000ull /* between host and device */

enum cuda_result {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_ILLEGAL_STATE = 401,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
    CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
    CUDA_ERROR_CAPTURED_EVENT = 907,
    CUDA_ERROR_UNKNOWN = 999, /* gpud has gone */
};

struct context {
    int ordinal; /* as this process sees it */
    struct device *device;
    struct client *client; /* shared by all contexts of this process on the device */
    uint64_t client_serial;
    bool alive, primary;
    int references; /* of a primary context */
    struct context *primary_kept; /* of a green one: where its memory is, and what it releases in the end */
};

enum memory_kind { MEMORY_DEVICE, MEMORY_MANAGED };

int state_init(void);
int state_device_count(int *count);
int state_device(int ordinal, struct device **device);

int context_retain_primary(int ordinal, struct context **context);
int context_release_primary(int ordinal);
int context_reset_primary(int ordinal); /* who retained it still has it */
int context_make(int ordinal, struct context **context); /* current nowhere */
int context_create(int ordinal, struct context **context);
int context_destroy(struct context *context);
int context_set_current(struct context *context);
int context_push(struct context *context);
int context_pop(struct context **context);
struct context *context_current(void);
int context_check(struct context *context); /* initialised, alive, not lost */

int memory_allocate(enum memory_kind kind, uint64_t bytes, uint64_t *address);
int memory_free(uint64_t address, bool synchronise);
int memory_retain(uint64_t address); /* one more handle of it, to be freed too */
int memory_check(uint64_t address, uint64_t bytes); /* that it lies inside one allocation */
int memory_info(uint64_t *free_bytes, uint64_t *total_bytes);

int launch(const void *function, uint64_t blocks, uint64_t block_threads, void *stream, void **parameters);
int copy_wait(uint64_t bytes, bool wait_for_launches);              /* a copy that blocks */
int copy_start(uint64_t bytes, uint64_t bytes_per_s, void *stream); /* one that does not */
int wait_all(void);
int stream_create(void **stream);
int stream_destroy(void *stream);
int stream_wait(void *stream);
int stream_query(void *stream);
int event_create(void **event);
int event_destroy(void *event);
int event_record(void *event, void *stream);
int event_wait(void *event);
int event_query(void *event);

struct graph;
struct graph *graph_new(void);
bool stream_is_captured(void *stream);
int capture_begin(void *stream, struct graph *graph);
int capture_end(void *stream, struct graph **graph);
int memory_allocate_on(void *stream, uint64_t bytes, uint64_t *address);
int stream_wait_event(void *stream, void *event);

#endif
