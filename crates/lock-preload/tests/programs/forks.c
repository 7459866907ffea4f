/* A process forks while its threads use a lock, and wait for it. As POSIX has it, handlers hold the lock during the fork.
 * The child goes on with it, with threads of its own. */
#define _GNU_SOURCE
#include "show.h"
#include <sys/wait.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static volatile long a, b, stop;

static void take(void) { DO(pthread_mutex_lock(&m)); }
static void give(void) { DO(pthread_mutex_unlock(&m)); }

static void change(void)
{
    take();
    if (a != b)
        _exit(3);
    a++;
    b++;
    give();
}

static void *until_stopped(void *unused)
{
    (void)unused;
    while (!stop)
        change();
    return 0;
}

static void *thousand(void *unused)
{
    (void)unused;
    for (int i = 0; i < 1000; i++)
        change();
    return 0;
}

static void in_child(void)
{
    pthread_t t[3];
    long before = a;
    for (int i = 0; i < 3; i++)
        DO(pthread_create(&t[i], 0, thousand, 0));
    for (int i = 0; i < 3; i++)
        DO(pthread_join(t[i], 0));
    _exit(a == before + 3000 && b == a ? 0 : 4);
}

int main(void)
{
    pthread_t t[4];
    DO(pthread_atfork(take, give, give));
    for (int i = 0; i < 4; i++)
        DO(pthread_create(&t[i], 0, until_stopped, 0));
    int right = 0;
    for (int i = 0; i < 100; i++) {
        pid_t child = fork();
        if (!child)
            in_child();
        int status = -1;
        DO(waitpid(child, &status, 0) != child);
        if (status)
            printf("a child ended with %#x\n", status);
        right += status == 0;
    }
    stop = 1;
    for (int i = 0; i < 4; i++)
        DO(pthread_join(t[i], 0));
    printf("%d children\n", right);
    return 0;
}
