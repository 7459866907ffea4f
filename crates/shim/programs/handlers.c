/* Handlers: on which thread they run, on which stack, and what becomes of the call that they interrupt. */
#define _GNU_SOURCE
#include "check.h"

#include <mqueue.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t calls;
static pthread_t ran_on;
static sem_t posted[2];

static void note(int n) {
    (void)n;
    ran_on = pthread_self();
    calls++;
}

static void set_handler(int n, void (*f)(int), int flags) {
    struct sigaction a = {.sa_handler = f, .sa_flags = flags};
    EXPECT(sigaction(n, &a, NULL) == 0);
}

static void await_calls(int n) {
    while (calls < n)
        usleep(1000);
}

/* Main and the senders block what is sent to the process; one thread, which never waits, does not. */
static int stop;

static void post(int n) {
    EXPECT(sem_post(&posted[n == SIGUSR2]) == 0);
}

static void *take(void *p) {
    EXPECT(pthread_sigmask(SIG_UNBLOCK, p, NULL) == 0);
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
        free(malloc(10));
    return NULL;
}

static void *send(void *p) {
    int n = (int)(long)p;
    for (int i = 0; i < 200; i++)
        EXPECT(sem_wait(&posted[n == SIGUSR2]) == 0 && kill(getpid(), n) == 0);
    return NULL;
}

