/* A thread loads a library whose constructor waits for a mutex. Its holder uses, for the first time, an object that is
 * shared between processes: that must not wait for the loader. As a program: loading LIBRARY.SO, which is this file, too. */
#define _GNU_SOURCE
#include "show.h"
#include <dlfcn.h>
#include <stdatomic.h>

struct shared {
    pthread_mutex_t m, between_processes;
    atomic_int held, loading;
};

#define VARIABLE "LOADING_AT"

/* In the program itself there is nothing to do: the variable is not set yet. */
__attribute__((constructor)) static void begin(void)
{
    void *at = 0;
    if (!getenv(VARIABLE) || sscanf(getenv(VARIABLE), "%p", &at) != 1)
        return;
    struct shared *s = at;
    s->loading = 1;
    DO(pthread_mutex_lock(&s->m));
    DO(pthread_mutex_unlock(&s->m));
}

static void *hold(void *at)
{
    struct shared *s = at;
    DO(pthread_mutex_lock(&s->m));
    s->held = 1;
    while (!s->loading)
        nap(1);
    DO(pthread_mutex_lock(&s->between_processes));
    DO(pthread_mutex_unlock(&s->between_processes));
    DO(pthread_mutex_unlock(&s->m));
    return 0;
}

int main(int argc, char **argv)
{
    static struct shared s = {.m = PTHREAD_MUTEX_INITIALIZER};
    char text[32];
    pthread_t t;
    pthread_mutexattr_t a;
    DO(pthread_mutexattr_init(&a));
    DO(pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED));
    DO(pthread_mutex_init(&s.between_processes, &a));
    DO(pthread_create(&t, 0, hold, &s));
    while (!s.held)
        nap(1);
    snprintf(text, sizeof text, "%p", (void *)&s);
    DO(setenv(VARIABLE, text, 1));
    alarm(20); /* rather than to wait for ever */
    if (!dlopen(argc > 1 ? argv[1] : "", RTLD_NOW)) {
        printf("%s\n", dlerror());
        return 1;
    }
    DO(pthread_join(t, 0));
    printf("loaded\n");
    return 0;
}
