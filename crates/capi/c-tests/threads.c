/* Handles of threads, tokens and quaver_select, from C. */
#include <quaver.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s does not hold (last message: %s)\n", __FILE__, __LINE__, #condition,            \
                    quaver_last_message());                                                                            \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
#define OK(call) EXPECT((call) == QUAVER_OK)

enum { SECOND = 1000000000, SHORT = 1000000, ITEMS = 400 };

static quaver_cancel_token *stop;
static quaver_channel *channels[3];

static void *parks(void *unused) {
    (void)unused;
    quaver_park(QUAVER_FOREVER);
    return (void *)7;
}

static void *sleeps(void *unused) {
    (void)unused;
    EXPECT(quaver_cancel_token_sleep(stop, 1000LL * SECOND) == QUAVER_CANCELLED);
    EXPECT(strcmp(quaver_last_message(), "cancelled") == 0);
    EXPECT(quaver_cancel_token_sleep(stop, QUAVER_FOREVER) == QUAVER_CANCELLED);
    return NULL;
}

/* Touches about a megabyte of the stack. */
static void *deep(void *levels) {
    volatile char page[4096];
    page[0] = page[sizeof page - 1] = 1;
    if ((uintptr_t)levels > 0)
        deep((void *)((uintptr_t)levels - 1));
    return (void *)(long)page[0];
}

static void *sends(void *place) {
    for (long i = 1; i <= ITEMS; i++) {
        if (i % 50 == 0)
            quaver_sleep(20000);
        OK(quaver_channel_send(channels[(long)place], (void *)i, QUAVER_FOREVER));
    }
    OK(quaver_channel_close(channels[(long)place]));
    return NULL;
}

static void joins(void) {
    quaver_thread *t;
    void *result = NULL;
    quaver_park(SHORT);
    OK(quaver_spawn(&t, NULL, parks, NULL));
    EXPECT(quaver_join_timeout(t, 0, &result) == QUAVER_TIMED_OUT);
    EXPECT(quaver_join_timeout(t, 3 * SHORT, &result) == QUAVER_TIMED_OUT);
    OK(quaver_unpark(t));
    EXPECT(quaver_join_timeout(t, 1000LL * SECOND, &result) == QUAVER_OK && result == (void *)7);
    OK(quaver_spawn(&t, NULL, parks, NULL));
    quaver_sleep(2 * SHORT);
    OK(quaver_unpark(t));
    OK(quaver_join_timeout(t, QUAVER_FOREVER, NULL));
    EXPECT(quaver_join_timeout(NULL, 0, NULL) == QUAVER_INVALID && quaver_unpark(NULL) == QUAVER_INVALID);
}

static void attributes(void) {
    quaver_thread *t;
    quaver_thread_attr attr = {.name = "deep", .priority = 4, .weight = 300, .stack_size = 4 << 20};
    for (int i = 0; i < 10; i++) {
        OK(quaver_spawn(&t, &attr, deep, (void *)250));
        OK(quaver_join(t, NULL));
    }
    attr = (quaver_thread_attr){.service = QUAVER_BEST_EFFORT, .priority = -99};
    OK(quaver_spawn(&t, &attr, deep, NULL));
    OK(quaver_join(t, NULL));
    attr.service = 9;
    EXPECT(quaver_spawn(&t, &attr, deep, NULL) == QUAVER_INVALID && strstr(quaver_last_message(), "no service 9"));
    attr = (quaver_thread_attr){.stack_size = (size_t)1 << 60};
    EXPECT(quaver_spawn(&t, &attr, deep, NULL) == QUAVER_EXHAUSTED && strstr(quaver_last_message(), "stack"));
}

static bool heeded;

static void priorities(void) {
    quaver_thread *t;
    OK(quaver_spawn(&t, NULL, parks, NULL));
    EXPECT(quaver_set_priority(t, 2) == (heeded ? QUAVER_OK : QUAVER_STATE));
    EXPECT(quaver_set_priority(t, -100) == (heeded ? QUAVER_OK : QUAVER_STATE));
    EXPECT(quaver_set_priority(NULL, 0) == QUAVER_INVALID);
    OK(quaver_unpark(t));
    OK(quaver_join(t, NULL));
}

