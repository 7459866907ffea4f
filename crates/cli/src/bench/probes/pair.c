// Runs `main` of two shared libraries in two threads and takes the CPU time of both.
//
//   pair SCALE REPORT LIBRARY LIBRARY
//
// REPORT: one 64-bit number, the CPU time in ns. The libraries are two copies of one file: each has variables of its
// own.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
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

static uint64_t cpu(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
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
    if (argc != 5) {
        fprintf(stderr, "usage: %s SCALE REPORT LIBRARY LIBRARY\n", argv[0]);
        return 2;
    }
    struct part parts[2];
    for (int i = 0; i < 2; i++) {
        void *library = dlopen(argv[3 + i], RTLD_NOW | RTLD_LOCAL);
        void *symbol = library ? dlsym(library, "main") : NULL;
        if (!symbol)
            die(dlerror());
        parts[i] = (struct part){.run = (int (*)(int, char **))symbol, .arguments = {argv[3 + i], argv[1], NULL}};
    }
    uint64_t start = cpu();
    for (int i = 0; i < 2; i++)
        if (pthread_create(&parts[i].thread, NULL, run, &parts[i]))
            die("cannot start a thread");
    for (int i = 0; i < 2; i++)
        if (pthread_join(parts[i].thread, NULL))
            die("cannot join a thread");
    uint64_t cpu_ns = cpu() - start;
    FILE *report = fopen(argv[2], "wb");
    if (!report || fwrite(&cpu_ns, sizeof cpu_ns, 1, report) != 1 || fclose(report))
        die("cannot write the report");
    return parts[0].result | parts[1].result;
}
