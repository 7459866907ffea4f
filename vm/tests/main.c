/* Runs the tests whose names are given, or all, and prints PASS or FAIL for each; `-list` prints the names. */
#include "tests.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

_Thread_local volatile uint64_t got[64], order[8], ordered;

__attribute__((target("general-regs-only"), interrupt)) void handler(struct __uintr_frame *frame,
                                                                    unsigned long long vector) {
    (void)frame;
    got[vector & 63]++;
    if (ordered < 8)
        order[ordered++] = vector;
}

_Noreturn void failed(const char *file, int line, const char *what) {
    printf("%s:%d: not so: %s (errno %d)\n", file, line, what, errno);
    fflush(stdout);
    _exit(1);
}

_Noreturn void failed_call(const char *file, int line, const char *call, const char *error, long result) {
    printf("%s:%d: %s: result %ld, errno %d (%s), not %s\n", file, line, call, result, errno, strerror(errno), error);
    fflush(stdout);
    _exit(1);
}

int device(void) {
    int fd = open(QUAVER_DEVICE, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

int try_register(int fd, const void *entry, uint64_t stack) {
    struct quaver_handler in = {.handler = (uintptr_t)entry, .stack = stack};
    return ioctl(fd, QUAVER_REGISTER, &in);
}

void receive(int fd) {
    CHECK(!try_register(fd, handler, 128));
}

int vector_fd(int fd, uint32_t vector) {
    struct quaver_vector in = {.vector = vector};
    int result = ioctl(fd, QUAVER_VECTOR, &in);
    CHECK(result >= 0);
    return result;
}

int route(int fd, int index, int vector) {
    struct quaver_route in = {.index = index, .vector_fd = vector};
    return ioctl(fd, QUAVER_ROUTE, &in);
}

int route_to_self(int fd, uint32_t vector) {
    int descriptor = vector_fd(fd, vector), index = route(fd, QUAVER_ANY, descriptor);
    CHECK(index >= 0);
    close(descriptor);
    return index;
}

void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    CHECK(!sched_setaffinity(0, sizeof(set), &set));
}

int cpus(void) {
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

void sleep_ms(long ms) {
    struct timespec rest = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&rest, &rest) && errno == EINTR)
        ;
}

bool spin_until(volatile uint64_t *count, uint64_t wanted) {
    for (long i = 0; i < 20000000 && *count < wanted; i++)
        __builtin_ia32_pause();
    return *count >= wanted;
}

int start(int (*function)(void *), void *argument) {
    int pid = fork();
    CHECK(pid >= 0);
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(function(argument));
    }
    return pid;
}

int ended(int pid) {
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void *shared(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

static pthread_t threads[16];
static int thread_count;

void thread(void *(*function)(void *), void *argument) {
    CHECK(thread_count < 16);
    CHECK(!pthread_create(&threads[thread_count], NULL, function, argument));
    thread_count++;
}

void join_all(void) {
    while (thread_count)
        CHECK(!pthread_join(threads[--thread_count], NULL));
}

long file_number(const char *path) {
    long number = -1;
    FILE *file = fopen(path, "r");
    if (file) {
        if (fscanf(file, "%ld", &number) != 1)
            number = -1;
        fclose(file);
    }
    return number;
}

static int run(void *argument) {
    ((const struct test *)argument)->run();
    return 0;
}

static bool passes(const struct test *test) {
    enum { LIMIT_S = 90 };
    sigset_t child;
    struct timespec limit = {LIMIT_S, 0};
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    uint64_t begin = now_ns();
    int pid = start(run, (void *)test);
    if (sigtimedwait(&child, NULL, &limit) < 0) {
        printf("%s: not done after %d s\n", test->name, LIMIT_S);
        kill(pid, SIGKILL);
    }
    int status = ended(pid);
    if (status < 0)
        printf("%s: ended by signal %d\n", test->name, -status);
    printf("%s %s (%ld ms)\n", status ? "FAIL" : "PASS", test->name, (long)((now_ns() - begin) / 1000000));
    fflush(stdout);
    return !status;
}

static bool wanted(const char *name, int count, char **names) {
    for (int i = 1; i < count; i++)
        if (!strcmp(names[i], name))
            return true;
    return count == 1;
}

int main(int count, char **names) {
    const struct test *const all[] = {delivery_tests, route_tests,    timer_tests, core_tests,
                                      end_tests,      argument_tests, NULL};
    bool list = count == 2 && !strcmp(names[1], "-list"), good = true;
    for (int i = 0; all[i]; i++) {
        for (const struct test *test = all[i]; test->name; test++) {
            if (list)
                printf("%s %d\n", test->name, test->cpus);
            else if (wanted(test->name, count, names) && test->cpus <= cpus())
                good &= passes(test);
        }
    }
    return !good;
}
