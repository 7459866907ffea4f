/* Every function of quaver.h, called from C: what it promises, and what it says when it cannot. */
#define _GNU_SOURCE
#include <quaver.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(quaver_mutex) == 8 && _Alignof(quaver_mutex) == 4, "quaver_mutex");
_Static_assert(sizeof(quaver_condvar) == 8 && _Alignof(quaver_condvar) == 4, "quaver_condvar");
_Static_assert(sizeof(quaver_rwlock) == 32 && _Alignof(quaver_rwlock) == 4, "quaver_rwlock");
_Static_assert(sizeof(quaver_semaphore) == 8 && _Alignof(quaver_semaphore) == 8, "quaver_semaphore");
_Static_assert(sizeof(quaver_barrier) == 16 && _Alignof(quaver_barrier) == 8, "quaver_barrier");
_Static_assert(sizeof(quaver_once) == 4, "quaver_once");
_Static_assert(sizeof(quaver_thread_attr) == 32 && offsetof(quaver_thread_attr, stack_size) == 24, "quaver_thread_attr");

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s does not hold (last message: %s)\n", __FILE__, __LINE__, #condition,            \
                    quaver_last_message());                                                                            \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
#define OK(call) EXPECT((call) == QUAVER_OK)
#define SAYS(call, status, text)                                                                                       \
    do {                                                                                                               \
        EXPECT((call) == (status));                                                                                    \
        EXPECT(strstr(quaver_last_message(), (text)) != NULL);                                                         \
    } while (0)

enum { THREADS = 8, ROUNDS = 2000 };

static quaver_mutex mutex = QUAVER_MUTEX_INIT;
static quaver_condvar changed = QUAVER_CONDVAR_INIT;
static quaver_rwlock rwlock = QUAVER_RWLOCK_INIT;
static quaver_once once = QUAVER_ONCE_INIT;
static quaver_semaphore semaphore;
static quaver_barrier barrier;
static long counter, left, right, onces, leaders;
static int turn;

static void spin(long n) {
    for (volatile long i = 0; i < n; i = i + 1) {
    }
}

static void each(void *(*f)(void *)) {
    quaver_thread *threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        OK(quaver_spawn(&threads[i], NULL, f, (void *)i));
    for (long i = 0; i < THREADS; i++) {
        void *result;
        OK(quaver_join(threads[i], &result));
        EXPECT(result == (void *)(i + 1));
    }
}

static void *count(void *me) {
    for (int i = 0; i < ROUNDS; i++) {
        OK(i % 2 ? quaver_mutex_lock(&mutex) : quaver_mutex_lock_timeout(&mutex, QUAVER_FOREVER));
        long seen = counter;
        spin(5);
        counter = seen + 1;
        OK(quaver_mutex_unlock(&mutex));
    }
    return (char *)me + 1;
}

static void *take_turns(void *me) {
    for (int i = 0; i < 200; i++) {
        OK(quaver_mutex_lock(&mutex));
        while (turn != (int)(long)me)
            OK(quaver_condvar_wait(&changed, &mutex, QUAVER_FOREVER));
        turn = (turn + 1) % THREADS;
        OK(i % 2 ? quaver_condvar_notify_all(&changed) : quaver_condvar_notify_all(&changed));
        OK(quaver_mutex_unlock(&mutex));
    }
    return (char *)me + 1;
}

static void *read_and_write(void *me) {
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 8 == 0) {
            OK(quaver_rwlock_write(&rwlock, QUAVER_FOREVER));
            left++;
            spin(5);
            right++;
        } else {
            OK(quaver_rwlock_read(&rwlock, QUAVER_FOREVER));
            EXPECT(left == right);
        }
        OK(quaver_rwlock_unlock(&rwlock));
    }
    return (char *)me + 1;
}

static void do_once(void) {
    spin(100000);
    onces++;
}

static void *meet(void *me) {
    for (int i = 0; i < 100; i++) {
        OK(quaver_once_call(&once, do_once));
        EXPECT(onces == 1);
        if (quaver_barrier_wait(&barrier))
            __atomic_fetch_add(&leaders, 1, __ATOMIC_RELAXED);
        OK(quaver_semaphore_acquire(&semaphore, QUAVER_FOREVER));
        OK(quaver_semaphore_release(&semaphore));
    }
    return (char *)me + 1;
}

static __thread long private_value;

static void *private_state(void *me) {
    EXPECT(private_value == 0);
    for (int i = 0; i < 300; i++) {
        private_value = (long)me;
        errno = (int)(long)me + 1000;
        spin(2000);
        EXPECT(private_value == (long)me && errno == (int)(long)me + 1000);
    }
    return (char *)me + 1;
}

static void *from_kernel_thread(void *unused) {
    (void)unused;
    EXPECT(quaver_self() == 0);
    for (int i = 0; i < ROUNDS; i++) {
        OK(quaver_mutex_lock(&mutex));
        counter++;
        OK(quaver_mutex_unlock(&mutex));
    }
    quaver_thread *t;
    void *result;
    OK(quaver_spawn(&t, NULL, count, (void *)1));
    OK(quaver_join(t, &result));
    return NULL;
}

