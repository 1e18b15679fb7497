/* Between the two halves of libcuda's state. */
#ifndef GPUEMU_CUDA_CONTEXT_H
#define GPUEMU_CUDA_CONTEXT_H
#include "cuda_state.h"
#include <strings.h>
#include <unistd.h>

void process_enter(void);
void process_leave(void);
void memory_forget(void);                        /* after a fork, in the child */
void memory_free_all(struct context *context); /* holds the process lock */

#endif
