/* What a launch asks for, handed over in kernelParams[0] (there is no code to run and to time).
 *
 * A launch whose first parameter is no such block, or that has none, takes KERNEL_DEFAULT_NS. */
#ifndef GPUEMU_KERNEL_H
#define GPUEMU_KERNEL_H
#include <stdint.h>

#define KERNEL_MAGIC 0x4c4e524bu   /* "KRNL" */
#define KERNEL_DEFAULT_NS 10000ull /* a small kernel */

struct kernel {
    uint32_t magic;
    uint32_t sms;           /* 0: as many as there are blocks, at most all */
    uint64_t duration_ns;
    uint32_t occupancy_ppm; /* 0: from blocks, block size and multiprocessors */
    uint32_t tensor_ppm, dram_ppm;
    uint32_t reserved;
};
#endif
