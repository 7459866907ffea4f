// A library, with -DLIBRARY, and a program that uses it: thread-locals, calls through the PLT.
#include <stdio.h>

long mix(const long *values, int count);
extern __thread long total;
int depth(int n);

#ifdef LIBRARY
__thread long total;
static __thread long own[4];

long mix(const long *values, int count) {
    for (int i = 0; i < count; i++) {
        own[i & 3] += values[i];
        total ^= own[(i + 1) & 3] * 3;
    }
    return own[0] + own[1] * 5 + own[2] * 7 + own[3] * 11;
}

// Through the PLT: another library may replace it.
int depth(int n) { return n == 0 ? 0 : depth(n - 1) * 3 % 1009 + n; }
#else
int main(void) {
    long values[500];
    for (int i = 0; i < 500; i++) values[i] = (long)i * i;
    long mixed = mix(values, 500);
    printf("%ld %ld %d\n", mixed, total, depth(200));
    return 0;
}
#endif
