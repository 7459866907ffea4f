/*
 * Quaver: preemptive user-level threads for Linux.
 *
 * Many user threads run on few workers; a running thread is interrupted after a quantum of microseconds when, and only
 * when, something else is waiting. Any code is preempted at any instruction.
 *
 * Conventions
 *
 *   Results      Functions that can fail return an int: QUAVER_OK (0) or another enum quaver_status. quaver_last_message()
 *                says in words what went wrong last on the calling thread.
 *   Timeouts     int64_t nanoseconds. QUAVER_FOREVER (any negative number) waits for ever, 0 does not wait.
 *   Threads      Unless a comment says otherwise, everything may be called on user threads and on ordinary (kernel) threads
 *                alike. A user thread that waits gives its worker to others; a kernel thread sleeps.
 *   Preemption   A thread may be preempted anywhere in these functions.
 *   Signals      No function may be called in a signal handler.
 *   Objects      Mutexes, condition variables, read-write locks and onces are ready when their memory is zero, and need no
 *                destruction. None may be copied or moved while somebody uses it.
 *
 * errno, thread_local variables, pthread_getspecific and C++ exceptions belong to the user thread and move with it.
 * pthread mutexes and other locks may be used on user threads too: a wait in the kernel gives the worker away.
 *
 * The library defines syscall, nanosleep, clock_nanosleep and sched_yield, so that they do not block a worker.
 */
#ifndef QUAVER_H
#define QUAVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Waits without a limit. */
#define QUAVER_FOREVER ((int64_t)-1)

/** What a function returns. */
enum quaver_status {
    /** Success. */
    QUAVER_OK = 0,
    /** An argument cannot be used. */
    QUAVER_INVALID = 1,
    /** No runtime is running. */
    QUAVER_NO_RUNTIME = 2,
    /** The runtime cannot be started. */
    QUAVER_START = 3,
    /** No further thread can be made: the limit of threads, or memory. */
    QUAVER_EXHAUSTED = 4,
    /** The time is over. */
    QUAVER_TIMED_OUT = 5,
    /** It is in use. */
    QUAVER_BUSY = 6,
    /** The channel is closed. */
    QUAVER_CLOSED = 7,
    /** The runtime has been shut down. */
    QUAVER_SHUT_DOWN = 8,
    /** Called in a state in which it may not be called. */
    QUAVER_STATE = 9,
    /** The token that the wait took was cancelled. */
    QUAVER_CANCELLED = 10,
};

/** A short text for a status. The text is constant; never null. */
const char *quaver_strerror(int status);

/** What went wrong in the calling thread's last failed call, with the values concerned and what to do; empty if none has
 * failed. The pointer is the same for the thread's whole life. The text stays until the thread's next failed call: copy it to
 * keep it. */
const char *quaver_last_message(void);

/** The library's version, such as "0.1.0". */
const char *quaver_version(void);

/* ---- the runtime ------------------------------------------------------------------------------------------------ */

/** Starts the runtime; there is one at most in a process.
 *
 * `settings` is null or a list of name=value, separated by blanks, commas or semicolons, such as
 * "workers=2, quantum=20us, policy=two-queue:long=100us". Names: workers, cpus, pin, policy, quantum, clock, timer_cpu,
 * notification, signal, resume, tls, stack_size, max_threads, max_blocking, idle_spin, max_deferral, mutex_extension,
 * fault_look, monitor (under `quaver run` only), tax, share. What is not named comes from the environment (QUAVER_WORKERS,
 * QUAVER_QUANTUM, ...), else from defaults.
 *
 * On a kernel thread. Blocks for some milliseconds. Fails with QUAVER_INVALID, QUAVER_START or, if the runtime is running,
 * QUAVER_STATE. */
int quaver_start(const char *settings);

/** Stops the runtime. User threads that have not ended never run again; if `threads` is not null, it receives how many there
 * were, including those that have ended and were not joined.
 *
 * On a kernel thread; QUAVER_STATE on a user thread. Blocks until running threads have been interrupted, two seconds at
 * most. */
