/* A thread that the kernel wakes SIZE times, each 25 us: by nanosleep (MODE 0), or by setitimer's signal (MODE 1). */
#include "start.h"

static volatile quaver_word rung;

static void rings(int signal) { rung += signal == 14; }

__asm__("quaver_restorer:\n\tmov $15, %eax\n\tsyscall\n");
void quaver_restorer(void);

static int run(void) {
#if MODE
    quaver_word action[4] = {(quaver_word)rings, 0x04000000, (quaver_word)quaver_restorer, 0};
    quaver_word each[4] = {0, 25, 0, 25};
    if (quaver_call(13, 14, (long)action, 0) || quaver_call(38, 0, (long)each, 0)) return 1;
    while (rung < SIZE) quaver_call(34, 0, 0, 0);
#else
    quaver_word sleep[2] = {0, 25000};
    (void)rings;
    for (; rung < SIZE; rung++)
        if (quaver_call(35, (long)sleep, 0, 0)) return 1;
#endif
    return 0;
}
