// Runs `main` of two shared libraries in two threads and takes the CPU time of both.
//
//   pair SCALE REPORT CPU LIBRARY LIBRARY
//
// REPORT: one 64-bit number, the CPU time in ns, without that of threads that may not use CPU: a clock. The libraries are two copies of one file: each has variables of its
// own.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct part {
    int (*run)(int, char **);
    char *arguments[3];
    int result;
    pthread_t thread;
};

static uint64_t now(clockid_t clock) {
    struct timespec time;
    return clock_gettime(clock, &time) ? 0 : (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t cpu_time(int cpu) {
    uint64_t sum = now(CLOCK_PROCESS_CPUTIME_ID);
    DIR *threads = opendir("/proc/self/task");
    struct dirent *entry;
    while (threads && (entry = readdir(threads))) {
        pid_t thread = atoi(entry->d_name);
        cpu_set_t cpus;
        if (thread > 0 && !sched_getaffinity(thread, sizeof cpus, &cpus) && !CPU_ISSET(cpu, &cpus))
            sum -= now(~(clockid_t)thread << 3 | 6); // The kernel's name of a thread's CPU clock.
    }
    if (threads)
        closedir(threads);
    return sum;
}

static _Noreturn void die(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void *run(void *argument) {
    struct part *part = argument;
    part->result = part->run(2, part->arguments);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: %s SCALE REPORT CPU LIBRARY LIBRARY\n", argv[0]);
        return 2;
    }
    struct part parts[2];
    for (int i = 0; i < 2; i++) {
        void *library = dlopen(argv[4 + i], RTLD_NOW | RTLD_LOCAL);
        void *symbol = library ? dlsym(library, "main") : NULL;
        if (!symbol)
            die(dlerror());
        parts[i] = (struct part){.run = (int (*)(int, char **))symbol, .arguments = {argv[4 + i], argv[1], NULL}};
    }
    int cpu = atoi(argv[3]);
    uint64_t start = cpu_time(cpu);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&parts[i].thread, NULL, run, &parts[i]))
            die("cannot start a thread");
    for (int i = 0; i < 2; i++)
        if (pthread_join(parts[i].thread, NULL))
            die("cannot join a thread");
    uint64_t cpu_ns = cpu_time(cpu) - start;
    FILE *report = fopen(argv[2], "wb");
    if (!report || fwrite(&cpu_ns, sizeof cpu_ns, 1, report) != 1 || fclose(report))
        die("cannot write the report");
    return parts[0].result | parts[1].result;
}