int quaver_shutdown(size_t *threads);

/** Is a runtime running? */
bool quaver_is_running(void);

/** Runs `function(argument)` on a user thread and waits for its end; `result`, if not null, receives what it returned.
 * Fails with QUAVER_NO_RUNTIME or QUAVER_SHUT_DOWN. */
int quaver_run(void *(*function)(void *), void *argument, void **result);

/** The value of a counter, such as "spawned", "switches" or "preempt_useful": a sum over all workers since the start. */
int quaver_stat(const char *name, uint64_t *value);

/** The name of the counter number `index`, counting from 0; null beyond the last. */
const char *quaver_stat_name(size_t index);

/* ---- threads ---------------------------------------------------------------------------------------------------- */

/** The right to join a user thread. */
typedef struct quaver_thread quaver_thread;

/** What a thread is for; heeded by the policy shinjuku-shenango. */
enum quaver_service {
    /** Somebody waits for it. */
    QUAVER_LATENCY_CRITICAL = 0,
    /** It may have what the others leave. */
    QUAVER_BEST_EFFORT = 1,
};

/** How a thread is to be started. All zero: not named, joinable, like any other. */
typedef struct quaver_thread_attr {
    /** For debuggers and reports, copied; null: none. */
    const char *name;
    /** Nobody will join it. */
    bool detached;
    /** How much more urgent than others: -3 to 4, values outside are taken for the nearest. Heeded by the policy priority. */
    int priority;
    /** Its share of processor time: 1 to 10000; 0 is 100, as others have. Heeded by the policies cfs and eevdf. */
    uint32_t weight;
    /** An enum quaver_service. */
    int service;
    /** Usable bytes of its stack, if it needs more than the setting stack_size gives to all. */
    size_t stack_size;
} quaver_thread_attr;

/** Starts a user thread that calls `function(argument)`. `attr` may be null. `thread` receives the right to join it; it may be
 * null for a detached thread. Never blocks. An exception that leaves `function` ends the process.
 * Fails with QUAVER_INVALID, QUAVER_NO_RUNTIME or QUAVER_EXHAUSTED. */
int quaver_spawn(quaver_thread **thread, const quaver_thread_attr *attr, void *(*function)(void *), void *argument);

/** Waits for a thread's end. `result`, if not null, receives what its function returned. `thread` is used up, also by a
 * failure. Fails with QUAVER_SHUT_DOWN on a kernel thread if the runtime ends first. */
int quaver_join(quaver_thread *thread, void **result);

/** As quaver_join, for at most `timeout`. QUAVER_TIMED_OUT if the thread has not ended then: `thread` is not used up. */
int quaver_join_timeout(quaver_thread *thread, int64_t timeout, void **result);

/** Gives up the right to join a thread. `thread` is used up. */
int quaver_detach(quaver_thread *thread);

/** Has the thread ended? Joining it then does not wait. False for null. */
bool quaver_is_finished(const quaver_thread *thread);

/** Makes a thread more or less urgent, as `priority` in quaver_thread_attr. QUAVER_STATE if the policy heeds no priorities. */
int quaver_set_priority(const quaver_thread *thread, int priority);

/** The number of a thread: unique in the process, never used again. 0 for null. */
uint64_t quaver_thread_id(const quaver_thread *thread);

/** The number of the calling user thread; 0 on a kernel thread. */
uint64_t quaver_self(void);

/** Copies the name of the calling user thread, which is empty if it has none; QUAVER_INVALID if it does not fit whole. */
int quaver_self_name(char *buffer, size_t size);

/** Lets other threads of this worker run. */
void quaver_yield(void);

/** Sleeps for at least this many nanoseconds. */
void quaver_sleep(uint64_t nanoseconds);

/** Waits until quaver_unpark is called for the calling user thread, for at most `timeout`. A call that came before is enough, and
 * several count as one. Locks and channels do not use it up. */
void quaver_park(int64_t timeout);

