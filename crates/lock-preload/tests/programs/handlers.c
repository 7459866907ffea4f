/* Handlers of signals use a lock of their own, wherever they interrupt threads that use another: undefined in POSIX, and
 * done. Counts must be exact. */
#define _GNU_SOURCE
#include "show.h"
#include <signal.h>

enum { THREADS = 4, ROUNDS = 20000 };

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER, of_handlers = PTHREAD_MUTEX_INITIALIZER;
static volatile long count, handled, of_each[THREADS], ended;
static __thread long me;

static void handler(int unused)
{
    (void)unused;
    int before = errno;
    DO(pthread_mutex_lock(&of_handlers));
    handled++;
    of_each[me]++;
    DO(pthread_mutex_unlock(&of_handlers));
    errno = before;
}

static void *work(void *mine)
{
    me = (long)mine;
    for (int i = 0; i < ROUNDS; i++) {
        DO(pthread_mutex_lock(&m));
        count++;
        DO(pthread_mutex_unlock(&m));
    }
    /* It may get signals until it is joined. */
    DO(pthread_mutex_lock(&m));
    ended++;
    DO(pthread_mutex_unlock(&m));
    while (ended <= THREADS)
        sched_yield();
    return 0;
}

int main(void)
{
    pthread_t t[THREADS];
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    DO(sigaction(SIGUSR1, &action, 0));
    for (long i = 0; i < THREADS; i++)
        DO(pthread_create(&t[i], 0, work, (void *)i));
    while (ended < THREADS)
        for (int i = 0; i < THREADS; i++)
            DO(pthread_kill(t[i], SIGUSR1));
    ended = THREADS + 1;
    long sum = 0;
    for (int i = 0; i < THREADS; i++)
        DO(pthread_join(t[i], 0));
    for (int i = 0; i < THREADS; i++)
        sum += of_each[i];
    printf("%ld %d\n", count, handled > 0 && sum == handled);
    return 0;
}
