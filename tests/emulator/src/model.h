/* The device model that gpud, libcuda and libnvidia-ml share through one memory map.
 *
 * Nothing here runs in the background: a device is advanced to the present by whoever looks at it,
 * under its lock, so what a caller sees is exact at any instant and costs nothing while nobody looks.
 * All times are CLOCK_MONOTONIC nanoseconds, all amounts integers. */
#ifndef GPUEMU_MODEL_H
#define GPUEMU_MODEL_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define MODEL_MAGIC 0x314d45555047ull /* "GPUEM1" */
#define MODEL_SHM_VARIABLE "GPUEMU_SHM"

enum {
    MAX_DEVICES = 32,
    MAX_CLIENTS = 64,      /* processes with a context on one device at a time */
    QUEUE_CAPACITY = 1024, /* launches in flight before a launch blocks; a real driver stops at about 1,022 */
    UUID_BYTES = 16,
    NAME_BYTES = 64,
    PROFILE_BYTES = 16,
};

#define NS_PER_S 1000000000ull
#define DAEMON_LOST_NS (5 * NS_PER_S) /* gpud beats every 10 ms; five seconds without it means that it died */
#define SM_PARTS 1000ull              /* of a multiprocessor: what MPS gives a process is no whole number of them */
#define PPM 1000000ull                /* fractions of a launch are kept in parts per million */

/* How processes share a device. Under MPS they run at the same time, each on its part of the multiprocessors. */
enum scheduling { SCHED_EXCLUSIVE = 0, SCHED_TIME_SLICED = 1, SCHED_MPS = 2 };

/* What one launch asks of the device. */
struct work {
    uint64_t duration_ns;   /* device time when it runs alone */
    uint32_t sms;           /* multiprocessors that it keeps active */
    uint32_t occupancy_ppm; /* resident warps / possible warps, on those multiprocessors */
    uint32_t tensor_ppm;    /* share of its time in which the tensor pipe is active, on those multiprocessors */
    uint32_t dram_ppm;      /* share of its time in which the memory interface is active */
};

struct launch {
    uint64_t submitted_ns;
    uint64_t end_work_ns; /* value of client.done_ns at which this launch is finished */
    struct work work;
};

/* Cumulative integrals over time, of one process or of the device. */
struct integrals {
    uint64_t busy_ns;
    uint64_t sm_ns;        /* busy time x active multiprocessors */
    uint64_t warp_sm_ns;   /* sm_ns x occupancy */
    uint64_t tensor_sm_ns; /* sm_ns x tensor */
    uint64_t dram_ns;      /* busy_ns x dram */
};

enum client_state { CLIENT_FREE = 0, CLIENT_OPEN = 1, CLIENT_CLOSED = 2 /* its last truth is not yet written */ };

/* One process on one device: its memory and its queue. Streams share the queue, in order. */
struct client {
    int32_t pid;
    uint32_t state;
    uint64_t serial; /* unique over the life of the model; a pid may come back */
    uint64_t opened_ns, closed_ns;
    uint64_t memory_bytes;
    uint64_t head, tail;         /* launches finished and submitted since it opened */
    uint64_t queued_ns, done_ns; /* work submitted and done since it opened */
    uint64_t done_rest;          /* of a ns: see mps.c */
    uint32_t thread_percentage;  /* of the multiprocessors that it may use under MPS, 1 to 100 */
    struct integrals total;
    uint64_t sampled_busy_ns; /* total.busy_ns at the end of the last NVML sample */
    uint64_t sampled_dram_ns;
    uint32_t sm_util_percent, memory_util_percent;
    uint64_t sample_realtime_us;
    struct launch queue[QUEUE_CAPACITY];
};

struct device_spec {
    uint8_t uuid[UUID_BYTES];
    char name[NAME_BYTES];
    uint32_t index, sms, scheduling, compute_major, compute_minor, gpm;
    uint64_t memory_bytes, context_bytes, quantum_ns, switch_ns;
    uint64_t idle_power_mw, max_power_mw;
    uint32_t mig_parent; /* 1 + index of the GPU that this MIG instance lies on, 0 for a whole GPU */
    uint32_t gpu_instance, compute_instance, slices;
    uint32_t minor; /* 1 + number of its node, /dev/nvidiaN; 0: its index */
    uint32_t placement_start, placement_size; /* slots of its GPU; size 0: not told */
    char profile[PROFILE_BYTES];
};

struct device {
    struct device_spec spec;
    pthread_mutex_t lock;
    uint64_t now_ns, started_ns; /* the device is advanced up to now_ns */
    int32_t current;             /* client that holds the time slice, -1 for none */
    uint32_t clients_used;       /* clients[0 .. clients_used) were ever in use */
    uint64_t slice_left_ns, switch_left_ns;
    uint64_t memory_used_bytes;
    struct integrals total; /* busy_ns also counts context switches, which belong to no process */
    struct integrals sampled;
    uint64_t sampled_at_ns;
    uint32_t gpu_util_percent, memory_util_percent;
    uint64_t power_mw;
    uint64_t xid_count; /* errors so far, and the code of the last one */
    uint32_t xid;
    struct client clients[MAX_CLIENTS];
};

struct model {
    uint64_t magic;
    uint32_t device_count, stopped;
    uint64_t heartbeat_ns, next_serial;
    struct device devices[MAX_DEVICES];
};

uint64_t monotonic_ns(void);
void sleep_ns(uint64_t duration_ns);

struct model *model_create(const char *path);
struct model *model_open(void); /* NULL: no such model, or gpud has gone */
void model_close(struct model *model);
bool model_alive(const struct model *model);
void device_init(struct device *device, const struct device_spec *spec);

/* All below hold the device's lock. device_lock also advances the device to the present. */
void device_lock(struct device *device);
void device_unlock(struct device *device);
void device_advance(struct device *device, uint64_t until_ns);
struct client *client_open(struct model *model, struct device *device, pid_t pid, uint64_t now_ns);
void client_close(struct device *device, struct client *client, uint64_t now_ns);
bool client_reserve(struct device *device, struct client *client, uint64_t bytes);
void client_release(struct device *device, struct client *client, uint64_t bytes);
bool client_submit(struct client *client, const struct work *work, uint64_t now_ns);
bool client_runnable(struct client *client, uint64_t at_ns);
struct launch *client_first_launch(struct client *client);
void client_run(struct device *device, struct client *client, uint64_t span_ns, uint64_t sm_parts, uint64_t done_ns);
uint64_t device_next_arrival(struct device *device, uint64_t at_ns, uint64_t limit_ns);
uint64_t slice_step(struct device *device, uint64_t span_ns);
uint64_t mps_step(struct device *device, uint64_t span_ns);
uint32_t mps_thread_percentage(void);
uint64_t client_least_wait_ns(const struct device *device, const struct client *client, uint64_t target);
bool device_exclusive_taken(const struct device *device);
uint64_t device_power_mw(const struct device *device, uint64_t sm_ns, uint64_t span_ns);

#endif
