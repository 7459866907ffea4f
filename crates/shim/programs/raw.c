/* System calls by syscall(): what names a thread or is about its signals is the program's thread's. */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4 };

static __thread volatile int hits;
static __thread volatile int value;
static int started, stop, numbers[THREADS];
static int ends[2];

static void note(int n, siginfo_t *info, void *context) {
    (void)n, (void)context;
    hits++;
    value = info->si_value.sival_int;
}

static int number(void) { return (int)syscall(SYS_gettid); }

/* The same for as long as it lives, wherever it runs. */
static void *keeps_its_number(void *p) {
    int mine = number();
    EXPECT(mine == gettid() && mine != getpid());
    numbers[(long)p] = mine;
    __atomic_fetch_add(&started, 1, __ATOMIC_RELEASE);
    do {
        EXPECT(number() == mine);
        spin(100);
    } while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE));
    return NULL;
}

static void every_thread_has_a_number(int burners) {
    pthread_t t[THREADS];
    EXPECT(number() == getpid());
    int n = burners ? THREADS : 1;
    for (long i = 0; i < n; i++)
        EXPECT(pthread_create(&t[i], NULL, keeps_its_number, (void *)i) == 0);
    while (__atomic_load_n(&started, __ATOMIC_ACQUIRE) < n)
        usleep(500);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            EXPECT(numbers[i] != numbers[j]);
    usleep(20000);
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < n; i++)
        EXPECT(pthread_join(t[i], NULL) == 0);
    started = 0;
}

static void *until_hit(void *p) {
    *(int *)p = number();
    __atomic_store_n(&started, 1, __ATOMIC_RELEASE);
    while (!hits)
        usleep(100);
    EXPECT(hits == 1);
    return NULL;
}

/* Sends by a raw call to a thread, which is hit once. */
static void hit(int how) {
    pthread_t t;
    int tid;
    EXPECT(pthread_create(&t, NULL, until_hit, &tid) == 0);
    while (!__atomic_load_n(&started, __ATOMIC_ACQUIRE))
        usleep(500);
    siginfo_t info = {.si_code = SI_QUEUE};
    info.si_value.sival_int = 7;
    switch (how) {
    case 0:
        EXPECT(syscall(SYS_tgkill, getpid(), tid, 0) == 0);
        EXPECT(syscall(SYS_tgkill, getpid(), tid, SIGUSR1) == 0);
        break;
    case 1:
        EXPECT(syscall(SYS_tkill, tid, SIGUSR1) == 0);
        break;
    default:
        EXPECT(syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, SIGUSR1, &info) == 0);
    }
    EXPECT(pthread_join(t, NULL) == 0);
    started = 0;
    EXPECT(hits == 0);
}

/* Threads of other processes can be sent signals, too. */
static void sent_to_another(void) {
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(1);
    }
    int status;
    EXPECT(syscall(SYS_tkill, child, SIGKILL) == 0);
    EXPECT(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* What a thread sends its own process comes before the call returns. */
static void sent_to_itself(void) {
    EXPECT(syscall(SYS_kill, getpid(), SIGUSR1) == 0 && hits == 1);
    EXPECT(syscall(SYS_tgkill, getpid(), number(), SIGUSR1) == 0 && hits == 2);
    siginfo_t info = {.si_code = SI_QUEUE, .si_signo = SIGUSR1};
    info.si_value.sival_int = 8;
    EXPECT(syscall(SYS_rt_sigqueueinfo, getpid(), SIGUSR1, &info) == 0 && hits == 3 && value == 8);
    info.si_value.sival_int = 9;
    EXPECT(syscall(SYS_rt_tgsigqueueinfo, getpid(), number(), SIGUSR1, &info) == 0 && hits == 4 && value == 9);
    int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (pidfd >= 0) {
        EXPECT(syscall(SYS_pidfd_send_signal, pidfd, SIGUSR1, NULL, 0) == 0 && hits == 5);
        EXPECT(syscall(SYS_close, pidfd) == 0);
    }
    EXPECT(syscall(SYS_tgkill, getpid(), number(), 1000) == -1 && errno == EINVAL);
    EXPECT(syscall(SYS_tgkill, getpid(), 1 << 30, SIGUSR1) == -1 && errno == ESRCH);
    hits = 0;
}

static void masks(void) {
    unsigned long usr1 = 1UL << (SIGUSR1 - 1);
    struct {
        unsigned long mask, after;
    } old = {1, 2};
    sigset_t set;
    EXPECT(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &usr1, &old, 8) == 0);
    EXPECT(old.mask == 0 && old.after == 2);
    EXPECT(pthread_sigmask(SIG_BLOCK, NULL, &set) == 0 && sigismember(&set, SIGUSR1));
    EXPECT(raise(SIGUSR1) == 0 && hits == 0);
    EXPECT(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old.mask, NULL, 8) == 0 && hits == 1);
    EXPECT(syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &old, 8) == 0 && old.mask == 0);
    EXPECT(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &usr1, NULL, 4) == -1 && errno == EINVAL);
    EXPECT(syscall(SYS_rt_sigprocmask, 17, &usr1, NULL, 8) == -1 && errno == EINVAL);
    hits = 0;
}

