/* Libraries that are loaded while threads run, by a library that alone knows where they are. With -DLIBRARY=1 this is the library
   with the variables, which the program's threads share nothing of; with -DLIBRARY=2 the one that loads it. */
#define _GNU_SOURCE
#include "check.h"

#if LIBRARY == 1

static __thread long small = 42, large[40] = {1, 2, 3};

/* How often the calling thread has called this; a negative number if it finds anybody else's variables. */
long count_call(void);
long count_call(void) {
    long calls = small - 42;
    for (int i = 3; i < 40; i++)
        if (large[i] != calls)
            return -i;
    for (int i = 3; i < 40; i++)
        large[i]++;
    small++;
    return calls;
}

#elif LIBRARY == 2

#include <dlfcn.h>

void *load(long (**count_call)(void));
void *load(long (**count_call)(void)) {
    /* In a folder that only this library's run path names. */
    void *library = dlopen("libcounts.so", RTLD_NOW);
    if (library)
        *count_call = (long (*)(void))dlsym(library, "count_call");
    return library;
}

#else

#include <dlfcn.h>
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 20 };

void *load(long (**count_call)(void));

static volatile int stop;
static pthread_barrier_t loaded, used;
static long (*volatile count_call)(void);

static void count(void) {
    for (long i = 0; i < 50; i++) {
        EXPECT(count_call() == i);
        spin(200);
    }
}

static void *from_the_start(void *unused) {
    (void)unused;
    for (;;) {
        pthread_barrier_wait(&loaded);
        if (stop)
            return NULL;
        count();
        pthread_barrier_wait(&used);
    }
}

static void *started_later(void *unused) {
    (void)unused;
    count();
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS], later[2];
    pthread_barrier_init(&loaded, NULL, THREADS + 1);
    pthread_barrier_init(&used, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, from_the_start, NULL) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        long (*function)(void) = NULL;
        void *library = load(&function);
        EXPECT(library && function);
        count_call = function;
        pthread_barrier_wait(&loaded);
        for (int i = 0; i < 2; i++)
            EXPECT(pthread_create(&later[i], NULL, started_later, NULL) == 0);
        count();
        for (int i = 0; i < 2; i++)
            EXPECT(pthread_join(later[i], NULL) == 0);
        pthread_barrier_wait(&used);
        EXPECT(dlclose(library) == 0);
    }
    stop = 1;
    pthread_barrier_wait(&loaded);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    puts("loading: ok");
    return 0;
}

#endif
