/* A libcuda.so.1 whose functions call each other, and one that leaves by a jump instead of a return. */
#include <setjmp.h>

#include "nested.h"

jmp_buf out;

__attribute__((noinline)) int cuStreamSynchronize(void *stream)
{
    return stream != 0;
}

__attribute__((noinline)) int cuCtxSynchronize(void)
{
    return cuStreamSynchronize(0) + cuStreamSynchronize((void *)1);
}

__attribute__((noinline)) int cuEventSynchronize(void *event)
{
    if (event)
        longjmp(out, 1);
    return 0;
}
