/* A plugin that sees glibc's functions and not those of preloaded libraries shares a mutex with its program. As a program:
 * plugin PLUGIN.SO */
#define _GNU_SOURCE
#include "show.h"
#include <dlfcn.h>

enum { ROUNDS = 20000 };

/* Adds under the mutex, by whatever functions this copy of the code is bound to. */
void *add_there(void *at)
{
    struct {
        pthread_mutex_t m;
        long count;
    } *shared = at;
    for (int i = 0; i < ROUNDS; i++) {
        DO(pthread_mutex_lock(&shared->m));
        shared->count++;
        DO(pthread_mutex_unlock(&shared->m));
    }
    return 0;
}

int main(int argc, char **argv)
{
    static struct {
        pthread_mutex_t m;
        long count;
    } shared[3] = {{PTHREAD_MUTEX_INITIALIZER, 0},
                   {PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP, 0},
                   {PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP, 0}};
    void *plugin = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW | RTLD_DEEPBIND);
    void *(*theirs)(void *) = plugin ? (void *(*)(void *))dlsym(plugin, "add_there") : 0;
    if (!theirs || theirs == add_there) {
        printf("%s\n", dlerror());
        return 1;
    }
    for (int i = 0; i < 3; i++) {
        pthread_t t[4];
        for (int k = 0; k < 4; k++)
            DO(pthread_create(&t[k], 0, k % 2 ? theirs : add_there, &shared[i]));
        for (int k = 0; k < 4; k++)
            DO(pthread_join(t[k], 0));
        printf("%ld\n", shared[i].count);
    }
    return 0;
}
