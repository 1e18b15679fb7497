/* late PATH ROUNDS: says "ready", waits for a line, loads the library, says "loaded", waits, calls cuInit
 * ROUNDS times. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void say_and_wait(const char *word)
{
    puts(word);
    fflush(stdout);
    getchar();
}

int main(int count, char **arguments)
{
    if (count < 3)
        return 2;
    say_and_wait("ready");
    void *library = dlopen(arguments[1], RTLD_NOW);
    int (*init)(unsigned) = library ? (int (*)(unsigned))dlsym(library, "cuInit") : NULL;
    if (!init)
        return 1;
    say_and_wait("loaded");
    for (int i = 0; i < atoi(arguments[2]); i++)
        init(0);
    return 0;
}