/** Ends the thread's quaver_park, or its next one. */
int quaver_unpark(const quaver_thread *thread);

/* ---- cancellation ----------------------------------------------------------------------------------------------- */

/** A flag that asks threads to stop, and ends the waits that take it. No thread is stopped from outside. */
typedef struct quaver_cancel_token quaver_cancel_token;

/** Makes a token that is not cancelled. */
quaver_cancel_token *quaver_cancel_token_new(void);

/** Sets the flag, for ever, and ends the waits that take it. */
int quaver_cancel_token_cancel(quaver_cancel_token *token);

/** Has it been cancelled? False for null. */
bool quaver_cancel_token_is_cancelled(quaver_cancel_token *token);

/** Sleeps for at least this many nanoseconds; QUAVER_CANCELLED as soon as the token is. */
int quaver_cancel_token_sleep(quaver_cancel_token *token, int64_t nanoseconds);

/** Frees a token that nobody uses. Null is ignored. */
void quaver_cancel_token_free(quaver_cancel_token *token);

/* ---- preemption and blocking ------------------------------------------------------------------------------------ */

/** Begins a region in which the calling user thread is not preempted. Regions nest. A preemption that is asked for meanwhile
 * happens at the end of the outermost one. Waiting inside is allowed, and does let others run. Keep regions to a few
 * microseconds. Costs about a nanosecond; nothing on a kernel thread. */
void quaver_no_preempt_begin(void);

/** Ends the innermost region. QUAVER_STATE if none has been begun. */
int quaver_no_preempt_end(void);

/** Could the calling thread be preempted right here? False inside a region and on kernel threads. */
bool quaver_is_preemptible(void);

/** Gives the calling thread's worker away, because what follows blocks in the kernel. Until quaver_blocking_end the thread
 * runs outside the workers. Does not nest. Costs some microseconds. A blocking call without it works as well: it is
 * noticed after a quantum, and may then return EINTR if it is one that Linux does not restart. */
void quaver_blocking_begin(void);

/** Queues for a worker; returns on it. */
void quaver_blocking_end(void);

/** quaver_blocking_begin, function(argument), quaver_blocking_end. Returns what the function returned. */
void *quaver_block_in_place(void *(*function)(void *), void *argument);

/* ---- mutual exclusion ------------------------------------------------------------------------------------------- */

/** A mutex, not recursive. */
typedef struct quaver_mutex {
    uint32_t private_[2];
} quaver_mutex;

/** A mutex that nobody owns. */
#define QUAVER_MUTEX_INIT {{0, 0}}

/** Takes the mutex; waits until it is free. */
int quaver_mutex_lock(quaver_mutex *mutex);

/** Takes the mutex; QUAVER_TIMED_OUT if that takes longer than `timeout`. */
int quaver_mutex_lock_timeout(quaver_mutex *mutex, int64_t timeout);

/** Takes the mutex if it is free; else QUAVER_BUSY. */
int quaver_mutex_try_lock(quaver_mutex *mutex);

/** Gives the mutex back. QUAVER_STATE if it is not locked; that the caller is the owner is not checked. */
int quaver_mutex_unlock(quaver_mutex *mutex);

/** A condition variable. */
typedef struct quaver_condvar {
    uint32_t private_[2];
} quaver_condvar;

/** A condition variable for which nobody waits. */
#define QUAVER_CONDVAR_INIT {{0, 0}}

/** Releases the mutex, waits for a notification, and takes the mutex again, whatever the result. May return QUAVER_OK for no
 * reason: call it in a loop. QUAVER_TIMED_OUT when `timeout` is over. */
int quaver_condvar_wait(quaver_condvar *condvar, quaver_mutex *mutex, int64_t timeout);

/** Wakes one thread that waits. */
int quaver_condvar_notify_one(quaver_condvar *condvar);

/** Wakes all threads that wait. */
int quaver_condvar_notify_all(quaver_condvar *condvar);

