/* Life and death of threads: attributes, join, detach, exit, cancellation, keys, once, condition variables, names. */
#define _GNU_SOURCE
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <threads.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_key_t key;
static long destroyed, cleaned, ready, onces;
static sem_t sem;
static __thread long mine = 5;

static void *same(void *p) { return p; }

static void destructor(void *p) { __atomic_fetch_add(&destroyed, (long)p, __ATOMIC_SEQ_CST); }

static void *private_things(void *p) {
    EXPECT(mine == 5 && pthread_getspecific(key) == NULL);
    for (long i = 0; i < 300; i++) {
        mine = i;
        errno = (int)i;
        EXPECT(pthread_setspecific(key, p) == 0);
        spin(300);
        EXPECT(mine == i && errno == (int)i && pthread_getspecific(key) == p);
    }
    if ((long)p % 2)
        pthread_exit(p);
    return p;
}

static void private_state(void) {
    pthread_t t[10];
    EXPECT(pthread_key_create(&key, destructor) == 0);
    for (long i = 0; i < 10; i++)
        EXPECT(pthread_create(&t[i], NULL, private_things, (void *)(i + 1)) == 0);
    for (long i = 0; i < 10; i++) {
        void *r;
        EXPECT(pthread_join(t[i], &r) == 0 && r == (void *)(i + 1));
    }
    EXPECT(destroyed == 55);
}

static void *wait_turn(void *p) {
    for (int i = 0; i < 200; i++) {
        EXPECT(pthread_mutex_lock(&mutex) == 0);
        while (ready % 4 != (long)p)
            EXPECT(pthread_cond_wait(&cond, &mutex) == 0);
        ready++;
        EXPECT(pthread_cond_broadcast(&cond) == 0 && pthread_mutex_unlock(&mutex) == 0);
    }
    return NULL;
}

static void conditions(void) {
    pthread_t t[4];
    for (long i = 0; i < 4; i++)
        EXPECT(pthread_create(&t[i], NULL, wait_turn, (void *)i) == 0);
    for (long i = 0; i < 4; i++)
        EXPECT(pthread_join(t[i], NULL) == 0);
    EXPECT(ready == 800);
    pthread_condattr_t a;
    pthread_cond_t mono;
    EXPECT(pthread_condattr_init(&a) == 0 && pthread_condattr_setclock(&a, CLOCK_MONOTONIC) == 0);
    EXPECT(pthread_cond_init(&mono, &a) == 0 && pthread_mutex_lock(&mutex) == 0);
    struct timespec at = in_ms(CLOCK_MONOTONIC, 5), real = in_ms(CLOCK_REALTIME, 5);
    EXPECT(pthread_cond_timedwait(&mono, &mutex, &at) == ETIMEDOUT);
    EXPECT(pthread_cond_clockwait(&mono, &mutex, CLOCK_REALTIME, &real) == ETIMEDOUT);
    EXPECT(pthread_cond_timedwait(&cond, &mutex, &real) == ETIMEDOUT);
    EXPECT(pthread_mutex_unlock(&mutex) == 0 && pthread_cond_destroy(&mono) == 0);
}

static void clean(void *p) { cleaned += (long)p; }
static void unlock(void *p) { pthread_mutex_unlock(p); }

static volatile int depth = 9;

static void deep(int n) {
    pthread_cleanup_push(clean, (void *)1);
    if (n > 0)
        deep(n - 1);
    else if (depth)
        pthread_exit((void *)77);
    pthread_cleanup_pop(0);
}

static void *exit_deep(void *p) {
    (void)p;
    deep(depth);
    return NULL;
}