static void check_process(void) {
    pthread_t taker, sender[2];
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    set_handler(SIGUSR1, post, 0);
    set_handler(SIGUSR2, post, 0);
    EXPECT(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    EXPECT(sem_init(&posted[0], 0, 1) == 0 && sem_init(&posted[1], 0, 1) == 0);
    EXPECT(pthread_create(&taker, NULL, take, &set) == 0);
    EXPECT(pthread_create(&sender[0], NULL, send, (void *)SIGUSR1) == 0);
    EXPECT(pthread_create(&sender[1], NULL, send, (void *)SIGUSR2) == 0);
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_join(sender[i], NULL) == 0 && sem_wait(&posted[i]) == 0);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    EXPECT(pthread_join(taker, NULL) == 0 && pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
}

/* Waiters of all kinds run handlers where they wait, and wait on. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_spinlock_t spin_lock;
static int ready, done;

static void *wait_mutex(void *p) {
    EXPECT(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
    return p;
}

static void *wait_read(void *p) {
    EXPECT(pthread_rwlock_rdlock(&rwlock) == 0 && pthread_rwlock_unlock(&rwlock) == 0);
    return p;
}

static void *wait_write(void *p) {
    struct timespec far = in_ms(CLOCK_REALTIME, 600000);
    EXPECT(pthread_rwlock_timedwrlock(&rwlock, &far) == 0 && pthread_rwlock_unlock(&rwlock) == 0);
    return p;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static sem_t once_begins, once_ends;

static void do_once(void) {
    EXPECT(sem_post(&once_begins) == 0 && sem_wait(&once_ends) == 0);
}

static void *wait_once(void *p) {
    EXPECT(pthread_once(&once, do_once) == 0);
    return p;
}

static void *wait_barrier(void *p) {
    pthread_barrier_wait(&barrier);
    return p;
}

static void *wait_spinning(void *p) {
    EXPECT(pthread_spin_lock(&spin_lock) == 0 && pthread_spin_unlock(&spin_lock) == 0);
    return p;
}

static void *wait_cond(void *p) {
    EXPECT(pthread_mutex_lock(&mutex) == 0);
    ready = 1;
    while (!done)
        EXPECT(pthread_cond_wait(&cond, &mutex) == 0);
    EXPECT(pthread_mutex_unlock(&mutex) == 0);
    return p;
}

static void check_waiter(void *(*f)(void *)) {
    pthread_t t;
    calls = 0;
    EXPECT(pthread_create(&t, NULL, f, NULL) == 0);
    for (int i = 0; i < 5; i++) {
        usleep(1000);
        EXPECT(pthread_kill(t, SIGUSR1) == 0);
        await_calls(i + 1);
        EXPECT(pthread_equal(ran_on, t));
    }
    if (f == wait_mutex)
        EXPECT(pthread_mutex_unlock(&mutex) == 0);
    if (f == wait_read || f == wait_write)
        EXPECT(pthread_rwlock_unlock(&rwlock) == 0);
    if (f == wait_barrier)
        pthread_barrier_wait(&barrier);
    if (f == wait_once)
        EXPECT(sem_post(&once_ends) == 0);
    if (f == wait_spinning)
        EXPECT(pthread_spin_unlock(&spin_lock) == 0);
    if (f == wait_cond) {
        EXPECT(pthread_mutex_lock(&mutex) == 0 && ready);
        done = 1;
        EXPECT(pthread_cond_signal(&cond) == 0 && pthread_mutex_unlock(&mutex) == 0);
    }
    EXPECT(pthread_join(t, NULL) == 0 && calls == 5);
}

static void check_waiters(void) {
    set_handler(SIGUSR1, note, 0);
    EXPECT(pthread_mutex_lock(&mutex) == 0);
    check_waiter(wait_mutex);
    EXPECT(pthread_rwlock_wrlock(&rwlock) == 0);
    check_waiter(wait_read);
    EXPECT(pthread_rwlock_rdlock(&rwlock) == 0);
    check_waiter(wait_write);
    EXPECT(pthread_barrier_init(&barrier, NULL, 2) == 0);
    check_waiter(wait_barrier);
    EXPECT(pthread_spin_init(&spin_lock, 0) == 0 && pthread_spin_lock(&spin_lock) == 0);
    check_waiter(wait_spinning);
    check_waiter(wait_cond);
    pthread_t holder;
    EXPECT(sem_init(&once_begins, 0, 0) == 0 && sem_init(&once_ends, 0, 0) == 0);
    EXPECT(pthread_create(&holder, NULL, wait_once, NULL) == 0 && sem_wait(&once_begins) == 0);
    check_waiter(wait_once);
    EXPECT(pthread_join(holder, NULL) == 0);
}

/* Calls that are interrupted, or go on. */
static sem_t never;
static int pipe_[2], returned;
static mqd_t queue;

static void *in_sem(void *p) {
    struct timespec far = in_ms(CLOCK_REALTIME, 600000);
    EXPECT(sem_timedwait(&never, &far) == -1 && errno == EINTR);
    __atomic_store_n(&returned, 1, __ATOMIC_RELEASE);
    return p;
}

static void *in_read(void *p) {
    char c;
    ssize_t r = read(pipe_[0], &c, 1);
    EXPECT(p == NULL ? r == -1 && errno == EINTR : r == 1);
    __atomic_store_n(&returned, 1, __ATOMIC_RELEASE);
    return p;
}

static void *in_queue(void *p) {
    char c[64];
    EXPECT(mq_receive(queue, c, sizeof c, NULL) == -1 && errno == EINTR);
    __atomic_store_n(&returned, 1, __ATOMIC_RELEASE);
    return p;
}

/* Inside the C library, where nobody sees it. */
static void *in_library(void *p) {
    FILE *f = fdopen(dup(pipe_[0]), "r");
    char line[8];
    char *r = fgets(line, sizeof line, f);
    EXPECT(p == NULL ? r == NULL && ferror(f) && errno == EINTR : r != NULL);
    fclose(f);
    __atomic_store_n(&returned, 1, __ATOMIC_RELEASE);
    return p;
}

static void check_call(void *(*f)(void *), int restarts) {
    pthread_t t;
    calls = 0;
    returned = 0;
    set_handler(SIGUSR1, note, restarts ? SA_RESTART : 0);
    EXPECT(pthread_create(&t, NULL, f, restarts ? (void *)1 : NULL) == 0);
    /* A handler may run before the call has begun, which then waits on. */
    for (int i = 0; !__atomic_load_n(&returned, __ATOMIC_ACQUIRE) && (!restarts || i < 5); i++) {
        usleep(20000);
        if (pthread_kill(t, SIGUSR1) != 0)
            break;
        for (int j = 0; j < 1000 && calls <= i && !__atomic_load_n(&returned, __ATOMIC_ACQUIRE); j++)
            usleep(1000);
    }
    if (restarts)
        EXPECT(calls == 5 && !returned && write(pipe_[1], "x\n", f == in_read ? 1 : 2) > 0);
    EXPECT(pthread_join(t, NULL) == 0 && calls > 0);
}

static void check_calls(void) {
    char name[64];
    snprintf(name, sizeof name, "/quaver-handlers-%d", getpid());
    struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = 64};
    EXPECT(sem_init(&never, 0, 0) == 0 && pipe(pipe_) == 0);
    check_call(in_sem, 0);
    check_call(in_read, 0);
    check_call(in_read, 1);
    check_call(in_library, 0);
    check_call(in_library, 1);
    queue = mq_open(name, O_CREAT | O_RDWR, 0600, &attributes);
    if (queue != (mqd_t)-1) {
        check_call(in_queue, 0);
        /* Who sends a message of which it wants to hear has done so when it has been sent. */
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
        for (calls = 0; calls < 20;) {
            char c[64] = "";
            int before = calls;
            EXPECT(mq_notify(queue, &event) == 0 && mq_send(queue, c, 1, 0) == 0 && calls == before + 1);
            EXPECT(mq_receive(queue, c, sizeof c, NULL) == 1);
        }
        mq_close(queue);
        mq_unlink(name);
    }
}

