/* Threads that read one descriptor, with a position that they share, from a file that is half in the page cache: what each
   read returns is one piece, and nothing is lost. */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

enum { WORDS = 1 << 19, AT_ONCE = 1 << 15, CHUNK = 1 << 12 };

static int fd;
static char seen[WORDS / AT_ONCE];

static void *read_all(void *p) {
    uint64_t *words = malloc(AT_ONCE * sizeof *words);
    for (;;) {
        ssize_t r = read(fd, words, AT_ONCE * sizeof *words);
        if (r == 0)
            break;
        EXPECT(r == AT_ONCE * sizeof *words && words[0] % AT_ONCE == 0 && words[0] < WORDS);
        for (int i = 0; i < AT_ONCE; i++)
            EXPECT(words[i] == words[0] + i);
        EXPECT(!__atomic_exchange_n(&seen[words[0] / AT_ONCE], 1, __ATOMIC_RELAXED));
    }
    free(words);
    return p;
}

int main(void) {
    char name[] = "/var/tmp/quaver-offsets-XXXXXX";
    EXPECT((fd = mkstemp(name)) >= 0 && unlink(name) == 0);
    for (uint64_t at = 0; at < WORDS; at += CHUNK) {
        uint64_t words[CHUNK];
        for (int i = 0; i < CHUNK; i++)
            words[i] = at + i;
        EXPECT(write(fd, words, sizeof words) == sizeof words);
    }
    for (int round = 0; round < 5; round++) {
        pthread_t t[3];
        EXPECT(fdatasync(fd) == 0 && lseek(fd, 0, SEEK_SET) == 0);
        for (off_t at = CHUNK; at < WORDS; at += 2 * CHUNK)
            EXPECT(posix_fadvise(fd, at * 8, CHUNK * 8, POSIX_FADV_DONTNEED) == 0);
        memset(seen, 0, sizeof seen);
        for (int i = 0; i < 3; i++)
            EXPECT(pthread_create(&t[i], NULL, read_all, NULL) == 0);
        for (int i = 0; i < 3; i++)
            EXPECT(pthread_join(t[i], NULL) == 0);
        for (int i = 0; i < WORDS / AT_ONCE; i++)
            EXPECT(seen[i]);
    }
    puts("offsets: ok");
    return 0;
}
