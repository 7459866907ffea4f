/* Mutexes that are robust and process-shared: owners that die, threads and processes, with the shim and without. */
#define _GNU_SOURCE
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 3000 };

static struct {
    pthread_mutex_t plain, recursive, strict;
    volatile int ready;
    long counter, told;
} *shared;
static int memory;

static void make(pthread_mutex_t *m, int type) {
    pthread_mutexattr_t a;
    EXPECT(pthread_mutexattr_init(&a) == 0 && pthread_mutexattr_settype(&a, type) == 0);
    EXPECT(pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST) == 0);
    EXPECT(pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED) == 0);
    EXPECT(pthread_mutex_init(m, &a) == 0 && pthread_mutexattr_destroy(&a) == 0);
}

static void set_up(void) {
    make(&shared->plain, PTHREAD_MUTEX_NORMAL);
    make(&shared->recursive, PTHREAD_MUTEX_RECURSIVE);
    make(&shared->strict, PTHREAD_MUTEX_ERRORCHECK);
    shared->ready = 0;
}

static void map(void) {
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    EXPECT(shared != MAP_FAILED);
}

static void await_ready(void) {
    while (!shared->ready)
        usleep(1000);
}

static void *others_view(void *p) {
    struct timespec soon = in_ms(CLOCK_REALTIME, 3);
    EXPECT(pthread_mutex_trylock(&shared->plain) == EBUSY && pthread_mutex_trylock(&shared->recursive) == EBUSY);
    EXPECT(pthread_mutex_unlock(&shared->plain) == EPERM && pthread_mutex_unlock(&shared->strict) == EPERM);
    EXPECT(pthread_mutex_timedlock(&shared->recursive, &soon) == ETIMEDOUT);
    return p;
}

static void in_thread(void *(*f)(void *)) {
    pthread_t t;
    EXPECT(pthread_create(&t, NULL, f, NULL) == 0 && pthread_join(t, NULL) == 0);
}

static void rules(void) {
    EXPECT(pthread_mutex_lock(&shared->plain) == 0 && pthread_mutex_trylock(&shared->plain) == EBUSY);
    EXPECT(pthread_mutex_lock(&shared->recursive) == 0 && pthread_mutex_trylock(&shared->recursive) == 0);
    EXPECT(pthread_mutex_lock(&shared->strict) == 0 && pthread_mutex_lock(&shared->strict) == EDEADLK);
    EXPECT(pthread_mutex_consistent(&shared->plain) == EINVAL);
    in_thread(others_view);
    EXPECT(pthread_mutex_unlock(&shared->recursive) == 0 && pthread_mutex_unlock(&shared->recursive) == 0);
    EXPECT(pthread_mutex_unlock(&shared->recursive) == EPERM);
    EXPECT(pthread_mutex_unlock(&shared->plain) == 0 && pthread_mutex_unlock(&shared->strict) == 0);
}

static void *die_with_locks(void *p) {
    EXPECT(pthread_mutex_lock(&shared->plain) == 0 && pthread_mutex_lock(&shared->recursive) == 0);
    EXPECT(pthread_mutex_lock(&shared->recursive) == 0);
    shared->ready = 1;
    spin(20000);
    return p;
}

/* The next owner is told, and may repair or not. */
static void inherit(void) {
    EXPECT(pthread_mutex_lock(&shared->plain) == EOWNERDEAD);
    EXPECT(pthread_mutex_consistent(&shared->plain) == 0 && pthread_mutex_unlock(&shared->plain) == 0);
    EXPECT(pthread_mutex_lock(&shared->plain) == 0 && pthread_mutex_unlock(&shared->plain) == 0);
    EXPECT(pthread_mutex_lock(&shared->recursive) == EOWNERDEAD && pthread_mutex_unlock(&shared->recursive) == 0);
    EXPECT(pthread_mutex_lock(&shared->recursive) == ENOTRECOVERABLE);
    EXPECT(pthread_mutex_trylock(&shared->recursive) == ENOTRECOVERABLE);
}

static void threads_die(void) {
    pthread_t t;
    set_up();
    in_thread(die_with_locks);
    inherit();
    /* While somebody waits. */
    set_up();
    EXPECT(pthread_create(&t, NULL, die_with_locks, NULL) == 0);
    await_ready();
    inherit();
    EXPECT(pthread_join(t, NULL) == 0);
}

