/* The lock of quaver-lock, instruction by instruction. README.md says what is checked, and how.
 *
 * Set from outside: THREADS, LOCKS, ROUNDS, BUDGET; one of WILD and KERNEL; for KERNEL also CPUS, SWITCHES, MISSES,
 * DIES. TIMED: the last thread has a deadline, which may come at any moment. */

#define FREE 0
#define HELD 1
#define AWAITED 2

#define NONE 0
#define WAITING 1
#define FIRST 2

#define IN 1
#define OUT 2

/* Threads are numbered from 1, so that 0 is nobody; there are four at most. */
#define SOMEBODY 5

byte word[LOCKS];
byte tail[LOCKS];
byte place[SOMEBODY];
byte next[SOMEBODY];

/* What the monitor looks at, besides `place`: the cell, and the window in which a thread stands. */
bit held[SOMEBODY];
byte window[SOMEBODY];

/* The kernel's: at which lock a thread sleeps, plus one. */
byte asleep[SOMEBODY];

/* The truth, written by the instructions that decide. */
byte owner[LOCKS];
bit stands[SOMEBODY];
byte done;

#if LOCKS == 1
#define owner_of(t) (owner[0] == t)
#else
#define owner_of(t) (owner[0] == t || owner[1] == t)
#endif

#ifdef KERNEL
bit on[SOMEBODY];    /* it has a CPU */
bit ready[SOMEBODY]; /* it wants one */
bit flag[SOMEBODY];
byte count;
bit alive = 1;       /* the monitor */
bit seen_alive = 1;  /* what `look` has found last */
byte idle = CPUS;    /* CPUs that nobody has */
byte last;           /* who got one last */

#define critical(t) (held[t] || window[t] == IN || (window[t] == 0 && place[t] != NONE))
#define waits(t) (ready[t] && !on[t])
#define stale(t) (on[t] && flag[t])
#define truth(t) (owner_of(t) || stands[t])
#define RUNS on[me]

/* The monitor at a switch: `t` leaves its CPU, still runnable. It may miss that. */
inline switch_out(t)
{
	assert(critical(t) == truth(t));
	on[t] = 0;
	idle++;
	if
	:: alive && critical(t) && !flag[t] -> flag[t] = 1; count++
	:: alive && !critical(t) && flag[t] -> flag[t] = 0; count--
	:: else
	fi
}
#else
#define RUNS true
#endif

/* One instruction, which runs only while its thread has a CPU. */
#define STEP(x) atomic { RUNS -> x }

/* ---- What the waiter asks. `yes` is the answer. ---- */

#ifdef WILD
/* The counter, the heartbeat: any value, another one at each look. So every mode change at every point, every missed
 * notification and a monitor's end are among the runs. */
#define ask_queue STEP(if :: yes = 1; budget = BUDGET :: yes = 0; budget = 1 fi)
#define ask_spin STEP(if :: budget > 0 -> budget--; yes = 1 :: yes = 0 fi)
#define ask_again STEP(if :: yes = 1; budget = BUDGET :: yes = 0 fi)
#else
#define ask_queue STEP(monitored = seen_alive; budget = BUDGET; yes = monitored && count == 0)
#if BUDGET == 0
/* No budget: trusts the monitor. */
#define ask_spin STEP(yes = count == 0)
#else
#define ask_spin STEP(if \
	:: monitored && count > 0 -> yes = 0 \
	:: else -> if :: budget > 0 -> budget--; yes = 1 :: else -> seen_alive = alive; yes = 0 fi \
	fi)
#endif
#define ask_again STEP(monitored = seen_alive; yes = monitored && count == 0; if :: yes -> budget = BUDGET :: else fi)
#endif

#ifdef TIMED
#define timed (me == THREADS)
#else
#define timed false
#endif
#define ask_expired STEP(if :: timed -> yes = 1 :: yes = 0 fi)

/* ---- The kernel's futex. ---- */