/* Alternate stacks: one for each thread. */
static __thread char stack[64 * 1024];
static __thread volatile int on_stack;
static sigjmp_buf jump;

static void on_alternate(int n) {
    char here;
    stack_t now, other = {.ss_sp = stack, .ss_size = sizeof stack};
    EXPECT(&here > stack && &here < stack + sizeof stack);
    EXPECT(sigaltstack(NULL, &now) == 0 && now.ss_flags == SS_ONSTACK && now.ss_sp == stack);
    EXPECT(sigaltstack(&other, NULL) == -1 && errno == EPERM);
    /* It may wait there. */
    usleep(1000);
    on_stack++;
    if (n == SIGSEGV)
        siglongjmp(jump, 1);
}

static volatile int deeper = 1;

static void overflow(volatile char *above) {
    volatile char frame[4096];
    frame[0] = above ? above[0] : 0;
    if (deeper)
        overflow(frame);
    frame[1] = frame[0];
}

static void *use_stack(void *p) {
    stack_t mine = {.ss_sp = stack, .ss_size = sizeof stack}, before;
    EXPECT(sigaltstack(&mine, &before) == 0 && before.ss_flags == SS_DISABLE);
    for (int i = 0; i < 10; i++)
        EXPECT(raise(SIGUSR2) == 0 && on_stack == i + 1);
    pthread_kill(pthread_self(), SIGUSR2);
    EXPECT(on_stack == 11);
    if (p != NULL) {
        for (volatile int i = 12; i <= 13; i++) {
            if (sigsetjmp(jump, 1) == 0)
                overflow(NULL);
            EXPECT(on_stack == i);
        }
    }
    mine.ss_flags = SS_DISABLE;
    EXPECT(sigaltstack(&mine, NULL) == 0 && sigaltstack(NULL, &before) == 0 && before.ss_flags == SS_DISABLE);
    return NULL;
}

static void check_stacks(void) {
    pthread_t t[4];
    set_handler(SIGUSR2, on_alternate, SA_ONSTACK);
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_create(&t[i], NULL, use_stack, NULL) == 0);
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_join(t[i], NULL) == 0);
    set_handler(SIGSEGV, on_alternate, SA_ONSTACK);
    EXPECT(pthread_create(&t[0], NULL, use_stack, (void *)1) == 0 && pthread_join(t[0], NULL) == 0);
    set_handler(SIGSEGV, SIG_DFL, 0);
}

/* What a handler jumps to has the mask of then, or the handler's. */
static void jump_back(int n) {
    siglongjmp(jump, n);
}

static int blocks(int n) {
    sigset_t now;
    EXPECT(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0);
    return sigismember(&now, n);
}

