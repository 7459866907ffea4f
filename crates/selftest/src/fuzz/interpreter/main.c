/* Interprets programs: fuzz PROGRAMS TRACE [FIRST [COUNT]]. See ../mod.rs. */
#include "fuzz.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct thread threads[THREADS];
struct object *objects;
struct record *records;
__thread struct thread *me;
static struct operation *operations;
static int operation_count, thread_count;

static void fail(const char *what) {
    fprintf(stderr, "fuzz: %s: %s\n", what, strerror(errno));
    _exit(3);
}

void nap(long us) {
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    nanosleep(&t, NULL);
    pthread_setcancelstate(state, NULL);
}

void pass_time(int *turns) {
    if (++*turns < 10)
        sched_yield();
    else
        nap(*turns < 100 ? 50 : 1000);
}

int polite;

void compute_a_while(void) {
    burn(100, 1);
    if (polite)
        sched_yield();
}

struct timespec in_ms(clockid_t clock, long ms) {
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_nsec += ms % 1000 * 1000000;
    t.tv_sec += ms / 1000 + t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

uint64_t burn(long rounds, uint64_t seed) {
    uint64_t h = seed * 0x9e3779b97f4a7c15u + 1;
    double d = 1.0 + (double)(seed & 0xff);
    for (long i = 0; i < rounds; i++) {
        h = (h ^ (h >> 29)) * 0xbf58476d1ce4e5b9u;
        d = d * 1.0000001 + (double)(h & 7);
        if (d > 1e12)
            d *= 1e-6;
    }
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    return (h ^ bits) & 0x7fffffffffffffff;
}

static void wait_for(const struct operation *o) {
    for (int i = 0; i < o->after_count; i++) {
        struct record *r = &records[o->after[i].operation];
        _Atomic uint32_t *word = o->after[i].begun ? &r->begun : &r->done;
        int turns = 0;
        while (!atomic_load(word))
            pass_time(&turns);
    }
}

static void perform(int number) {
    struct operation *o = &operations[number];
    struct record *r = &records[number];
    wait_for(o);
    if (o->delay > 0)
        burn(o->delay * 300, 1);
    else if (o->delay < 0)
        nap(-o->delay);
    me->current = r;
    atomic_store(&r->begun, 1);
    o->run(o->a, r);
    atomic_store(&r->done, 1);
}

/* A cleanup handler: the thread was cancelled in an operation, or leaves by pthread_exit. */
static void ended(void *p) {
    (void)p;
    if (!me->leaving)
        atomic_store(&me->current->done, 2);
}

void *thread_main(void *p) {
    me = p;
    pthread_cleanup_push(ended, NULL);
    for (int i = 0; i < me->count; i++)
        perform(me->operations[i]);
    pthread_cleanup_pop(0);
    return (void *)(long)(1000 + me->index);
}

static void (*find(const char *name))(const long *, struct record *) {
    static const struct entry *const tables[] = {lock_operations, wait_operations,   signal_operations, timer_operations,
                                                 file_operations, socket_operations, message_operations,
                                                 thread_operations};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const struct entry *e = tables[i]; e->name; e++)
            if (!strcmp(e->name, name))
                return e->run;
    errno = 0;
    fail(name);
    return NULL;
}

/* THREAD NAME ARGUMENT... ; DELAY ; [b]OPERATION... */
static void parse(char *line) {
    struct operation *o = &operations[operation_count];
    memset(o, 0, sizeof *o);
    char *save, *word = strtok_r(line, " \n", &save);
    o->thread = atoi(word);
    o->run = find(strtok_r(NULL, " \n", &save));
    for (int i = 0; (word = strtok_r(NULL, " \n", &save)) && *word != ';'; i++)
        o->a[i] = atol(word);
    o->delay = atol(strtok_r(NULL, " \n", &save));
    strtok_r(NULL, " \n", &save);
    while ((word = strtok_r(NULL, " \n", &save))) {
        if (o->after_count == AFTER)
            fail("too many operations to wait for");
        o->after[o->after_count].begun = *word == 'b';
        o->after[o->after_count++].operation = atoi(word + (*word == 'b'));
    }
    struct thread *t = &threads[o->thread];
    t->operations = realloc(t->operations, (t->count + 1) * sizeof *t->operations);
    t->operations[t->count++] = operation_count++;
}

void signals_before(void);
void signals_after(void);

/* Runs the program that has been read; thread 0 is the process's main thread. */
static void run_program(void) {
    for (int i = 0; i < THREADS; i++)
        threads[i].index = i;
    memset(objects, 0, OBJECTS * sizeof *objects);
    for (int i = 0; i < OBJECTS; i++)
        objects[i].fd[0] = objects[i].fd[1] = -1;
    threads[0].id = pthread_self();
    me = &threads[0];
    signals_before();
    thread_main(me);
    signals_after();
    for (int i = 0; i < OBJECTS; i++) {
        if (objects[i].file)
            fclose(objects[i].file);
        else if (objects[i].fd[0] >= 0)
            close(objects[i].fd[0]);
        if (objects[i].fd[1] >= 0)
            close(objects[i].fd[1]);
    }
    for (int i = 0; i < THREADS; i++) {
        free(threads[i].operations);
        if (threads[i].joined)
            free(threads[i].stack);
        memset(&threads[i], 0, sizeof threads[i]);
    }
}

int main(int argc, char **argv) {
    if (argc < 3)
        fail("fuzz PROGRAMS TRACE [FIRST [COUNT]]");
    FILE *programs = fopen(argv[1], "re");
    int trace = open(argv[2], O_RDWR | O_CLOEXEC), first = argc > 3 ? atoi(argv[3]) : 0;
    int last = argc > 4 ? first + atoi(argv[4]) : INT32_MAX;
    struct stat status;
    if (!programs || trace < 0 || fstat(trace, &status))
        fail("cannot open its files");
    struct record *all = mmap(NULL, status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, trace, 0);
    if (all == MAP_FAILED)
        fail("cannot map the trace");
    polite = getenv("FUZZ_POLITE") != NULL;
    objects = calloc(OBJECTS, sizeof *objects);
    operations = calloc(status.st_size / sizeof *records + 1, sizeof *operations);
    records = all;
    char line[1024];
    for (int program = -1; fgets(line, sizeof line, programs);) {
        if (sscanf(line, "program %d", &thread_count) == 1) {
            program++;
        } else if (!strcmp(line, "end\n")) {
            if (program >= first && program < last)
                run_program();
            records += operation_count;
            operation_count = 0;
            for (int i = 0; i < THREADS; i++)
                threads[i].count = 0;
        } else {
            parse(line);
        }
    }
    return 0;
}
