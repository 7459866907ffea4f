// Loops of all kinds, recursion, switches with tables.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 257
static uint32_t table[N];
static uint64_t state = 88172645463325252ull;

static uint32_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)state;
}

__attribute__((noinline)) static uint64_t sum(const uint32_t *p, int n) {
    uint64_t s = 0;
    for (int i = 0; i < n; i++) s += p[i];
    return s;
}

__attribute__((noinline)) static int find(const uint32_t *p, int n, uint32_t key) {
    int low = 0, high = n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (p[middle] == key) return middle;
        if (p[middle] < key) low = middle + 1;
        else high = middle;
    }
    return -1;
}

__attribute__((noinline)) static void sort(uint32_t *p, int n) {
    for (int i = 1; i < n; i++) {
        uint32_t v = p[i];
        int j = i;
        for (; j > 0 && p[j - 1] > v; j--) p[j] = p[j - 1];
        p[j] = v;
    }
}

__attribute__((noinline)) static uint64_t gcd(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t t = a % b;
        a = b;
        b = t;
    }
    return a;
}

// Carries across iterations: add with carry.
__attribute__((noinline)) static uint64_t wide(const uint64_t *a, const uint64_t *b, uint64_t *out, int n) {
    unsigned __int128 carry = 0;
    for (int i = 0; i < n; i++) {
        carry += (unsigned __int128)a[i] + b[i];
        out[i] = (uint64_t)carry;
        carry >>= 64;
    }
    return (uint64_t)carry;
}

__attribute__((noinline)) static unsigned bits(const unsigned char *p, size_t n) {
    unsigned crc = ~0u;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int k = 0; k < 8; k++) crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
    }
    return ~crc;
}

// Two entries into one cycle.
__attribute__((noinline)) static int irreducible(int n, int x) {
    if (n & 1) goto middle;
top:
    x = x * 3 + 1;
middle:
    x ^= n;
    if (--n > 0) goto top;
    if (n == 0 && x & 4) {
        n = 2;
        x &= ~4;
        goto middle;
    }
    return x;
}

__attribute__((noinline)) static int machine(const char *program, int steps) {
    int acc = 0, at = 0;
    for (int i = 0; i < steps; i++) {
        switch (program[at]) {
        case 'a': acc += 1; break;
        case 'b': acc *= 3; break;
        case 'c': acc ^= 0x55; break;
        case 'd': acc -= at; break;
        case 'e': acc = acc << 1 | (acc >> 30 & 1); break;
        case 'f': acc = (int)((unsigned)acc * 2654435761u); break;
        case 'g': at += acc & 1; break;
        case 0: at = -1; break;
        default: acc--; break;
        }
        at++;
    }
    return acc;
}

__attribute__((noinline)) static int threaded(const unsigned char *ops, int fuel) {
    static void *const labels[] = {&&add, &&mul, &&xor, &&end};
    int x = 7;
    goto *labels[*ops];
add:
    x += 5;
    if (--fuel < 0) return x;
    goto *labels[*++ops];
mul:
    x *= 3;
    if (--fuel < 0) return x;
    goto *labels[*++ops];
xor:
    x ^= 0x1234;
    ops -= x & 1;
    if (--fuel < 0) return x;
    goto *labels[*++ops];
end:
    return x + fuel;
}

__attribute__((noinline)) static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static int odd(int n);
__attribute__((noinline)) static int even(int n) { return n == 0 ? 1 : odd(n - 1); }
__attribute__((noinline)) static int odd(int n) { return n == 0 ? 0 : even(n - 1) ^ (n == 77777); }

__attribute__((noinline)) static int hanoi(int n, int a, int b, int c, int *moves) {
    if (n == 0) return a;
    int r = hanoi(n - 1, a, c, b, moves);
    moves[a * 3 + c]++;
    return r * 2 + hanoi(n - 1, b, a, c, moves);
}

struct node { struct node *next; int value; };
__attribute__((noinline)) static struct node *reverse(struct node *list) {
    struct node *done = NULL;
    while (list) {
        struct node *next = list->next;
        list->next = done;
        done = list;
        list = next;
    }
    return done;
}

// Few iterations inside many.
__attribute__((noinline)) static double nearest(const double (*points)[3], int n, const double *q) {
    double best = 1e300;
    for (int i = 0; i < n; i++) {
        double d = 0;
        for (int k = 0; k < 3; k++) d += (points[i][k] - q[k]) * (points[i][k] - q[k]);
        if (d < best) best = d;
    }
    return best;
}

__attribute__((noinline)) static int strings(char *to, const char *from) {
    int words = 0;
    for (;;) {
        while (*from == ' ') from++;
        if (!*from) break;
        words++;
        while (*from && *from != ' ') *to++ = *from++;
        *to++ = '_';
    }
    *to = 0;
    return words;
}

int main(void) {
    for (int i = 0; i < N; i++) table[i] = next() % 1000;
    printf("sum %llu\n", (unsigned long long)sum(table, N));
    sort(table, N);
    for (int i = 0; i < 20; i++) printf("%d ", find(table, N, table[i * 11]) >= 0);
    printf("\n%llu\n", (unsigned long long)gcd(1ull << 40, 6 * 7 * 1024));
    uint64_t a[40], b[40], c[40];
    for (int i = 0; i < 40; i++) a[i] = ~(uint64_t)next() * next(), b[i] = ~0ull - (next() & 1);
    uint64_t carry = wide(a, b, c, 40), x = 0;
    for (int i = 0; i < 40; i++) x = x * 31 + c[i];
    printf("wide %llu %llu\n", (unsigned long long)carry, (unsigned long long)x);
    printf("crc %x\n", bits((unsigned char *)table, sizeof table));
    for (int n = 1; n < 12; n++) printf("%d ", irreducible(n, n * 7));
    printf("\nmachine %d\n", machine("abcdefgabxaafegbcd", 5000));
    unsigned char ops[64];
    for (int i = 0; i < 63; i++) ops[i] = next() % 3;
    ops[63] = 3;
    printf("threaded %d\n", threaded(ops + 1, 3000));
    printf("fib %d even %d\n", fib(17), even(10000));
    int moves[9] = {0};
    int h = hanoi(10, 0, 1, 2, moves);
    printf("hanoi %d %d %d\n", h, moves[2], moves[5]);
    struct node *list = NULL;
    for (int i = 0; i < 100; i++) {
        struct node *n = malloc(sizeof *n);
        n->next = list;
        n->value = i;
        list = n;
    }
    list = reverse(list);
    unsigned mixed = 0;
    for (struct node *n = list; n; n = n->next) mixed = mixed * 17 + n->value;
    printf("list %u\n", mixed);
    static double points[50][3];
    for (int i = 0; i < 50; i++)
        for (int k = 0; k < 3; k++) points[i][k] = next() % 100 / 7.0;
    printf("nearest %.6f\n", nearest((const double(*)[3])points, 50, (double[3]){3, 4, 5}));
    char text[200];
    int words = strings(text, "  the quick brown fox  jumps over   the lazy dog ");
    printf("%d %s\n", words, text);
    return 0;
}