static void check_jumps(void) {
    sigset_t before, other;
    sigemptyset(&other);
    sigaddset(&other, SIGUSR2);
    EXPECT(pthread_sigmask(SIG_BLOCK, NULL, &before) == 0);
    set_handler(SIGUSR1, jump_back, 0);
    for (volatile int saves = 1; saves >= 0; saves--) {
        if (sigsetjmp(jump, saves) == 0) {
            EXPECT(pthread_sigmask(SIG_BLOCK, &other, NULL) == 0 && raise(SIGUSR1) == 0);
            exit(1);
        }
        EXPECT(blocks(SIGUSR1) == !saves && blocks(SIGUSR2) == !saves);
    }
    EXPECT(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    /* In a child, to where its parent has been. */
    volatile pid_t child = -1;
    if (sigsetjmp(jump, 1) == 0 && (child = fork()) == 0) {
        EXPECT(pthread_sigmask(SIG_BLOCK, &other, NULL) == 0);
        siglongjmp(jump, 1);
    }
    if (child == 0)
        _exit(blocks(SIGUSR2));
    int status;
    EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

/* A handler that ends its thread, be it before that has begun. */
static void end(int n) {
    pthread_exit((void *)(long)n);
}

static void check_end(void) {
    pthread_t t;
    void *result;
    set_handler(SIGALRM, end, 0);
    EXPECT(pthread_spin_lock(&spin_lock) == 0 && pthread_create(&t, NULL, wait_spinning, NULL) == 0);
    usleep(1000);
    EXPECT(pthread_kill(t, SIGALRM) == 0 && pthread_join(t, &result) == 0 && result == (void *)SIGALRM);
    EXPECT(pthread_join(t, NULL) == ESRCH && pthread_detach(t) == ESRCH);
    for (int i = 0; i < 50; i++) {
        EXPECT(pthread_create(&t, NULL, wait_spinning, NULL) == 0 && pthread_kill(t, SIGALRM) == 0);
        EXPECT(pthread_join(t, &result) == 0 && result == (void *)SIGALRM);
    }
    EXPECT(pthread_spin_unlock(&spin_lock) == 0);
}

/* A child's end is told of before the call that waits for it returns; a child's signals are the kernel's. */
static void check_children(void) {
    int status;
    set_handler(SIGCHLD, note, SA_RESTART);
    for (int i = 0; i < 20; i++) {
        calls = 0;
        pid_t child = fork();
        if (child == 0) {
            set_handler(SIGUSR1, note, 0);
            calls = 0;
            EXPECT(raise(SIGUSR1) == 0 && calls == 1 && kill(getpid(), SIGUSR1) == 0 && calls == 2);
            alarm(0);
            set_handler(SIGALRM, note, 0);
            ualarm(20000, 0);
            struct timespec far = in_ms(CLOCK_REALTIME, 600000);
            EXPECT(sem_timedwait(&never, &far) == -1 && errno == EINTR && calls == 3);
            _exit(0);
        }
        EXPECT(waitpid(child, &status, 0) == child && status == 0 && calls == 1);
        EXPECT(pthread_equal(ran_on, pthread_self()));
    }
    set_handler(SIGCHLD, SIG_DFL, 0);
    /* While a shell runs, its interrupts are ignored. */
    EXPECT(system("kill -INT $PPID; kill -QUIT $PPID; exit 3") == 3 << 8);
    set_handler(SIGPIPE, note, 0);
    calls = 0;
    close(pipe_[0]);
    EXPECT(write(pipe_[1], "x", 1) == -1 && errno == EPIPE && calls == 1);
}

/* A wait for what processes share is a cancellation point, too. */
static void unlock(void *p) {
    EXPECT(pthread_mutex_unlock(p) == 0);
}

static pthread_cond_t shared_cond;
static pthread_mutex_t shared_mutex;

static void *wait_shared(void *p) {
    EXPECT(pthread_mutex_lock(&shared_mutex) == 0);
    pthread_cleanup_push(unlock, &shared_mutex);
    ready = 2;
    for (;;)
        EXPECT(pthread_cond_wait(&shared_cond, &shared_mutex) == 0);
    pthread_cleanup_pop(1);
    return p;
}

static void check_shared(void) {
    pthread_t t;
    void *result;
    pthread_mutexattr_t m;
    pthread_condattr_t c;
    pthread_mutexattr_init(&m);
    pthread_condattr_init(&c);
    EXPECT(pthread_mutexattr_setpshared(&m, PTHREAD_PROCESS_SHARED) == 0 && pthread_mutex_init(&shared_mutex, &m) == 0);
    EXPECT(pthread_condattr_setpshared(&c, PTHREAD_PROCESS_SHARED) == 0 && pthread_cond_init(&shared_cond, &c) == 0);
    EXPECT(pthread_create(&t, NULL, wait_shared, NULL) == 0);
    for (int seen = 0; seen != 2;) {
        usleep(1000);
        EXPECT(pthread_mutex_lock(&shared_mutex) == 0);
        seen = ready;
        EXPECT(pthread_mutex_unlock(&shared_mutex) == 0);
    }
    EXPECT(pthread_cancel(t) == 0 && pthread_join(t, &result) == 0 && result == PTHREAD_CANCELED);
    EXPECT(pthread_mutex_trylock(&shared_mutex) == 0);
}

int main(void) {
    check_process();
    check_waiters();
    check_calls();
    check_stacks();
    check_jumps();
    check_end();
    check_children();
    check_shared();
    puts("handlers: ok");
    return 0;
}
