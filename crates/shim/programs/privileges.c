/* What a thread gives up, all have given up: whichever kernel thread runs them. */
#define _GNU_SOURCE
#include "check.h"

#include <dirent.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 4 };

static int stop;

/* Of all kernel threads of the process, what the line of their status that begins so says; -1: not the same. */
static long of_all(const char *key, int base) {
    long all = -2;
    DIR *tasks = opendir("/proc/self/task");
    EXPECT(tasks);
    for (struct dirent *entry; (entry = readdir(tasks));) {
        char path[300], line[200];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE *status = fopen(path, "r");
        if (!status)
            continue; /* it has ended */
        while (fgets(line, sizeof line, status))
            if (!strncmp(line, key, strlen(key))) {
                long here = strtol(line + strlen(key), NULL, base);
                all = all == -2 || all == here ? here : -1;
            }
        fclose(status);
    }
    closedir(tasks);
    return all;
}

/* It may not ask for its parent. */
static void *forbidden(void *p) {
    do {
        errno = 0;
        EXPECT(syscall(SYS_getppid) == -1 && errno == ENXIO);
        spin(1000);
    } while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE));
    return p;
}

static void forbid(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENXIO),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0);
    EXPECT(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
}

/* Called by a number of its own, as threads have them. */
static void *has_no_capabilities(void *p) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, (int)syscall(SYS_gettid)};
    struct __user_cap_data_struct data[2] = {{~0u, ~0u, ~0u}, {~0u, ~0u, ~0u}};
    EXPECT(syscall(SYS_capget, &header, data) == 0 && data[0].effective == 0 && data[1].effective == 0);
    header.version = 7;
    EXPECT(syscall(SYS_capget, &header, data) == -1 && errno == EINVAL);
    EXPECT(header.version == _LINUX_CAPABILITY_VERSION_3);
    return p;
}

static void drop_capabilities(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, (int)syscall(SYS_gettid)};
    struct __user_cap_data_struct data[2] = {0};
    EXPECT(syscall(SYS_capset, &header, data) == 0);
    EXPECT(of_all("CapEff:", 16) == 0 && of_all("CapPrm:", 16) == 0);
}

int main(int argc, char **argv) {
    int burners = argc > 1 ? atoi(argv[1]) : 2;
    pthread_t t[THREADS];
    EXPECT(of_all("NoNewPrivs:", 10) == 0);
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    EXPECT(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 && of_all("NoNewPrivs:", 10) == 1);
    forbid();
    EXPECT(of_all("Seccomp:", 10) == 2);
    drop_capabilities();
    /* Without preemption one after the other. */
    if (!burners)
        __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&t[i], NULL, forbidden, NULL) == 0);
    usleep(50000);
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_join(t[i], NULL) == 0);
    EXPECT(pthread_create(&t[0], NULL, has_no_capabilities, NULL) == 0 && pthread_join(t[0], NULL) == 0);
    puts("privileges: ok");
    return 0;
}