/* Another process takes the locks and waits for its end: a copy of this one, or a program that runs natively. */
static pid_t owner(const char *program) {
    char number[20];
    pid_t pid;
    set_up();
    snprintf(number, sizeof number, "%d", memory);
    EXPECT((pid = fork()) >= 0);
    if (pid == 0) {
        if (program)
            execl(program, program, "owner", number, (char *)NULL);
        else {
            die_with_locks(NULL);
            for (;;)
                pause();
        }
        _exit(1);
    }
    await_ready();
    return pid;
}

static void *end_soon(void *p) {
    usleep(3000);
    EXPECT(kill(*(pid_t *)p, SIGKILL) == 0);
    return p;
}

static void processes_die(const char *program) {
    int status;
    pthread_t t;
    pid_t pid = owner(program);
    EXPECT(pthread_mutex_trylock(&shared->plain) == EBUSY && pthread_mutex_unlock(&shared->plain) == EPERM);
    EXPECT(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
    inherit();
    pid = owner(program);
    EXPECT(pthread_create(&t, NULL, end_soon, &pid) == 0);
    inherit();
    EXPECT(pthread_join(t, NULL) == 0 && waitpid(pid, &status, 0) == pid);
}

/* Counts under the lock, and every now and then ends without giving it back. */
static void *count(void *p) {
    for (int i = 0; i < ROUNDS; i++) {
        int r = pthread_mutex_lock(&shared->plain);
        if (r == EOWNERDEAD) {
            shared->told++;
            r = pthread_mutex_consistent(&shared->plain);
        }
        EXPECT(r == 0);
        shared->counter++;
        if (i == ROUNDS - 1 && p)
            return NULL;
        EXPECT(pthread_mutex_unlock(&shared->plain) == 0);
    }
    return NULL;
}

static void count_in_threads(void) {
    pthread_t t[THREADS];
    for (long i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&t[i], NULL, count, (void *)(i % 2)) == 0);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_join(t[i], NULL) == 0);
}

static void contend(const char *program) {
    char number[20];
    int status;
    pid_t pid;
    set_up();
    shared->counter = shared->told = 0;
    snprintf(number, sizeof number, "%d", memory);
    EXPECT((pid = fork()) >= 0);
    if (pid == 0) {
        execl(program, program, "count", number, (char *)NULL);
        _exit(1);
    }
    count_in_threads();
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    EXPECT(shared->counter == 2L * THREADS * ROUNDS);
    /* The last one may have told nobody. */
    EXPECT(shared->told >= THREADS - 1);
}

static volatile int stop;

static pthread_mutexattr_t of_one_process(void) {
    pthread_mutexattr_t a;
    EXPECT(pthread_mutexattr_init(&a) == 0 && pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST) == 0);
    return a;
}

static void *lock_and_unlock(void *p) {
    pthread_mutexattr_t a = of_one_process();
    pthread_mutex_t m;
    EXPECT(pthread_mutex_init(&m, &a) == 0);
    while (!stop)
        EXPECT(pthread_mutex_lock(&m) == 0 && pthread_mutex_unlock(&m) == 0);
    return p;
}

/* Whatever other threads were doing to their mutexes, the child of a fork can use its own. */
static void fork_beside_others(int forks) {
    pthread_mutexattr_t a = of_one_process();
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&t[i], NULL, lock_and_unlock, NULL) == 0);
    for (int i = 0; i < forks; i++) {
        int status;
        pid_t pid = fork();
        EXPECT(pid >= 0);
        if (pid == 0) {
            pthread_mutex_t m;
            alarm(20);
            _exit(pthread_mutex_init(&m, &a) || pthread_mutex_lock(&m) || pthread_mutex_unlock(&m));
        }
        EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    }
    stop = 1;
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_join(t[i], NULL) == 0);
}

int main(int argc, char **argv) {
    if (argc == 3) {
        memory = atoi(argv[2]);
        map();
        if (strcmp(argv[1], "owner") == 0) {
            die_with_locks(NULL);
            for (;;)
                pause();
        }
        count_in_threads();
        return 0;
    }
    EXPECT((memory = memfd_create("shared", 0)) >= 0 && ftruncate(memory, sizeof *shared) == 0);
    map();
    set_up();
    rules();
    threads_die();
    for (int i = 0; i < 5; i++) {
        processes_die(NULL);
        processes_die("/proc/self/exe");
    }
    contend("/proc/self/exe");
    /* Without preemption the main thread waits for all the others each time. */
    fork_beside_others(argc > 1 && strcmp(argv[1], "0") == 0 ? 10 : 200);
    EXPECT(pthread_mutex_destroy(&shared->strict) == 0);
    puts("robust: ok");
    return 0;
}
