/* bursts ROUNDS: says that it waits, and at a line it launches many times from one place, then synchronises. */
#include "api.h"

#include <stdio.h>
#include <stdlib.h>

enum { LAUNCHES = 64 };

int main(int count, char **arguments)
{
    int rounds = count > 1 ? atoi(arguments[1]) : 1;
    han context;
    cuInit(0);
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxSetCurrent(context);
    puts("waiting");
    fflush(stdout);
    getchar();
    for (int i = 0; i < rounds; i++) {
        for (int launch = 0; launch < LAUNCHES; launch++)
            cuLaunchKernel(NULL, 2, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
        cuStreamSynchronize(NULL);
    }
    return 0;
}
