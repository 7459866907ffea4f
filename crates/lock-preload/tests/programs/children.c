/* The child of a fork frees what its parent's thread has taken, as handlers of forks do, and then computes for so many
 * milliseconds on a CPU that it shares with another thread: it is preempted, and holds nothing. */
#define _GNU_SOURCE
#include "show.h"
#include <sched.h>
#include <sys/wait.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t s;

static void take(void)
{
    DO(pthread_mutex_lock(&m));
    DO(pthread_rwlock_rdlock(&l));
    DO(pthread_spin_lock(&s));
}

static void give(void)
{
    DO(pthread_spin_unlock(&s));
    DO(pthread_rwlock_unlock(&l));
    DO(pthread_mutex_unlock(&m));
}

static long end;

static void *compute(void *unused)
{
    for (struct timespec now = {0, 0}; now.tv_sec * 1000 + now.tv_nsec / 1000000 < end; now = in_ms(CLOCK_MONOTONIC, 0))
        ;
    return unused;
}

int main(int argc, char **argv)
{
    struct timespec until = in_ms(CLOCK_MONOTONIC, argc > 1 ? atol(argv[1]) : 100);
    end = until.tv_sec * 1000 + until.tv_nsec / 1000000;
    cpu_set_t cpu;
    CPU_ZERO(&cpu);
    CPU_SET(sched_getcpu(), &cpu);
    DO(pthread_spin_init(&s, 0));
    DO(pthread_atfork(take, give, give));
    pid_t child = fork();
    if (!child) {
        pthread_t t;
        DO(sched_setaffinity(0, sizeof cpu, &cpu));
        DO(pthread_create(&t, 0, compute, 0));
        compute(0);
        DO(pthread_join(t, 0));
        _exit(0);
    }
    int status = -1;
    DO(waitpid(child, &status, 0) != child);
    printf("%d\n", status);
    return 0;
}