static void *cancel_me(void *how) {
    int pipes[2], old;
    char c;
    EXPECT(pipe(pipes) == 0);
    pthread_cleanup_push(clean, (void *)100);
    EXPECT(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old) == 0 && old == PTHREAD_CANCEL_ENABLE);
    sem_post(&sem);
    usleep(2000);
    EXPECT(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old) == 0 && old == PTHREAD_CANCEL_DISABLE);
    switch ((long)how) {
    case 0: sleep(1000); break;
    case 1: EXPECT(read(pipes[0], &c, 1) == 1); break;
    case 2:
        pthread_mutex_lock(&mutex);
        pthread_cleanup_push(unlock, &mutex);
        for (;;)
            pthread_cond_wait(&cond, &mutex);
        pthread_cleanup_pop(1);
        break;
    case 3:
        for (;;) {
            spin(1000);
            pthread_testcancel();
        }
        break;
    case 4: {
        struct timespec ages = {1000, 0};
        nanosleep(&ages, NULL);
        break;
    }
    case 5: {
        sem_t never;
        sem_init(&never, 0, 0);
        sem_wait(&never);
        break;
    }
    }
    EXPECT(!"reached");
    pthread_cleanup_pop(0);
    return NULL;
}

static void ends(void) {
    pthread_t t;
    void *r;
    EXPECT(pthread_create(&t, NULL, exit_deep, NULL) == 0 && pthread_join(t, &r) == 0 && r == (void *)77 && cleaned == 10);
    for (long how = 0; how < 6; how++)
        for (int late = 0; late < 2; late++) {
            cleaned = 0;
            EXPECT(pthread_create(&t, NULL, cancel_me, (void *)how) == 0 && sem_wait(&sem) == 0);
            if (late)
                usleep(4000);
            EXPECT(pthread_cancel(t) == 0 && pthread_join(t, &r) == 0);
            EXPECT(r == PTHREAD_CANCELED && cleaned == 100);
        }
    EXPECT(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
}

static void *detached(void *p) {
    sem_post(&sem);
    return p;
}

static void *stack_of(void *p) {
    pthread_attr_t a;
    void *at;
    size_t size;
    EXPECT(pthread_getattr_np(pthread_self(), &a) == 0 && pthread_attr_getstack(&a, &at, &size) == 0);
    EXPECT((char *)&a > (char *)at && (char *)&a < (char *)at + size && size >= 65536);
    return p;
}

/* What `ps` and `pgrep` call the process. */
static void is_known_as(const char *expected) {
    char name[17] = "";
    FILE *file = fopen("/proc/self/comm", "r");
    EXPECT(file && fscanf(file, "%16[^\n]", name) == 1 && fclose(file) == 0 && strcmp(name, expected) == 0);
}

static void *named_by_others(void *p) {
    char name[16];
    EXPECT(sem_wait(p) == 0 && prctl(PR_GET_NAME, name) == 0 && strcmp(name, "largo") == 0);
    EXPECT(prctl(PR_SET_NAME, "presto, and a name too long to be") == 0);
    EXPECT(pthread_getname_np(pthread_self(), name, sizeof name) == 0 && strcmp(name, "presto, and a n") == 0);
    return p;
}

/* On the main thread. */
static void names(void) {
    pthread_t t;
    sem_t go;
    char name[16];
    EXPECT(prctl(PR_SET_NAME, "adagio") == 0 && sem_init(&go, 0, 0) == 0);
    EXPECT(pthread_create(&t, NULL, named_by_others, &go) == 0);
    EXPECT(pthread_getname_np(t, name, sizeof name) == 0 && strcmp(name, "adagio") == 0);
    EXPECT(pthread_setname_np(t, "largo") == 0 && sem_post(&go) == 0 && pthread_join(t, NULL) == 0);
    EXPECT(prctl(PR_GET_NAME, name) == 0 && strcmp(name, "adagio") == 0);
    is_known_as("adagio");
    EXPECT(pthread_setname_np(pthread_self(), "andante") == 0);
    is_known_as("andante");
    EXPECT(pthread_getname_np(pthread_self(), name, 15) == ERANGE && prctl(PR_GET_TIMERSLACK) >= 0);
}

enum { LARGE = 64 << 20 };

static void *uses_much(void *p) {
    volatile char much[LARGE - (1 << 20)];
    for (size_t at = sizeof much; at >= 4096; at -= 4096) {
        much[at - 1] = 1;
        spin(100);
    }
    return p;
}

static void attributes(void) {
    pthread_attr_t a;
    pthread_t t;
    char name[16];
    EXPECT(pthread_attr_init(&a) == 0 && pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED) == 0);
    EXPECT(pthread_create(&t, &a, detached, NULL) == 0 && sem_wait(&sem) == 0);
    EXPECT(pthread_attr_setdetachstate(&a, PTHREAD_CREATE_JOINABLE) == 0 && pthread_attr_setstacksize(&a, 65536) == 0);
    EXPECT(pthread_create(&t, &a, stack_of, NULL) == 0 && pthread_join(t, NULL) == 0);
    EXPECT(pthread_attr_setstacksize(&a, LARGE) == 0);
    EXPECT(pthread_create(&t, &a, uses_much, NULL) == 0 && pthread_join(t, NULL) == 0);
    stack_of(NULL);
    EXPECT(pthread_create(&t, NULL, detached, NULL) == 0 && sem_wait(&sem) == 0 && pthread_detach(t) == 0);
    EXPECT(pthread_join(pthread_self(), NULL) == EDEADLK);
    EXPECT(pthread_setname_np(pthread_self(), "a name too long to be") == ERANGE);
    EXPECT(pthread_setname_np(pthread_self(), "adagio") == 0 && pthread_getname_np(pthread_self(), name, 16) == 0);
    EXPECT(strcmp(name, "adagio") == 0);
    cpu_set_t set;
    EXPECT(pthread_getaffinity_np(pthread_self(), sizeof set, &set) == 0 && CPU_COUNT(&set) > 0);
    EXPECT(pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0);
    EXPECT(pthread_create(&t, NULL, cancel_me, (void *)0) == 0 && sem_wait(&sem) == 0);
    struct timespec soon = in_ms(CLOCK_REALTIME, 5);
    EXPECT(pthread_tryjoin_np(t, NULL) == EBUSY && pthread_timedjoin_np(t, NULL, &soon) == ETIMEDOUT);
    EXPECT(pthread_cancel(t) == 0 && pthread_join(t, NULL) == 0);
    EXPECT(pthread_equal(pthread_self(), pthread_self()) && sched_yield() == 0 && gettid() == getpid());
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void do_once(void) {
    spin(200000);
    onces++;
}
static void *try_once(void *p) {
    EXPECT(pthread_once(&once, do_once) == 0 && onces == 1);
    return p;
}

static int c11(void *p) { return (int)(long)p; }

static void others(void) {
    pthread_t t[6];
    for (int i = 0; i < 6; i++)
        EXPECT(pthread_create(&t[i], NULL, try_once, NULL) == 0);
    for (int i = 0; i < 6; i++)
        EXPECT(pthread_join(t[i], NULL) == 0);
    thrd_t c;
    int r;
    mtx_t m;
    EXPECT(thrd_create(&c, c11, (void *)-3) == thrd_success && thrd_join(c, &r) == thrd_success && r == -3);
    EXPECT(mtx_init(&m, mtx_timed | mtx_recursive) == thrd_success && mtx_lock(&m) == thrd_success);
    EXPECT(mtx_trylock(&m) == thrd_success && mtx_unlock(&m) == thrd_success && mtx_unlock(&m) == thrd_success);
}

static void many(void) {
    for (int round = 0; round < 10; round++) {
        pthread_t t[100];
        for (long i = 0; i < 100; i++)
            EXPECT(pthread_create(&t[i], NULL, same, (void *)i) == 0);
        for (long i = 0; i < 100; i++) {
            void *r;
            EXPECT(pthread_join(t[i], &r) == 0 && r == (void *)i);
        }
    }
}

static void *last(void *p) {
    usleep(3000);
    puts("threads: ok");
    return p;
}

int main(void) {
    /* As its first deed: whatever starts main may still be at it. */
    pthread_attr_t own;
    EXPECT(pthread_getattr_np(pthread_self(), &own) == 0 && pthread_attr_destroy(&own) == 0);
    EXPECT(sem_init(&sem, 0, 0) == 0);
    private_state();
    conditions();
    ends();
    attributes();
    names();
    others();
    many();
    pthread_t t;
    EXPECT(pthread_create(&t, NULL, last, NULL) == 0 && pthread_detach(t) == 0);
    /* The process goes on until the last thread has ended, and its status is 0. */
    pthread_exit((void *)1);
}
