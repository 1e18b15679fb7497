#include <setjmp.h>

extern jmp_buf out; /* where cuEventSynchronize jumps to when it is given an event */
int cuStreamSynchronize(void *stream);
int cuCtxSynchronize(void);
int cuEventSynchronize(void *event);