#ifdef KERNEL
#define wake_up(t) asleep[t] = 0; ready[t] = 1
/* One that sleeps is not runnable, so the monitor takes its flag down. */
#define falls_asleep on[me] = 0; ready[me] = 0; idle++; if :: alive && flag[me] -> flag[me] = 0; count-- :: else fi
#else
#define wake_up(t) asleep[t] = 0
#define falls_asleep skip
#endif

/* Wakes any one of those who sleep at the lock. */
inline wake()
{
	if
	:: asleep[1] == l + 1 -> wake_up(1)
	:: asleep[2] == l + 1 -> wake_up(2)
	:: asleep[3] == l + 1 -> wake_up(3)
	:: asleep[4] == l + 1 -> wake_up(4)
	:: else
	fi
}

/* `in_time`: false if the deadline came. Asleep at the kernel's check of the word, or not at all. */
inline sleep()
{
	in_time = 1;
	STEP(if
	:: word[l] == AWAITED -> asleep[me] = l + 1; falls_asleep
	:: else
	fi);
	if
	:: atomic { asleep[me] == 0 && RUNS -> skip }
	:: atomic { timed && asleep[me] != 0 -> asleep[me] = 0; in_time = 0;
#ifdef KERNEL
		ready[me] = 1
#endif
	}
	fi
}

/* ---- The instructions of src/asm.rs. ---- */

#define takes_it assert(owner[l] == 0); owner[l] = me; window[me] = IN

inline try_word()
{
	STEP(was = word[l]);
	if
	:: was != FREE
	:: else ->
		STEP(was = word[l]; if :: was == FREE -> word[l] = HELD; takes_it :: else fi);
		raise_held()
	fi
}

inline mark()
{
	STEP(was = word[l]; word[l] = AWAITED; if :: was == FREE -> takes_it :: else fi);
	raise_held()
}

inline raise_held()
{
	if
	:: was == FREE -> STEP(held[me] = 1; window[me] = 0)
	:: else
	fi
}

inline release()
{
	STEP(held[me] = 0; window[me] = IN);
	STEP(was = word[l]; word[l] = FREE; owner[l] = 0; window[me] = 0);
	if
	:: was == AWAITED -> STEP(wake())
	:: else
	fi
}

inline enqueue()
{
	STEP(next[me] = 0);
	STEP(place[me] = WAITING; window[me] = OUT);
	STEP(other = tail[l]; tail[l] = me; stands[me] = 1; window[me] = 0);
	if
	:: other == 0 -> STEP(place[me] = FIRST)
	:: else -> STEP(assert(other != me); next[other] = me)
	fi
}

inline dequeue()
{
	STEP(yes = tail[l] == me; if :: yes -> tail[l] = 0; stands[me] = 0; window[me] = OUT :: else fi);
	if
	:: yes -> STEP(place[me] = NONE; window[me] = 0)
	:: else
	fi
}

inline pass()
{
	STEP(if :: place[other] == WAITING -> place[other] = FIRST :: else fi; stands[me] = 0; window[me] = OUT);
	STEP(place[me] = NONE; window[me] = 0)
}

/* ---- src/algorithm.rs. ---- */

inline join()
{
	assert(place[me] == NONE);
	enqueue();
	if
	:: other == 0
	:: else ->
		do
		:: STEP(yes = place[me] == FIRST);
			if
			:: yes -> break
			:: else
			fi;
			ask_spin;
			if
			:: yes
			:: else -> break
			fi
		od
	fi
}

inline leave()
{
	STEP(other = next[me]);
	if
	:: other == 0 ->
		dequeue();
		if
		:: yes
		:: else ->
			/* Somebody is two instructions from telling us. */
			do
			:: STEP(other = next[me]);
				if
				:: other != 0 -> break
				:: else -> pause()
				fi
			od;
			pass()
		fi
	:: else -> pass()
	fi;
	assert(place[me] == NONE)
}

/* A thread that waits for a link gives its CPU away. */
inline pause()
{
#ifdef KERNEL
	atomic { RUNS -> switch_out(me) }
#else
	skip
#endif
}

