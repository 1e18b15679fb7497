/* A libcuda.so.1 that exports every probed function and does nothing but return what it was told to. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "api.h"

static __thread int result;
static ptr last = 0x7f0000000000ull;

static ptr fresh(void)
{
    return __sync_add_and_fetch(&last, 0x10000000ull);
}

static void fill(unsigned char *uuid, int first)
{
    for (int i = 0; i < 16; i++)
        uuid[i] = (unsigned char)(first + i);
}

void answer_with(int value)
{
    result = value;
}

#define DEFINE(name, prototype, body)                                                                                \
    __attribute__((noinline)) int name prototype                                                                     \
    {                                                                                                                \
        if (!result) {                                                                                               \
            body;                                                                                                    \
        }                                                                                                            \
        return result;                                                                                               \
    }
API(DEFINE)