static void cancels(void) {
    quaver_thread *t[5];
    stop = quaver_cancel_token_new();
    OK(quaver_cancel_token_sleep(stop, SHORT));
    for (int i = 0; i < 5; i++)
        OK(quaver_spawn(&t[i], NULL, sleeps, NULL));
    EXPECT(!quaver_cancel_token_is_cancelled(stop));
    OK(quaver_cancel_token_cancel(stop));
    for (int i = 0; i < 5; i++)
        OK(quaver_join(t[i], NULL));
    EXPECT(quaver_cancel_token_is_cancelled(stop) && !quaver_cancel_token_is_cancelled(NULL));
    EXPECT(quaver_cancel_token_cancel(NULL) == QUAVER_INVALID);
    quaver_cancel_token_free(NULL);
}

static void selects(void) {
    quaver_thread *t[3];
    quaver_channel *open[3];
    size_t count = 3, index = 99;
    void *item = NULL;
    for (long i = 0; i < 3; i++) {
        open[i] = channels[i] = quaver_channel_new(i == 0 ? 1 : 4);
        EXPECT(channels[i] != NULL);
    }
    EXPECT(quaver_select(channels, 3, NULL, 0, &index, &item) == QUAVER_TIMED_OUT);
    EXPECT(quaver_select(channels, 3, NULL, SHORT, NULL, NULL) == QUAVER_TIMED_OUT);
    EXPECT(quaver_select(channels, 3, stop, QUAVER_FOREVER, &index, &item) == QUAVER_CANCELLED && index == 3);
    EXPECT(quaver_select(NULL, 0, stop, QUAVER_FOREVER, NULL, NULL) == QUAVER_CANCELLED);
    EXPECT(quaver_select(NULL, 1, NULL, 0, NULL, NULL) == QUAVER_INVALID);
    for (long i = 0; i < 3; i++)
        OK(quaver_spawn(&t[i], NULL, sends, (void *)i));
    long next[3] = {1, 1, 1};
    while (count > 0) {
        int status = quaver_select(open, count, NULL, 1000LL * SECOND, &index, &item);
        if (status == QUAVER_CLOSED) {
            open[index] = open[--count];
            continue;
        }
        OK(status);
        long place = open[index] == channels[0] ? 0 : open[index] == channels[1] ? 1 : 2;
        EXPECT((long)item == next[place]++);
    }
    for (int i = 0; i < 3; i++) {
        EXPECT(next[i] == ITEMS + 1);
        OK(quaver_join(t[i], NULL));
        quaver_channel_free(channels[i]);
    }
    quaver_cancel_token_free(stop);
}

/* The pointer may be taken before the call whose message is wanted. */
static void messages(void) {
    const char *message = quaver_last_message();
    EXPECT(quaver_join(NULL, NULL) == QUAVER_INVALID && strstr(message, "thread is null"));
    for (int i = 0; i < 100; i++) {
        EXPECT(quaver_mutex_lock(NULL) == QUAVER_INVALID && message == quaver_last_message());
        EXPECT(strstr(message, "quaver_mutex_lock"));
    }
}

static void *program(void *unused) {
    (void)unused;
    joins();
    attributes();
    priorities();
    cancels();
    selects();
    messages();
    return NULL;
}

int main(void) {
    static const char *const settings[] = {"workers=1,quantum=50us", "workers=2; policy=priority", "workers=1 quantum=off"};
    messages();
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        heeded = strstr(settings[i], "policy=priority") != NULL;
        OK(quaver_start(settings[i]));
        OK(quaver_run(program, NULL, NULL));
        OK(quaver_shutdown(NULL));
    }
    puts("threads, tokens and channels: as promised");
    return 0;
}
