/* What the parts of gpud share. */
#ifndef GPUEMU_GPUD_H
#define GPUEMU_GPUD_H
#include "model.h"

extern uint64_t boot_minus_monotonic_ns; /* CLOCK_BOOTTIME - CLOCK_MONOTONIC, as of this tick */

void fail(const char *what, const char *detail); /* ends gpud with status 2 */
void add_device(struct model *model, char *text); /* "field=value;field=value"; text is cut up */

void truth_open(const char *path);
void truth_add(uint32_t device, int32_t pid, uint64_t serial, uint32_t event, uint64_t at_ns,
               const struct integrals *total, uint64_t memory_bytes);
void truth_flush(void);

#endif
