/* OpenMP with more threads than workers. gcc's runtime waits by system calls of its own: openmp.c [burners] [wait].
   With "wait" it makes only regions with barriers, whose number of waits is known. */
#include "check.h"

#include <omp.h>

enum { THREADS = 4, ROUNDS = 50 };

/* The bits are those that one thread gets. */
static double series(int from, int to) {
    double sum = 0;
    for (int i = from; i < to; i++)
        sum += 1.0 / (1.0 + i) + i * 0.25;
    return sum;
}

static void reductions(void) {
    for (int round = 0; round < ROUNDS; round++) {
        long sum = 0, product = 1;
        int largest = -1;
#pragma omp parallel for reduction(+ : sum) reduction(max : largest) reduction(* : product) schedule(dynamic, 7)
        for (int i = 0; i < 1000; i++) {
            sum += i;
            largest = i > largest ? i : largest;
            product *= i % 250 == 7 ? 3 : 1;
        }
        EXPECT(sum == 499500 && largest == 999 && product == 81);
    }
}

/* What a thread has in registers is there behind a barrier. Each element is the sum of its neighbours of the last step,
   as one thread has it. */
static void barriers(void) {
    static double one[2][64], many[2][64];
    double parts[THREADS] = {0};
    for (int i = 0; i < 64; i++)
        one[0][i] = many[0][i] = i * 0.5 + 1;
    for (int step = 0; step < ROUNDS; step++)
        for (int i = 0; i < 64; i++)
            one[!(step & 1)][i] = (one[step & 1][(i + 63) % 64] + one[step & 1][(i + 1) % 64]) * 0.5;
#pragma omp parallel
    {
        int me = omp_get_thread_num(), n = omp_get_num_threads();
        double a = series(0, 10 + me), b = a * 1.5, c = b - 2.25, d = c * c, kept = 0;
        for (int step = 0; step < ROUNDS; step++) {
            for (int i = me; i < 64; i += n)
                many[!(step & 1)][i] = (many[step & 1][(i + 63) % 64] + many[step & 1][(i + 1) % 64]) * 0.5;
            kept += a + b * step + c - d;
#pragma omp barrier
        }
        parts[me] = kept;
    }
    EXPECT(memcmp(one, many, sizeof one) == 0);
    for (int me = 0; me < THREADS; me++) {
        double a = series(0, 10 + me), b = a * 1.5, c = b - 2.25, d = c * c, kept = 0;
        for (int step = 0; step < ROUNDS; step++)
            kept += a + b * step + c - d;
        EXPECT(parts[me] == kept);
    }
}

static void sections_of_one(void) {
    long count = 0, other = 0;
    int order[200], next = 0;
#pragma omp parallel
    for (int i = 0; i < 4 * ROUNDS; i++) {
#pragma omp critical
        {
            long before = count;
            spin(20);
            count = before + 1;
        }
#pragma omp atomic
        other++;
    }
    EXPECT(count == 4 * ROUNDS * THREADS && other == count);
#pragma omp parallel for ordered schedule(dynamic)
    for (int i = 0; i < 200; i++) {
        spin(i * 7 % 50);
#pragma omp ordered
        order[next++] = i;
    }
    for (int i = 0; i < 200; i++)
        EXPECT(order[i] == i);
}

static void lone_threads(void) {
    int done[4] = {0}, singles = 0;
#pragma omp parallel
    {
        double value = 0;
        for (int round = 0; round < ROUNDS; round++) {
#pragma omp single copyprivate(value)
            {
                singles++;
                value = round * 0.125;
            }
            EXPECT(value == round * 0.125);
        }
#pragma omp sections
        {
#pragma omp section
            done[0]++;
#pragma omp section
            done[1]++;
#pragma omp section
            done[2]++;
        }
#pragma omp master
        done[3]++;
    }
    EXPECT(singles == ROUNDS && done[0] == 1 && done[1] == 1 && done[2] == 1 && done[3] == 1);
}

static int fibonacci(int n) {
    if (n < 2)
        return n;
    int a, b;
#pragma omp task shared(a)
    a = fibonacci(n - 1);
#pragma omp task shared(b)
    b = fibonacci(n - 2);
#pragma omp taskwait
    return a + b;
}

static void tasks(void) {
    int result = 0, chain = 0;
#pragma omp parallel
#pragma omp single
    {
        result = fibonacci(14);
        for (int i = 0; i < 100; i++) {
#pragma omp task depend(inout : chain) firstprivate(i)
            chain = chain == i ? i + 1 : -1;
        }
    }
    EXPECT(result == 377 && chain == 100);
}

static omp_lock_t lock;
static omp_nest_lock_t nested;
static long locked, deep;

static void nest(int depth) {
    omp_set_nest_lock(&nested);
    long before = deep;
    if (depth)
        nest(depth - 1);
    else
        spin(20);
    deep = depth ? deep + 1 : before + 1;
    omp_unset_nest_lock(&nested);
}

static void locks(void) {
    omp_init_lock(&lock);
    omp_init_nest_lock(&nested);
#pragma omp parallel
    for (int i = 0; i < 2 * ROUNDS; i++) {
        if (i % 8 || !omp_test_lock(&lock))
            omp_set_lock(&lock);
        long before = locked;
        spin(20);
        locked = before + 1;
        omp_unset_lock(&lock);
        nest(2);
    }
    EXPECT(locked == 2 * ROUNDS * THREADS && deep == 3 * locked);
    omp_destroy_lock(&lock);
    omp_destroy_nest_lock(&nested);
}

/* Teams of teams. */
static void nested_regions(void) {
    int counts[2] = {0};
    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
    {
        int *count = &counts[omp_get_thread_num()];
        for (int i = 0; i < 4; i++) {
#pragma omp parallel num_threads(3)
#pragma omp atomic
            ++*count;
        }
    }
    EXPECT(counts[0] == 12 && counts[1] == 12);
}

/* The calling thread's errno is its own, whatever its waits end with. */
static void error_numbers(void) {
#pragma omp parallel
    for (int i = 0; i < ROUNDS; i++) {
        errno = 1000 + omp_get_thread_num();
#pragma omp barrier
        EXPECT(errno == 1000 + omp_get_thread_num());
    }
}

static void waits(void) {
    long sum = 0;
    for (int round = 0; round < 10 * ROUNDS; round++)
#pragma omp parallel reduction(+ : sum)
        {
            sum += omp_get_thread_num();
#pragma omp barrier
        }
    EXPECT(sum == 10 * ROUNDS * (THREADS * (THREADS - 1) / 2));
}

int main(int argc, char **argv) {
    omp_set_dynamic(0);
    omp_set_num_threads(THREADS);
    if (argc > 2 && strcmp(argv[2], "wait") == 0) {
        waits();
        return 0;
    }
    reductions();
    barriers();
    sections_of_one();
    lone_threads();
    tasks();
    locks();
    nested_regions();
    error_numbers();
    return 0;
}
