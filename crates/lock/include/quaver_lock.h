/*
 * quaver-lock: locks that spin while every holder runs, and block when one is preempted (FlexGuard).
 *
 * Link with libquaver_lock.so, or with libquaver_lock.a and -lpthread -ldl. Call quaver_lock_attach at the start of the
 * program; without it locks work, but block early.
 *
 * A lock is for the threads of one process. It is not recursive, and is freed by the thread that took it. No function
 * may be called in a signal handler. None changes errno, and none is a cancellation point.
 */
#ifndef QUAVER_LOCK_H
#define QUAVER_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A lock of 8 bytes. Ready when its memory is zero; needs no destruction. Not to be moved or copied while used. */
typedef struct {
    uint32_t word;
    uint32_t tail;
} quaver_lock_t;

/** A free lock. */
#define QUAVER_LOCK_INIT {0, 0}

/** Waits for the lock, spinning or in the kernel, and takes it. */
void quaver_lock_lock(quaver_lock_t *lock);

/** Takes the lock if it is free; never waits. Returns whether it did. */
bool quaver_lock_trylock(quaver_lock_t *lock);

/** Waits at most so many nanoseconds. Returns whether it took the lock. */
bool quaver_lock_timedlock(quaver_lock_t *lock, uint64_t nanoseconds);

/** Frees the lock, which the calling thread holds. */
void quaver_lock_unlock(quaver_lock_t *lock);

/** Who hosts the monitor. */
enum quaver_lock_monitor {
    /** There is none: locks block early. */
    QUAVER_LOCK_NONE = 0,
    /** `quaver lockd`. */
    QUAVER_LOCK_LOCKD = 1,
    /** This process. */
    QUAVER_LOCK_OWN = 2
};

/**
 * Finds a monitor for the locks of this process: lockd, or, with CAP_BPF and CAP_PERFMON, a program of its own. Takes up
 * to two seconds. If there is none, why is written to `why` (unless it is null): at most `size` bytes with the final zero.
 */
enum quaver_lock_monitor quaver_lock_attach(char *why, size_t size);

#ifdef __cplusplus
}
#endif

#endif
