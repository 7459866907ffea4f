/* OpenMP's runtime, loaded when threads run already. It waits by system calls of its own. */
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 1000 };

static void (*barrier)(void);
static int come, running, stop;

static void *runs(void *p) {
    __atomic_store_n(&running, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        struct timespec ms = {0, 1000000};
        nanosleep(&ms, NULL);
    }
    return p;
}

/* Nobody leaves a barrier before all have come. */
static void meets(void *p) {
    (void)p;
    for (int i = 0; i < ROUNDS; i++) {
        __atomic_fetch_add(&come, 1, __ATOMIC_RELAXED);
        barrier();
        EXPECT(__atomic_load_n(&come, __ATOMIC_RELAXED) >= (i + 1) * THREADS);
    }
}

int main(void) {
    pthread_t t;
    EXPECT(pthread_create(&t, NULL, runs, NULL) == 0);
    while (!__atomic_load_n(&running, __ATOMIC_ACQUIRE))
        spin(1000);
    void *library = dlopen("libgomp.so.1", RTLD_NOW);
    if (library) {
        void (*parallel)(void (*)(void *), void *, unsigned, unsigned);
        *(void **)&parallel = dlsym(library, "GOMP_parallel");
        *(void **)&barrier = dlsym(library, "GOMP_barrier");
        EXPECT(parallel && barrier);
        parallel(meets, NULL, THREADS, 0);
        EXPECT(come == THREADS * ROUNDS);
    } else {
        printf("no libgomp.so.1: %s\n", dlerror());
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    EXPECT(pthread_join(t, NULL) == 0);
    return 0;
}
