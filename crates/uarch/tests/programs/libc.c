/* What glibc needs at its start and for ordinary work. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int by_value(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return x < y ? -1 : x > y;
}

static __thread int mine = 41;

int main(int argc, char **argv) {
    int numbers[500];
    unsigned seed = 7;
    for (int i = 0; i < 500; i++) numbers[i] = (int)((seed = seed * 1103515245 + 12345) >> 8);
    qsort(numbers, 500, sizeof numbers[0], by_value);
    for (int i = 1; i < 500; i++)
        if (numbers[i - 1] > numbers[i]) return 1;
    char *text = malloc(100000), *end;
    memset(text, 'x', 99999);
    text[99999] = 0;
    strcpy(text + 70000, "needle in here");
    mine++;
    printf("%d %s %zu %ld\n", argc, argv[1], strlen(text), (long)(strstr(text, "needle") - text));
    printf("%d %.3f %g %e %x\n", mine, 3.14159, 1e-7, strtod("2.5e10x", &end), numbers[77]);
    free(text);
    text = malloc(1 << 20);
    memcpy(text, numbers, sizeof numbers), memmove(text + 3, text, 1500);
    printf("%d %s %d\n", memcmp(text, numbers, 3), end, strchr("hello", 'l')[1]);
    return clock_gettime(CLOCK_MONOTONIC, &(struct timespec){0}) ? 2 : 33;
}
