/* What a read that blocks costs: a byte goes to another process and comes back, through pipes, `echo read|ring SECONDS`. The
 * other one waits in read(2); this one, too, or as a runtime with io_uring would: it submits a read and waits for its completion.
 * Prints the microseconds on the wall, and of this process's CPU time, for one turn to and fro. */
#define _GNU_SOURCE
#include "check.h"

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int to[2], fro[2];

static struct {
    int fd;
    unsigned *tail, *mask, *array, *completed_head, *completed_tail, *completed_mask;
    struct io_uring_sqe *entries;
    struct io_uring_cqe *completions;
} ring;

static void ring_open(void) {
    struct io_uring_params p = {0};
    ring.fd = (int)syscall(SYS_io_uring_setup, 4, &p);
    if (ring.fd < 0) {
        fprintf(stderr, "io_uring is not available: %s\n", strerror(errno));
        exit(2);
    }
    int protection = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_POPULATE;
    EXPECT(p.features & IORING_FEAT_SINGLE_MMAP);
    char *rings = mmap(NULL, 4096 * 4, protection, flags, ring.fd, IORING_OFF_SQ_RING);
    ring.entries = mmap(NULL, p.sq_entries * sizeof *ring.entries, protection, flags, ring.fd, IORING_OFF_SQES);
    EXPECT(rings != MAP_FAILED && (void *)ring.entries != MAP_FAILED);
    ring.tail = (unsigned *)(rings + p.sq_off.tail);
    ring.mask = (unsigned *)(rings + p.sq_off.ring_mask);
    ring.array = (unsigned *)(rings + p.sq_off.array);
    ring.completed_head = (unsigned *)(rings + p.cq_off.head);
    ring.completed_tail = (unsigned *)(rings + p.cq_off.tail);
    ring.completed_mask = (unsigned *)(rings + p.cq_off.ring_mask);
    ring.completions = (struct io_uring_cqe *)(rings + p.cq_off.cqes);
}

static long ring_read(int fd, char *byte) {
    unsigned tail = *ring.tail, slot = tail & *ring.mask;
    ring.entries[slot] = (struct io_uring_sqe){
        .opcode = IORING_OP_READ, .fd = fd, .addr = (unsigned long)byte, .len = 1, .off = (unsigned long long)-1};
    ring.array[slot] = slot;
    __atomic_store_n(ring.tail, tail + 1, __ATOMIC_RELEASE);
    unsigned head = *ring.completed_head;
    unsigned submit = 1;
    while (__atomic_load_n(ring.completed_tail, __ATOMIC_ACQUIRE) == head) {
        long r = syscall(SYS_io_uring_enter, ring.fd, submit, 1, IORING_ENTER_GETEVENTS, NULL, 0);
        EXPECT(r >= 0 || errno == EINTR);
        submit = 0;
    }
    long result = ring.completions[head & *ring.completed_mask].res;
    __atomic_store_n(ring.completed_head, head + 1, __ATOMIC_RELEASE);
    return result;
}

static void answer(void) {
    char byte;
    close(to[1]);
    while (read(to[0], &byte, 1) == 1)
        EXPECT(write(fro[1], &byte, 1) == 1);
    _exit(0);
}

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    int with_ring = argc > 1 && strcmp(argv[1], "ring") == 0;
    double seconds = argc > 2 ? atof(argv[2]) : 1;
    char byte = 'x';
    long turns = 0;
    pid_t child;
    EXPECT(pipe(to) == 0 && pipe(fro) == 0);
    if (with_ring)
        ring_open();
    EXPECT((child = fork()) >= 0);
    if (child == 0)
        answer();
    double wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    while (turns % 100 || now(CLOCK_MONOTONIC) - wall < seconds * 1e9) {
        EXPECT(write(to[1], &byte, 1) == 1);
        EXPECT((with_ring ? ring_read(fro[0], &byte) : read(fro[0], &byte, 1)) == 1);
        turns++;
    }
    wall = now(CLOCK_MONOTONIC) - wall;
    cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("%.2f %.2f\n", wall / (double)turns / 1e3, cpu / (double)turns / 1e3);
    close(to[1]);
    EXPECT(waitpid(child, NULL, 0) == child);
    return 0;
}
