/* What is blocked and pending when a program becomes another one, by exec of its main thread and of another. */
#define _GNU_SOURCE
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUEUED (SIGRTMIN + 1)

static char *burners, child_[16];
static sigset_t set;

static void *burn(void *p) {
    for (;;) {
        free(malloc(100));
        spin(100);
    }
    return p;
}

static void expect_set(const sigset_t *seen) {
    for (int n = 1; n < SIGRTMIN + 4; n++)
        EXPECT(n == 32 || n == 33 || sigismember(seen, n) == sigismember(&set, n));
}

static void take(int n, int code, int value, pid_t sender) {
    siginfo_t info;
    sigset_t one;
    struct timespec none = {0, 0};
    sigemptyset(&one);
    sigaddset(&one, n);
    EXPECT(sigtimedwait(&one, &info, &none) == n && info.si_code == code && info.si_pid == sender);
    EXPECT(code != SI_QUEUE || info.si_value.sival_int == value);
}

static void *take_usr2(void *p) {
    take(SIGUSR2, SI_USER, 0, getpid());
    return p;
}

/* What the image before this one has left. */
static void check_inherited(pid_t child) {
    sigset_t seen;
    pthread_t t;
    struct timespec none = {0, 0};
    EXPECT(sigprocmask(SIG_BLOCK, NULL, &seen) == 0);
    expect_set(&seen);
    EXPECT(sigpending(&seen) == 0);
    expect_set(&seen);
    take(SIGUSR1, SI_USER, 0, getpid());
    take(SIGHUP, SI_USER, 0, child);
    EXPECT(pthread_create(&t, NULL, take_usr2, NULL) == 0 && pthread_join(t, NULL) == 0);
    for (int i = 1; i <= 3; i++)
        take(QUEUED, SI_QUEUE, i, getpid());
    EXPECT(sigtimedwait(&set, NULL, &none) == -1 && errno == EAGAIN);
}

static void *become(void *stage) {
    char *const argv[] = {"image", burners, stage, child_, NULL};
    sigset_t seen;
    pid_t parent = getpid(), child;
    EXPECT(raise(SIGUSR1) == 0 && kill(getpid(), SIGUSR2) == 0);
    for (int i = 1; i <= 3; i++)
        EXPECT(sigqueue(getpid(), QUEUED, (union sigval){.sival_int = i}) == 0);
    if ((child = fork()) == 0)
        _exit(kill(parent, SIGHUP));
    EXPECT(waitpid(child, NULL, 0) == child && snprintf(child_, sizeof child_, "%d", (int)child) > 0);
    /* What cannot be done leaves everything as it was. */
    EXPECT(execv("/no/such/program", argv) == -1 && errno == ENOENT && sigpending(&seen) == 0);
    expect_set(&seen);
    EXPECT(execl("/", "/", (char *)NULL) == -1 && errno == EACCES && sigpending(&seen) == 0);
    expect_set(&seen);
    execv("/proc/self/exe", argv);
    EXPECT(!"replaced");
    return stage;
}

int main(int argc, char **argv) {
    burners = argc > 1 ? argv[1] : "2";
    int stage = argc > 2 ? atoi(argv[2]) : 0;
    sigemptyset(&set);
    for (int i = 0; i < 4; i++)
        sigaddset(&set, (int[]){SIGHUP, SIGUSR1, SIGUSR2, QUEUED}[i]);
    if (stage > 0)
        check_inherited(atoi(argv[3]));
    else
        EXPECT(sigprocmask(SIG_SETMASK, &set, NULL) == 0);
    pthread_t t;
    for (int i = 0; i < atoi(burners); i++)
        EXPECT(pthread_create(&t, NULL, burn, NULL) == 0);
    if (stage == 0)
        become("1");
    if (stage == 1)
        EXPECT(pthread_create(&t, NULL, become, "2") == 0 && pthread_join(t, NULL) == 0);
    puts("image: ok");
    return 0;
}
