/* Where programs may run that a thread of a pinned worker starts, in every way: argument N says on how many CPUs. */
#define _GNU_SOURCE
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static int expected;
static char self_[] = "/proc/self/exe", program[1000], command[1100], count_[] = "count";
static char *counting[] = {self_, count_, NULL};

static int cpus(void) {
    cpu_set_t set;
    EXPECT(sched_getaffinity(0, sizeof set, &set) == 0);
    return CPU_COUNT(&set) & 0x7f;
}

static void expect_count(pid_t pid) {
    int status;
    EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == expected);
}

static void *starts(void *p) {
    pid_t pid = fork();
    if (pid == 0)
        _exit(cpus());
    expect_count(pid);
    pid = fork();
    if (pid == 0) {
        execv(program, counting);
        _exit(99);
    }
    expect_count(pid);
    pid = vfork();
    if (pid == 0) {
        execv(program, counting);
        _exit(99);
    }
    expect_count(pid);
    EXPECT(posix_spawn(&pid, program, NULL, NULL, counting, environ) == 0);
    expect_count(pid);
    EXPECT(posix_spawnp(&pid, program, NULL, NULL, counting, environ) == 0);
    expect_count(pid);
    EXPECT(WEXITSTATUS(system(command)) == expected);
    FILE *pipe = popen(command, "r");
    EXPECT(pipe && WEXITSTATUS(pclose(pipe)) == expected);
    return p;
}

static void *ends(void *p) {
    return p;
}

int main(int argc, char **argv) {
    pthread_t thread;
    EXPECT(argc == 2);
    if (!strcmp(argv[1], count_))
        return cpus();
    expected = atoi(argv[1]);
    /* The image after the first one starts threads, too: its workers find their CPUs. */
    if (expected) {
        ssize_t length = readlink(self_, program, sizeof program - 1);
        EXPECT(length > 0);
        snprintf(command, sizeof command, "'%s' %s", program, count_);
        starts(NULL);
    }
    EXPECT(pthread_create(&thread, NULL, expected ? starts : ends, NULL) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    if (expected)
        execl(program, program, "0", (char *)NULL);
    return expected;
}