/* As the kernel has them. */
struct action {
    void (*handler)(int, siginfo_t *, void *);
    unsigned long flags;
    void *restorer;
    unsigned long mask;
};

static void actions(void) {
    struct action old, new = {.handler = note, .flags = SA_SIGINFO, .mask = 1ul << (SIGUSR1 - 1)};
    unsigned long usr2 = 1ul << (SIGUSR2 - 1), pending = 0;
    struct timespec none = {0};
    siginfo_t info;
    /* What a handler returns to is the C library's, natively the caller's. */
    struct sigaction given;
    EXPECT(sigaction(SIGUSR1, NULL, &given) == 0);
    new.restorer = (void *)given.sa_restorer;
    new.flags |= new.restorer ? 0x04000000 : 0;
    EXPECT(syscall(SYS_rt_sigaction, SIGUSR2, &new, &old, 8) == 0 && old.handler == NULL);
    EXPECT(syscall(SYS_rt_sigaction, SIGUSR2, NULL, &old, 8) == 0 && old.handler == note);
    EXPECT((old.flags & SA_SIGINFO) && old.mask == new.mask);
    EXPECT(syscall(SYS_rt_sigaction, SIGUSR2, NULL, &old, 4) == -1 && errno == EINVAL);
    EXPECT(raise(SIGUSR2) == 0 && hits == 1);
    EXPECT(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &usr2, NULL, 8) == 0);
    EXPECT(raise(SIGUSR2) == 0 && hits == 1);
    EXPECT(syscall(SYS_rt_sigpending, &pending, 8) == 0 && pending == usr2);
    EXPECT(syscall(SYS_rt_sigtimedwait, &usr2, &info, &none, 8) == SIGUSR2 && info.si_signo == SIGUSR2);
    EXPECT(syscall(SYS_rt_sigtimedwait, &usr2, &info, &none, 8) == -1 && errno == EAGAIN);
    EXPECT(raise(SIGUSR2) == 0 && hits == 1);
    unsigned long nothing = 0;
    EXPECT(syscall(SYS_rt_sigsuspend, &nothing, 8) == -1 && errno == EINTR && hits == 2);
    EXPECT(syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &usr2, NULL, 8) == 0);
    hits = 0;
}

/* The number of any thread means the process. */
static void *sends_to_its_number(void *p) {
    siginfo_t info = {.si_code = SI_QUEUE};
    unsigned long usr2 = 1ul << (SIGUSR2 - 1);
    struct timespec second = {1, 0};
    EXPECT(kill(number(), SIGUSR2) == 0);
    EXPECT(syscall(SYS_rt_sigtimedwait, &usr2, &info, &second, 8) == SIGUSR2);
    info.si_code = SI_QUEUE;
    EXPECT(syscall(SYS_rt_sigqueueinfo, number(), SIGUSR2, &info) == 0);
    EXPECT(syscall(SYS_rt_sigtimedwait, &usr2, &info, &second, 8) == SIGUSR2);
    return p;
}

