/* What the test programs of the shim share. They are plain POSIX programs and run without the shim as well. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s does not hold (errno %d: %s)\n", __FILE__, __LINE__, #condition, errno,         \
                    strerror(errno));                                                                                  \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* As the tests run programs: with these options. */
static inline int on_user_threads(void) { return getenv("QUAVER_WORKERS") || getenv("QUAVER_SHARE"); }

static inline void spin(long n) {
    for (volatile long i = 0; i < n; i = i + 1) {
    }
}

/* The moment so many milliseconds from now. */
static inline struct timespec in_ms(clockid_t clock, long ms) {
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_nsec += ms % 1000 * 1000000;
    t.tv_sec += ms / 1000 + t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

#endif
