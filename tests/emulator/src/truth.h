/* The truth file: fixed records, appended by gpud alone, read by tests/emulator/truth.py alone. */
#ifndef GPUEMU_TRUTH_H
#define GPUEMU_TRUTH_H
#include <stdint.h>

enum truth_event { TRUTH_TICK = 0, TRUTH_OPENED = 1, TRUTH_CLOSED = 2 };

struct truth_record {
    uint64_t monotonic_ns, boot_ns;
    uint64_t serial; /* of the process's stay on the device; 0 is the device itself */
    uint64_t busy_ns, sm_ns, memory_bytes; /* the first two cumulative since it opened */
    uint32_t device;
    int32_t pid;
    uint32_t event, reserved;
};

_Static_assert(sizeof(struct truth_record) == 64, "truth.py reads records of 64 bytes");
#endif