static quaver_channel *channel;

static void *produce(void *me) {
    for (long i = 0; i < 500; i++)
        OK(quaver_channel_send(channel, (void *)1, QUAVER_FOREVER));
    return (char *)me + 1;
}

static void *consume(void *unused) {
    (void)unused;
    long sum = 0;
    void *item;
    int status;
    while ((status = quaver_channel_receive(channel, &item, QUAVER_FOREVER)) == QUAVER_OK)
        sum += (long)item;
    EXPECT(status == QUAVER_CLOSED);
    return (void *)sum;
}

static void channels(void) {
    SAYS(quaver_channel_new(0) == NULL ? 1 : 0, 1, "capacity of 0");
    EXPECT((channel = quaver_channel_new(3)) != NULL);
    void *item;
    EXPECT(quaver_channel_receive(channel, &item, 0) == QUAVER_TIMED_OUT);
    EXPECT(quaver_channel_receive(channel, &item, 1000000) == QUAVER_TIMED_OUT);
    quaver_thread *consumer;
    OK(quaver_spawn(&consumer, NULL, consume, NULL));
    each(produce);
    OK(quaver_channel_close(channel));
    EXPECT(quaver_channel_send(channel, NULL, 0) == QUAVER_CLOSED);
    void *sum;
    OK(quaver_join(consumer, &sum));
    EXPECT((long)sum == 500 * THREADS);
    quaver_channel_free(channel);
    quaver_channel_free(NULL);
}

static int fds[2];

static void *read_pipe(void *me) {
    char c = 0;
    if (me == NULL)
        quaver_blocking_begin();
    EXPECT(read(fds[0], &c, 1) == 1);
    if (me == NULL)
        quaver_blocking_end();
    return (void *)(long)c;
}

static void *read_in_place(void *unused) {
    (void)unused;
    return quaver_block_in_place(read_pipe, (void *)1);
}

static void blocking(void) {
    EXPECT(pipe(fds) == 0);
    quaver_thread *a, *b;
    OK(quaver_spawn(&a, NULL, read_pipe, NULL));
    OK(quaver_spawn(&b, NULL, read_in_place, NULL));
    quaver_yield();
    quaver_sleep(1000000);
    EXPECT(write(fds[1], "xx", 2) == 2);
    void *got;
    OK(quaver_join(a, &got));
    EXPECT((long)got == 'x');
    OK(quaver_join(b, &got));
    EXPECT((long)got == 'x');
}

static void *named(void *unused) {
    (void)unused;
    char name[16], small[4];
    OK(quaver_self_name(name, sizeof name));
    EXPECT(strcmp(name, "Vivace") == 0);
    SAYS(quaver_self_name(small, sizeof small), QUAVER_INVALID, "7 bytes");
    EXPECT(strcmp(small, "Viv") == 0);
    OK(quaver_semaphore_release(&semaphore));
    return NULL;
}

static void regions(void) {
    EXPECT(quaver_is_preemptible());
    quaver_no_preempt_begin();
    quaver_no_preempt_begin();
    EXPECT(!quaver_is_preemptible());
    OK(quaver_no_preempt_end());
    EXPECT(!quaver_is_preemptible());
    OK(quaver_no_preempt_end());
    SAYS(quaver_no_preempt_end(), QUAVER_STATE, "no region");
}

static void refusals(void) {
    quaver_thread *t;
    SAYS(quaver_spawn(&t, NULL, NULL, NULL), QUAVER_INVALID, "function is null");
    SAYS(quaver_spawn(NULL, NULL, count, NULL), QUAVER_INVALID, "nowhere to store");
    SAYS(quaver_join(NULL, NULL), QUAVER_INVALID, "thread is null");
    SAYS(quaver_detach(NULL), QUAVER_INVALID, "thread is null");
    SAYS(quaver_mutex_lock(NULL), QUAVER_INVALID, "quaver_mutex_lock: the object is null");
    SAYS(quaver_mutex_unlock(&mutex), QUAVER_STATE, "not locked");
    SAYS(quaver_rwlock_unlock(&rwlock), QUAVER_STATE, "nobody has locked it");
    SAYS(quaver_condvar_wait(&changed, &mutex, 0), QUAVER_STATE, "not locked");
    SAYS(quaver_semaphore_init(&semaphore, 1u << 31), QUAVER_INVALID, "2147483647");
    SAYS(quaver_barrier_init(&barrier, 0), QUAVER_INVALID, "no threads");
    SAYS(quaver_shutdown(NULL), QUAVER_STATE, "user thread");
    SAYS(quaver_start(NULL), QUAVER_STATE, "running already");
    uint64_t value;
    SAYS(quaver_stat("speed", &value), QUAVER_INVALID, "speed");
    EXPECT(strcmp(quaver_strerror(QUAVER_CLOSED), "the channel is closed") == 0);
    EXPECT(strcmp(quaver_strerror(99), "not a quaver status") == 0);
}