proctype Thread(byte me)
{
	byte l, rounds, was, other, budget;
	bit yes, queued, in_time;
#ifdef KERNEL
	bit monitored;
#endif

	do
	:: rounds == ROUNDS -> break
	:: else ->
		rounds++;
#if LOCKS > 1
		if :: l = 0 :: l = 1 fi;
#endif
		try_word();
		if
		:: was == FREE -> goto locked
		:: else
		fi;
begin:
		ask_queue;
		queued = yes;
		if
		:: queued -> join()
		:: else
		fi;
look:
		try_word();
		if
		:: was == FREE ->
			if
			:: queued -> leave()
			:: else
			fi;
			goto locked
		:: else
		fi;
		ask_spin;
		if
		:: yes -> goto look
		:: else
		fi;
		if
		:: queued -> leave(); queued = 0
		:: else
		fi;
		ask_expired;
		if
		:: yes -> goto over
		:: else
		fi;
		if
		:: was != AWAITED ->
			mark();
			if
			:: was == FREE -> goto locked
			:: else
			fi
		:: else
		fi;
		sleep();
		mark();
		if
		:: was == FREE -> goto locked
		:: was != FREE && !in_time -> goto over
		:: else
		fi;
		ask_again;
		if
		:: yes -> goto begin
		:: else -> goto look
		fi;
locked:
		assert(owner[l] == me && held[me]);
		release();
over:
		skip
	od;
	atomic { RUNS -> assert(place[me] == NONE && !held[me] && window[me] == 0 && !stands[me]); done++;
#ifdef KERNEL
		on[me] = 0; ready[me] = 0; idle++; if :: alive && flag[me] -> flag[me] = 0; count-- :: else fi
#endif
	}
}

#ifdef KERNEL
/* Gives CPUs to those who are ready, in turns. Takes one away at any instruction, SWITCHES times; MISSES of all
 * switches the monitor does not see. If DIES, it ends at any moment. A sweep takes a flag down whose thread runs. */
proctype Kernel()
{
	byte switches = SWITCHES, misses = MISSES, t;
	bit missed;
end:
	do
	:: atomic { idle > 0 && (waits(1) || waits(2) || waits(3) || waits(4)) ->
		t = last;
		do
		:: t = t % THREADS + 1;
			if
			:: waits(t) -> break
			:: else
			fi
		od;
		last = t;
		on[t] = 1;
		idle--;
		missed = 0;
		if
		:: misses > 0 && flag[t] -> misses--; missed = 1
		:: true
		fi;
		if
		:: alive && flag[t] && !missed -> flag[t] = 0; count--
		:: else
		fi
	}
	:: atomic { switches > 0 && (on[1] || on[2] || on[3] || on[4]) ->
		if
		:: on[1] -> t = 1
		:: on[2] -> t = 2
		:: on[3] -> t = 3
		:: on[4] -> t = 4
		fi;
		switches--;
		if
		:: misses > 0 -> misses--; on[t] = 0; idle++
		:: switch_out(t)
		fi
	}
	:: atomic { alive && DIES -> alive = 0 }
	:: atomic { alive && (stale(1) || stale(2) || stale(3) || stale(4)) ->
		if
		:: stale(1) -> t = 1
		:: stale(2) -> t = 2
		:: stale(3) -> t = 3
		:: stale(4) -> t = 4
		fi;
		flag[t] = 0;
		count--
	}
	od
}
#endif

init {
	byte i;
	atomic {
		i = 1;
		do
		:: i <= THREADS ->
#ifdef KERNEL
			ready[i] = 1;
#endif
			run Thread(i);
			i++
		:: else -> break
		od;
#ifdef KERNEL
		run Kernel()
#endif
	}
	/* A thread that ended elsewhere is a wake-up that was lost: this is never reached then. */
	atomic { done == THREADS ->
		i = 0;
		do
		:: i < LOCKS -> assert(word[i] == FREE && tail[i] == 0 && owner[i] == 0); i++
		:: else -> break
		od;
#ifdef KERNEL
		assert(count == flag[1] + flag[2] + flag[3] + flag[4]);
		assert(!alive || count == 0)
#endif
	}
}
