/* The child of a fork that makes threads again: signals end no call of its first thread that they do not end in other processes. And
   the signal by which the C library cancels threads, sent by somebody else. */
#define _GNU_SOURCE
#include "preempted.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CANCEL = 32, SIGNALS = 200, FLOOD = 30000 };

static pthread_t first;
static volatile sig_atomic_t got;
static int stop, pipe_[2];
static sem_t posted;

static void note(int n) {
    (void)n;
    got++;
}

static void nap(void) {
    struct timespec t = {0, 200000};
    nanosleep(&t, NULL);
}

/* What the first thread waits for, and signals for it, to the thread and to the process. */
static void *disturb(void *p) {
    for (int i = 0; i < SIGNALS; i++) {
        EXPECT(i % 2 ? kill(getpid(), SIGUSR1) == 0 : pthread_kill(first, SIGUSR1) == 0);
        nap();
        EXPECT(i % 3 ? sem_post(&posted) == 0 : write(pipe_[1], "x", 1) == 1);
    }
    return p;
}

static void check_calls(void) {
    pthread_t t;
    char byte;
    EXPECT(pthread_create(&t, NULL, disturb, NULL) == 0);
    for (int i = 0; i < SIGNALS; i++) {
        EXPECT(i % 3 ? sem_wait(&posted) == 0 : read(pipe_[0], &byte, 1) == 1);
        char *memory = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT(memory != MAP_FAILED && mprotect(memory, 1 << 20, PROT_READ | PROT_WRITE) == 0);
        memory[4096] = 1;
        EXPECT(munmap(memory, 1 << 20) == 0);
        int fd = open("/dev/null", O_WRONLY);
        EXPECT(fd >= 0 && write(fd, "x", 1) == 1 && fcntl(fd, F_GETFD) >= 0 && close(fd) == 0);
    }
    EXPECT(pthread_join(t, NULL) == 0 && got > 0);
}

static void *wake(void *p) {
    while (!__atomic_load_n((int *)p, __ATOMIC_ACQUIRE)) {
        nap();
        EXPECT(pthread_kill(first, SIGUSR1) == 0);
    }
    return NULL;
}

/* Those that handlers do end. */
static void check_interrupted(void) {
    for (int how = 0; how < 3; how++) {
        int woken = 0;
        pthread_t t;
        EXPECT(pthread_create(&t, NULL, wake, &woken) == 0);
        if (how == 0)
            EXPECT(poll(NULL, 0, 60000) == -1 && errno == EINTR);
        else if (how == 1)
            EXPECT(usleep(60000000) == -1 && errno == EINTR);
        else
            EXPECT(pause() == -1 && errno == EINTR);
        __atomic_store_n(&woken, 1, __ATOMIC_RELEASE);
        EXPECT(pthread_join(t, NULL) == 0);
    }
}

static void *cancel_first(void *p) {
    void *result;
    nap();
    EXPECT(pthread_cancel(first) == 0 && pthread_join(first, &result) == 0 && result == PTHREAD_CANCELED);
    exit(7);
    return p;
}

/* Never returns. */
static void in_child(int burners) {
    pthread_t burner;
    char byte;
    first = pthread_self();
    for (int i = 0; i < burners; i++)
        EXPECT(pthread_create(&burner, NULL, burn, &stop) == 0);
    check_calls();
    check_interrupted();
    EXPECT(pthread_create(&burner, NULL, cancel_first, NULL) == 0);
    for (;;)
        EXPECT(read(pipe_[0], &byte, 1) == -1);
}

/* In masses, to a process that is stopped: then they are delivered at once. */
static void check_flood(int burners) {
    pthread_t burner[4];
    int status;
    for (int i = 0; i < burners; i++)
        EXPECT(pthread_create(&burner[i], NULL, burn, &stop) == 0);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        kill(parent, SIGSTOP);
        for (int i = 0; i < FLOOD; i++)
            kill(parent, CANCEL);
        _exit(kill(parent, SIGCONT));
    }
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < burners; i++)
        EXPECT(pthread_join(burner[i], NULL) == 0);
    __atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
}

static long raw(long number, long a, long b, long c, long d) {
    register long fourth __asm__("r10") = d;
    __asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c), "r"(fourth) : "rcx", "r11", "memory");
    return number;
}

/* By the process itself, to a kernel thread that did not run for a while. To the C library one is a cancellation. */
static void check_own_flood(void) {
    uint64_t all = ~0ull, before;
    EXPECT(raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, 8) == 0);
    long process = raw(SYS_getpid, 0, 0, 0, 0), thread = raw(SYS_gettid, 0, 0, 0, 0);
    for (int i = 0; i < FLOOD; i++)
        raw(SYS_tgkill, process, thread, CANCEL, 0);
    EXPECT(raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, 8) == 0);
}

static void *wait_for_ever(void *p) {
    for (;;)
        pause();
    return p;
}

int main(int argc, char **argv) {
    int burners = argc > 1 ? atoi(argv[1]) : 2, status;
    struct sigaction a = {.sa_handler = note, .sa_flags = SA_RESTART};
    pthread_t t;
    void *result;
    EXPECT(sigaction(SIGUSR1, &a, NULL) == 0 && sem_init(&posted, 0, 0) == 0 && pipe(pipe_) == 0);
    /* The C library has a handler from the first cancellation on. */
    EXPECT(pthread_create(&t, NULL, wait_for_ever, NULL) == 0 && pthread_cancel(t) == 0);
    EXPECT(pthread_join(t, &result) == 0 && result == PTHREAD_CANCELED);
    check_flood(burners);
    if (on_user_threads())
        check_own_flood();
    pid_t child = fork();
    if (child == 0)
        in_child(burners);
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    puts("again: ok");
    return 0;
}
