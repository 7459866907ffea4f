/* Timers: timerfd, timer_create, setitimer, alarm. */
#include "fuzz.h"

#include <sys/time.h>
#include <sys/timerfd.h>

static struct itimerspec in_us(long us, long interval) {
    return (struct itimerspec){.it_value = {us / 1000000, us % 1000000 * 1000},
                               .it_interval = {interval / 1000000, interval % 1000000 * 1000}};
}

static void timerfd_make(const long *a, struct record *r) {
    returned(r, O(0)->fd[0] = timerfd_create(clock_of(a[1]), TFD_CLOEXEC | (a[2] ? TFD_NONBLOCK : 0)));
    r->r = r->r >= 0;
}

static void timerfd_set(const long *a, struct record *r) {
    struct itimerspec t = in_us(a[1], 0);
    returned(r, timerfd_settime(O(0)->fd[0], 0, &t, NULL));
}

/* Expirations of a timer that expires once. */
static void timerfd_get(const long *a, struct record *r) {
    uint64_t n = 0;
    returned(r, read(O(0)->fd[0], &n, sizeof n));
    r->x = (int64_t)n;
}

static void notified(union sigval v) { atomic_fetch_add((atomic_long *)v.sival_ptr, 1); }

/* timer_make OBJECT SIGNAL KIND CLOCK: KIND 0 a signal, 1 a thread. */
static void timer_make(const long *a, struct record *r) {
    struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = a[1]};
    e.sigev_value.sival_int = 7;
    if (a[2]) {
        e.sigev_notify = SIGEV_THREAD;
        e.sigev_notify_function = notified;
        e.sigev_value.sival_ptr = &O(0)->sum;
    }
    returned(r, timer_create(clock_of(a[3]), &e, &O(0)->timer));
}

static void timer_set(const long *a, struct record *r) {
    struct itimerspec t = in_us(a[1], 0);
    returned(r, timer_settime(O(0)->timer, 0, &t, NULL));
}

static void timer_armed(const long *a, struct record *r) {
    struct itimerspec t;
    returned(r, timer_gettime(O(0)->timer, &t));
    r->x = t.it_value.tv_sec || t.it_value.tv_nsec;
}

static void timer_notified(const long *a, struct record *r) {
    int turns = 0;
    while (!(r->r = atomic_load(&O(0)->sum)))
        pass_time(&turns);
}

CALL_ERRNO(timer_remove, timer_delete(O(0)->timer))

static void interval(const long *a, struct record *r) {
    struct itimerval t = {.it_value = {0, a[0]}};
    returned(r, setitimer(ITIMER_REAL, &t, NULL));
}

/* alarm SECONDS: was one set? */
static void set_alarm(const long *a, struct record *r) { r->r = alarm(a[0]) != 0; }

const struct entry timer_operations[] = {
    {"timerfd", timerfd_make},
    {"timerfd_set", timerfd_set},
    {"timerfd_get", timerfd_get},
    {"timer", timer_make},
    {"timer_set", timer_set},
    {"timer_armed", timer_armed},
    {"timer_notified", timer_notified},
    {"timer_delete", timer_remove},
    {"setitimer", interval},
    {"alarm", set_alarm},
    {NULL, NULL},
};