static void numbers_of_the_process(void) {
    unsigned long usr2 = 1ul << (SIGUSR2 - 1);
    pthread_t t;
    EXPECT(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &usr2, NULL, 8) == 0);
    EXPECT(pthread_create(&t, NULL, sends_to_its_number, NULL) == 0 && pthread_join(t, NULL) == 0);
    EXPECT(syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &usr2, NULL, 8) == 0);
}

/* A thread that waits for a word of several processes runs handlers. */
static int *shared_word;

static void *waits_for_shared(void *p) {
    *(int *)p = number();
    __atomic_store_n(&started, 1, __ATOMIC_RELEASE);
    while (!hits)
        if (syscall(SYS_futex, shared_word, FUTEX_WAIT, 0, NULL, NULL, 0))
            EXPECT(errno == EINTR);
    return NULL;
}

static void shared_futex(void) {
    pthread_t t;
    int tid;
    shared_word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(shared_word != MAP_FAILED && pthread_create(&t, NULL, waits_for_shared, &tid) == 0);
    while (!__atomic_load_n(&started, __ATOMIC_ACQUIRE))
        usleep(500);
    usleep(10000);
    EXPECT(syscall(SYS_tgkill, getpid(), tid, SIGUSR1) == 0);
    EXPECT(pthread_join(t, NULL) == 0);
    started = 0;
    struct timespec soon = {0, 1000000};
    EXPECT(syscall(SYS_futex, shared_word, FUTEX_WAIT, 1, NULL, NULL, 0) == -1 && errno == EAGAIN);
    EXPECT(syscall(SYS_futex, shared_word, FUTEX_WAIT, 0, &soon, NULL, 0) == -1 && errno == ETIMEDOUT);
    EXPECT(munmap(shared_word, 4096) == 0);
}

/* Programs ask by a call that fails anyway whether memory can be read. */
static void unreadable_masks(void) {
    char *pages = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(pages != MAP_FAILED && munmap(pages + 4096, 4096) == 0);
    EXPECT(syscall(SYS_rt_sigprocmask, ~0, pages + 4088, NULL, 8) == -1 && errno == EINVAL);
    EXPECT(syscall(SYS_rt_sigprocmask, ~0, pages + 4091, NULL, 8) == -1 && errno == EFAULT);
    EXPECT(syscall(SYS_rt_sigprocmask, ~0, 16, NULL, 8) == -1 && errno == EFAULT);
    EXPECT(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, pages, 8) == -1 && errno == EFAULT);
    EXPECT(syscall(SYS_rt_sigaction, SIGUSR2, pages + 4096, NULL, 8) == -1 && errno == EFAULT);
    EXPECT(syscall(SYS_rt_sigpending, pages, 8) == -1 && errno == EFAULT);
    EXPECT(syscall(SYS_capget, pages + 4096, NULL) == -1 && errno == EFAULT);
    EXPECT(prctl(PR_GET_NAME, pages, 0, 0, 0) == -1 && errno == EFAULT);
    EXPECT(prctl(PR_SET_NAME, pages + 4096, 0, 0, 0) == -1 && errno == EFAULT);
    EXPECT(prctl(PR_SET_NAME, pages + 4095, 0, 0, 0) == 0);
    EXPECT(epoll_pwait(epoll_create1(0), &(struct epoll_event){0}, 1, 0, (sigset_t *)(pages + 4092)) == -1);
    EXPECT(errno == EFAULT);
    EXPECT(munmap(pages, 4096) == 0);
}

static void *reads(void *p) {
    char c;
    EXPECT(read(ends[0], &c, 1) == 1 && c == 'x');
    return p;
}

/* A thread that waits keeps its file, and the number is free for others. */
static void descriptors(void) {
    pthread_t t;
    EXPECT(pipe(ends) == 0);
    int other = dup(ends[1]);
    EXPECT(pthread_create(&t, NULL, reads, NULL) == 0);
    usleep(10000);
    int null = open("/dev/null", O_RDONLY);
    EXPECT(syscall(SYS_dup3, null, ends[0], O_CLOEXEC) == ends[0]);
    EXPECT(fcntl(ends[0], F_GETFD) == FD_CLOEXEC);
    EXPECT(syscall(SYS_dup2, null, ends[1]) == ends[1]);
    EXPECT(syscall(SYS_close_range, null, null, 0) == 0 && close(null) == -1 && errno == EBADF);
    EXPECT(write(other, "x", 1) == 1);
    EXPECT(pthread_join(t, NULL) == 0);
    EXPECT(syscall(SYS_close, other) == 0 && close(ends[0]) == 0 && close(ends[1]) == 0);
}

