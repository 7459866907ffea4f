/* A library whose constructor uses locks, which may run before that of the preloaded library; its program is /bin/true or
 * any other. */
#define _GNU_SOURCE
#include "show.h"

static pthread_mutex_t m = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
static int ready;

static void *other(void *unused)
{
    (void)unused;
    DO(pthread_mutex_lock(&m));
    ready = 1;
    DO(pthread_cond_signal(&c));
    DO(pthread_mutex_unlock(&m));
    return 0;
}

__attribute__((constructor)) static void begin(void)
{
    pthread_t t;
    DO(pthread_mutex_lock(&m));
    DO(pthread_create(&t, 0, other, 0));
    while (!ready)
        DO(pthread_cond_wait(&c, &m));
    DO(pthread_mutex_lock(&m) != EDEADLK);
    DO(pthread_mutex_unlock(&m));
    DO(pthread_join(t, 0));
    DO(pthread_rwlock_wrlock(&l));
    DO(pthread_rwlock_rdlock(&l) != EDEADLK);
    DO(pthread_rwlock_unlock(&l));
    if (write(1, "early\n", 6) != 6)
        _exit(1);
}
