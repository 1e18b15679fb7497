/* jumps: 23 calls with two inside each, then 7 that jump out one after the other, then 1 that returns and one
 * of another function. */
#include "nested.h"

int main(void)
{
    for (int i = 0; i < 23; i++)
        cuCtxSynchronize();
    for (volatile int i = 0; i < 7; i++)
        if (!setjmp(out))
            cuEventSynchronize((void *)1);
    cuEventSynchronize((void *)0);
    return cuStreamSynchronize((void *)0);
}