/* What a thread has asked for. */
static void attributes(void) {
    cpu_set_t all, one, set;
    long size = syscall(SYS_sched_getaffinity, 0, sizeof all, &all);
    EXPECT(size >= 8 && size <= (long)sizeof all);
    memset((char *)&all + size, 0, sizeof all - size);
    CPU_ZERO(&one);
    CPU_ZERO(&set);
    CPU_SET(0, &one);
    EXPECT(syscall(SYS_sched_setaffinity, number(), sizeof one, &one) == 0);
    EXPECT(syscall(SYS_sched_getaffinity, 0, sizeof set, &set) == size && CPU_EQUAL(&set, &one));
    EXPECT(sched_setaffinity(0, sizeof all, &all) == 0);
    EXPECT(syscall(SYS_sched_getaffinity, 0, 1, &set) == -1 && errno == EINVAL);
    EXPECT(syscall(SYS_setpriority, PRIO_PROCESS, 0, 2) == 0 && getpriority(PRIO_PROCESS, number()) == 2);
    EXPECT(syscall(SYS_getpriority, PRIO_PROCESS, 0) == 18);
}

static volatile int word;

static long wait_for_word(int value, const struct timespec *limit) {
    return syscall(SYS_futex, &word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, value, limit, NULL, 0);
}

static void *sends(void *p) {
    usleep(5000);
    EXPECT(kill(getpid(), SIGUSR1) == 0);
    return p;
}

/* The number of threads that it has woken. */
static void *sends_and_wakes(void *p) {
    sends(p);
    usleep(5000);
    __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
    return (void *)syscall(SYS_futex, &word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
}

static void note_and_change(int n, siginfo_t *info, void *context) {
    note(n, info, context);
    word = 1;
}

/* Another thread sends a signal, and perhaps changes the word, while the calling one waits: the error, or 0. If it came before the
   wait began it has changed the word, and it is tried again. */
static int wait_with(void *(*other)(void *), const struct timespec *limit) {
    pthread_t t;
    void *woken;
    long r;
    int error;
    do {
        hits = word = 0;
        EXPECT(pthread_create(&t, NULL, other, NULL) == 0);
        r = wait_for_word(0, limit);
        error = r ? errno : 0;
        EXPECT(pthread_join(t, &woken) == 0 && hits == 1);
    } while (error == EAGAIN);
    EXPECT(error || (word == 1 && (long)woken == 1));
    return error;
}

static void act(void (*f)(int, siginfo_t *, void *), int flags) {
    struct sigaction action = {.sa_sigaction = f, .sa_flags = SA_SIGINFO | flags};
    EXPECT(sigaction(SIGUSR1, &action, NULL) == 0);
}

/* Handlers run while a thread waits for a futex. Those that restart calls do not end one without a limit. */
static void signals_while_it_waits(void) {
    struct timespec minute = {60, 0};
    act(note_and_change, 0);
    EXPECT(wait_with(sends, NULL) == EINTR && wait_with(sends, &minute) == EINTR);
    act(note_and_change, SA_RESTART);
    EXPECT(wait_with(sends, &minute) == EINTR);
    act(note, SA_RESTART);
    EXPECT(wait_with(sends_and_wakes, NULL) == 0);
    EXPECT(wait_for_word(2, NULL) == -1 && errno == EAGAIN);
}

int main(int argc, char **argv) {
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
    EXPECT(sigaction(SIGUSR1, &action, NULL) == 0);
    every_thread_has_a_number(argc > 1 ? atoi(argv[1]) : 2);
    for (int how = 0; how < 3; how++)
        hit(how);
    sent_to_itself();
    sent_to_another();
    masks();
    unreadable_masks();
    actions();
    numbers_of_the_process();
    shared_futex();
    descriptors();
    attributes();
    signals_while_it_waits();
    return 0;
}
