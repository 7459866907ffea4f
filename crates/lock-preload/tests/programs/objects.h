/* What the programs need that try each call on each kind of object. */
#ifndef OBJECTS_H
#define OBJECTS_H

#include "show.h"
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <threads.h>

/* A time that comes in 5 ms. */
static inline const struct timespec *soon(clockid_t clock)
{
    static __thread struct timespec t;
    t = in_ms(clock, 5);
    return &t;
}

#endif
