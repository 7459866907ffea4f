/* Built with probes, busy threads are preempted there. */
#include <quaver.h>
#include <stdio.h>
#include <stdlib.h>

enum { TURNS = 30000000, ENOUGH = 100 };

static void check(int status, const char *what) {
    if (status != QUAVER_OK) {
        fprintf(stderr, "%s: %s\n", what, quaver_last_message());
        exit(1);
    }
}

static void *work(void *seed) {
    uint64_t x = *(uint64_t *)seed;
    for (long i = 0; i < TURNS; i++)
        x = (x ^ x >> 29) * 6364136223846793005u + 1442695040888963407u;
    *(uint64_t *)seed = x;
    return NULL;
}

static void *program(void *unused) {
    (void)unused;
    uint64_t seeds[] = {7, 7}, alone = 7;
    quaver_thread *threads[2];
    for (int i = 0; i < 2; i++)
        check(quaver_spawn(&threads[i], NULL, work, &seeds[i]), "spawn");
    for (int i = 0; i < 2; i++)
        check(quaver_join(threads[i], NULL), "join");
    work(&alone);
    if (seeds[0] != alone || seeds[1] != alone) {
        fprintf(stderr, "preempted, the threads compute something else\n");
        exit(1);
    }
    return NULL;
}

int main(void) {
    check(quaver_start("workers=1 policy=rr quantum=5us notification=probe"), "start");
    check(quaver_run(program, NULL, NULL), "run");
    uint64_t taken = 0;
    check(quaver_stat("preempt_at_probe", &taken), "stat");
    check(quaver_shutdown(NULL), "shutdown");
    if (taken < ENOUGH) {
        fprintf(stderr, "only %llu preemptions at probes\n", (unsigned long long)taken);
        return 1;
    }
    puts("preempted at probes");
    return 0;
}
