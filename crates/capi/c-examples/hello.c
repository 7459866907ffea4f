/* A quick thread does not wait for a busy one, although both share one worker. */
#include <quaver.h>
#include <stdio.h>
#include <stdlib.h>

static void *busy(void *unused) {
    (void)unused;
    volatile unsigned long n = 0;
    while (n < 200000000ul)
        n = n + 1;
    puts("busy one: done");
    return NULL;
}

static void *quick(void *unused) {
    (void)unused;
    puts("quick one: done");
    return "nothing to wait for";
}

static void check(int status, const char *what) {
    if (status != QUAVER_OK) {
        fprintf(stderr, "%s: %s\n", what, quaver_last_message());
        exit(1);
    }
}

static void *program(void *unused) {
    (void)unused;
    quaver_thread *b, *q;
    void *answer;
    check(quaver_spawn(&b, &(quaver_thread_attr){.name = "busy"}, busy, NULL), "spawn");
    check(quaver_spawn(&q, NULL, quick, NULL), "spawn");
    check(quaver_join(q, &answer), "join");
    printf("the quick one says: %s\n", (char *)answer);
    check(quaver_join(b, NULL), "join");
    return NULL;
}

int main(void) {
    check(quaver_start("workers=1 quantum=100us"), "start");
    check(quaver_run(program, NULL, NULL), "run");
    uint64_t preemptions = 0;
    check(quaver_stat("preempt_useful", &preemptions), "stat");
    printf("preemptions: %s\n", preemptions > 0 ? "some" : "none");
    check(quaver_shutdown(NULL), "shutdown");
    return 0;
}
