/* Recursion: calls, returns and branches that depend on data; no memory but the stack. */
#include "start.h"

#ifndef SIZE
#define SIZE 25
#endif

__attribute__((noinline)) static unsigned long fib(unsigned n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

static int run(void) {
    say("fib", fib(SIZE));
    return 0;
}