/** A read-write lock. Waiting writers go before new readers, so a thread must not read twice at a time. */
typedef struct quaver_rwlock {
    uint32_t private_[8];
} quaver_rwlock;

/** A lock that nobody has. */
#define QUAVER_RWLOCK_INIT {{0, 0, 0, 0, 0, 0, 0, 0}}

/** Takes the lock for reading, with others; QUAVER_TIMED_OUT when `timeout` is over. */
int quaver_rwlock_read(quaver_rwlock *lock, int64_t timeout);

/** Takes the lock for writing, alone; QUAVER_TIMED_OUT when `timeout` is over. */
int quaver_rwlock_write(quaver_rwlock *lock, int64_t timeout);

/** Gives the lock back. QUAVER_STATE if nobody has it. */
int quaver_rwlock_unlock(quaver_rwlock *lock);

/* ---- counting and meeting --------------------------------------------------------------------------------------- */

/** A counting semaphore; of value 0 when zero. */
typedef struct quaver_semaphore {
    uint64_t private_;
} quaver_semaphore;

/** Gives the semaphore a value of at most 2^31 - 1. Nobody may be using it. */
int quaver_semaphore_init(quaver_semaphore *semaphore, uint32_t value);

/** Takes one; QUAVER_TIMED_OUT if there is none before `timeout` is over. */
int quaver_semaphore_acquire(quaver_semaphore *semaphore, int64_t timeout);

/** Adds one. QUAVER_STATE if the value is at its maximum. */
int quaver_semaphore_release(quaver_semaphore *semaphore);

/** A barrier; must be initialised. */
typedef struct quaver_barrier {
    uint64_t private_[2];
} quaver_barrier;

/** Makes a barrier for this many threads. */
int quaver_barrier_init(quaver_barrier *barrier, uint32_t threads);

/** Waits until all threads have come. True for one of them. */
bool quaver_barrier_wait(quaver_barrier *barrier);

/** Waits until everybody who has passed has left; the memory may be reused then. */
int quaver_barrier_destroy(quaver_barrier *barrier);

/** Something that is done once. */
typedef struct quaver_once {
    uint32_t private_;
} quaver_once;

/** Not done yet. */
#define QUAVER_ONCE_INIT {0}

/** Calls `function` if no call with this `once` has done so; waits while another thread does. */
int quaver_once_call(quaver_once *once, void (*function)(void));

/* ---- channels --------------------------------------------------------------------------------------------------- */

/** A bounded queue of pointers for any number of senders and receivers. */
typedef struct quaver_channel quaver_channel;

/** Makes a channel for up to `capacity` pointers, at least one. Null, with a message, if it cannot. */
quaver_channel *quaver_channel_new(size_t capacity);

/** Sends a pointer (null is allowed). QUAVER_TIMED_OUT if there is no room before `timeout` is over, QUAVER_CLOSED. */
int quaver_channel_send(quaver_channel *channel, void *item, int64_t timeout);

/** Receives the oldest pointer. QUAVER_TIMED_OUT if there is none before `timeout` is over; QUAVER_CLOSED if there is none
 * and the channel has been closed. */
int quaver_channel_receive(quaver_channel *channel, void **item, int64_t timeout);

/** Receives from whichever of `count` channels has something; of several each gets its turn. `index`, if not null, receives the
 * channel's place, `item`, if not null, the pointer. QUAVER_CLOSED, with the place, if a channel is closed and empty: leave it out
 * from then on. QUAVER_CANCELLED if `token`, which may be null, has been cancelled; QUAVER_TIMED_OUT when `timeout` is over. */
int quaver_select(quaver_channel **channels, size_t count, quaver_cancel_token *token, int64_t timeout, size_t *index,
                  void **item);

/** Closes the channel: nothing more can be sent, and receivers get what is left. */
int quaver_channel_close(quaver_channel *channel);

/** Frees a channel that nobody uses, and forgets what is in it. Null is ignored. */
void quaver_channel_free(quaver_channel *channel);

#ifdef __cplusplus
}
#endif

#endif