static void timeouts(void) {
    OK(quaver_mutex_lock(&mutex));
    EXPECT(quaver_mutex_try_lock(&mutex) == QUAVER_BUSY);
    EXPECT(quaver_mutex_lock_timeout(&mutex, 1000000) == QUAVER_TIMED_OUT);
    EXPECT(quaver_condvar_wait(&changed, &mutex, 1000000) == QUAVER_TIMED_OUT);
    OK(quaver_mutex_unlock(&mutex));
    OK(quaver_mutex_try_lock(&mutex));
    OK(quaver_mutex_unlock(&mutex));
    OK(quaver_rwlock_read(&rwlock, 0));
    EXPECT(quaver_rwlock_write(&rwlock, 1000000) == QUAVER_TIMED_OUT);
    OK(quaver_rwlock_unlock(&rwlock));
    OK(quaver_semaphore_init(&semaphore, 0));
    EXPECT(quaver_semaphore_acquire(&semaphore, 1000000) == QUAVER_TIMED_OUT);
}

static void *program(void *unused) {
    (void)unused;
    EXPECT(quaver_self() != 0);
    refusals();
    regions();
    timeouts();

    counter = 0;
    pthread_t kernel_thread;
    EXPECT(pthread_create(&kernel_thread, NULL, from_kernel_thread, NULL) == 0);
    each(count);
    quaver_blocking_begin();
    EXPECT(pthread_join(kernel_thread, NULL) == 0);
    quaver_blocking_end();
    EXPECT(counter == (THREADS + 2) * ROUNDS);

    each(take_turns);
    left = right = 0;
    each(read_and_write);
    EXPECT(left == THREADS * (ROUNDS / 8) && left == right);
    OK(quaver_barrier_init(&barrier, THREADS));
    OK(quaver_semaphore_init(&semaphore, 2));
    leaders = onces = 0;
    once = (quaver_once)QUAVER_ONCE_INIT;
    each(meet);
    EXPECT(leaders == 100);
    OK(quaver_barrier_destroy(&barrier));
    each(private_state);
    channels();
    blocking();

    OK(quaver_semaphore_init(&semaphore, 0));
    quaver_thread_attr attr = {.name = "Vivace", .detached = true};
    OK(quaver_spawn(NULL, &attr, named, NULL));
    OK(quaver_semaphore_acquire(&semaphore, QUAVER_FOREVER));
    quaver_thread *t;
    attr.detached = false;
    OK(quaver_spawn(&t, &attr, named, NULL));
    EXPECT(quaver_thread_id(t) != 0 && quaver_thread_id(t) != quaver_self() && quaver_thread_id(NULL) == 0);
    OK(quaver_semaphore_acquire(&semaphore, QUAVER_FOREVER));
    while (!quaver_is_finished(t))
        quaver_yield();
    OK(quaver_detach(t));
    /* Detached threads have said everything, but perhaps not ended: this one only is still to do so. */
    uint64_t spawned = 0, completed = 0;
    OK(quaver_stat("spawned", &spawned));
    while (completed + 1 < spawned) {
        quaver_yield();
        OK(quaver_stat("completed", &completed));
    }
    return (void *)42;
}

int main(void) {
    EXPECT(strcmp(quaver_last_message(), "") == 0);
    EXPECT(quaver_run(program, NULL, NULL) == QUAVER_NO_RUNTIME);
    EXPECT(quaver_shutdown(NULL) == QUAVER_NO_RUNTIME);
    SAYS(quaver_start("workers=0"), QUAVER_INVALID, "from 1 to 1024");
    SAYS(quaver_start("wrkers=1"), QUAVER_INVALID, "did you mean `workers`?");
    SAYS(quaver_start("workers=1,colour=red"), QUAVER_INVALID, "there are workers, cpus");
    SAYS(quaver_start("quantum"), QUAVER_INVALID, "name=value");
    SAYS(quaver_start("quantum=soon"), QUAVER_INVALID, "soon");
    SAYS(quaver_start("stack_size=large"), QUAVER_INVALID, "k, m or g");
    EXPECT(!quaver_is_running());
    static const char *const settings[] = {"workers=1 quantum=50us", "workers=2;quantum=20us clock=timer-thread",
                                           "workers=1 quantum=off", "workers=3\nstack_size=128k idle_spin=0us pin=no"};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        OK(quaver_start(settings[i]));
        EXPECT(quaver_is_running());
        void *result;
        OK(quaver_run(program, NULL, &result));
        EXPECT(result == (void *)42);
        uint64_t spawned = 0;
        OK(quaver_stat("spawned", &spawned));
        EXPECT(spawned > 6 * THREADS);
        size_t threads = 99;
        OK(quaver_shutdown(&threads));
        EXPECT(threads == 0);
    }
    EXPECT(quaver_stat_name(0) != NULL && quaver_stat_name(1000) == NULL);
    EXPECT(strchr(quaver_version(), '.') != NULL);
    puts("quaver.h: all calls as promised");
    return 0;
}
