/* The smallest free descriptor is the program's: nothing else takes it, not even for a moment. */
#include "preempted.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

/* How many the table has room for: where it must grow later, the process waits. */
static int room(void) {
    FILE *status = fopen("/proc/self/status", "r");
    char line[200];
    int found = -1;
    while (status && fgets(line, sizeof line, status))
        sscanf(line, "FDSize: %d", &found);
    if (status)
        fclose(status);
    return found;
}

int main(int argc, char **argv) {
    if (on_user_threads())
        EXPECT(room() > 512);
    int burners = argc > 1 ? atoi(argv[1]) : 2, stop = 0;
    pthread_t burner[4];
    for (int i = 0; i < burners; i++)
        EXPECT(pthread_create(&burner[i], NULL, burn, &stop) == 0);
    int first = open("/dev/null", O_RDONLY);
    EXPECT(first >= 0);
    struct timespec end = in_ms(CLOCK_MONOTONIC, 300), now;
    do {
        EXPECT(close(first) == 0 && open("/dev/null", O_RDONLY) == first);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < burners; i++)
        EXPECT(pthread_join(burner[i], NULL) == 0);
    puts("descriptors: ok");
    return 0;
}
