/* Processes that threads start in loops while they are preempted, in every way that there is; and one that becomes a daemon. */
#define _GNU_SOURCE
#include "preempted.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 10 };

extern char **environ;
static int stop;

static void ends_with(pid_t pid, int code) {
    int status;
    EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == code);
}

static void by_vfork(int code) {
    char script[20];
    snprintf(script, sizeof script, "exit %d", code);
    char *arguments[] = {"sh", "-c", script, NULL};
    pid_t pid = vfork();
    if (pid == 0) {
        if (code % 2)
            execl("/bin/sh", "sh", "-c", script, (char *)NULL);
        else
            execv("/bin/sh", arguments);
        _exit(99);
    }
    ends_with(pid, code);
    /* Also one that only ends. */
    pid = vfork();
    if (pid == 0)
        _exit(code);
    ends_with(pid, code);
}

static void by_spawn(int code) {
    char script[20], *arguments[] = {"sh", "-c", script, NULL};
    snprintf(script, sizeof script, "exit %d", code);
    pid_t pid;
    EXPECT(posix_spawn(&pid, "/bin/sh", NULL, NULL, arguments, environ) == 0);
    ends_with(pid, code);
    EXPECT(posix_spawnp(&pid, "sh", NULL, NULL, arguments, environ) == 0);
    ends_with(pid, code);
    EXPECT(posix_spawn(&pid, "/no/such/program", NULL, NULL, arguments, environ) == ENOENT);
}

static void by_fork(int code) {
    pid_t pid = fork();
    if (pid == 0) {
        /* The child's only thread works on, without preemption. */
        char *text = malloc(1000);
        snprintf(text, 1000, "%d", code);
        spin(10000);
        _exit(atoi(text));
    }
    ends_with(pid, code);
}

static void by_shell(int code) {
    char command[40], line[40] = "";
    snprintf(command, sizeof command, "exit %d", code);
    EXPECT(WEXITSTATUS(system(command)) == code);
    snprintf(command, sizeof command, "echo said %d", code);
    FILE *f = popen(command, "r");
    EXPECT(f && fgets(line, sizeof line, f) && pclose(f) == 0);
    EXPECT(strcmp(line, command + 5) != 0 && atoi(line + 5) == code);
    snprintf(command, sizeof command, "read x; exit $x");
    f = popen(command, "w");
    EXPECT(f && fprintf(f, "%d\n", code) > 0 && WEXITSTATUS(pclose(f)) == code);
}

static void *start(void *p) {
    for (int i = 0; i < ROUNDS; i++) {
        int code = 1 + (int)(long)p * ROUNDS + i;
        by_vfork(code);
        /* Whatever its children have done. */
        expect_preemption();
        by_spawn(code);
        by_fork(code);
        by_shell(code);
    }
    return p;
}

static void *say(void *p) {
    EXPECT(write(*(int *)p, "works", 5) == 5);
    return p;
}

/* Into the background, where threads can be made again. */
static void become_daemon(void) {
    int ends[2], status;
    char said[10] = "";
    EXPECT(pipe(ends) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t t;
        EXPECT(daemon(1, 1) == 0);
        EXPECT(pthread_create(&t, NULL, say, &ends[1]) == 0 && pthread_join(t, NULL) == 0);
        exit(0);
    }
    close(ends[1]);
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    EXPECT(read(ends[0], said, sizeof said) == 5 && strcmp(said, "works") == 0);
    close(ends[0]);
}

/* What only changes the kernel thread that happens to run the caller is refused, but not in a child, whose only one it is. */
static void change_kernel_thread(void) {
    /* Imported, it would be refused at the start. */
    int (*change)(int) = (int (*)(int))dlsym(RTLD_DEFAULT, "unshare");
    EXPECT(change != NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(change(CLONE_FS) == 0 ? 3 : 99);
    ends_with(pid, 3);
    errno = 0;
    EXPECT(change(CLONE_FS) == (on_user_threads() ? -1 : 0));
    EXPECT(errno == (on_user_threads() ? EPERM : 0));
}

static __thread volatile int hits;

static void hit(int n) { (void)n, hits++; }

/* What a child has sent before it ended comes before the wait for it returns. */
static void child_sends(int how) {
    int status;
    pid_t child = fork();
    EXPECT(child >= 0);
    if (!child)
        _exit(kill(getppid(), SIGUSR2) != 0);
    if (how == 0)
        EXPECT(waitpid(child, &status, 0) == child && status == 0);
    else if (how == 1)
        EXPECT(waitid(P_PID, child, &(siginfo_t){0}, WEXITED) == 0);
    else
        while (waitpid(child, &status, WNOHANG) == 0)
            usleep(100);
    EXPECT(hits == 1);
    hits = 0;
}

static void *sends_to_parent(void *p) {
    (void)p;
    _exit(kill(getppid(), SIGUSR2) != 0);
}

/* One that has threads: its parent's number is none of theirs. */
static void threads_of_a_child_send(void) {
    int status;
    pid_t child = fork();
    EXPECT(child >= 0);
    if (!child) {
        pthread_t t;
        EXPECT(signal(SIGUSR2, SIG_DFL) != SIG_ERR && pthread_create(&t, NULL, sends_to_parent, NULL) == 0);
        pause();
    }
    EXPECT(waitpid(child, &status, 0) == child && status == 0 && hits == 1);
    hits = 0;
}

static void children_send(void) {
    struct sigaction action = {.sa_handler = hit, .sa_flags = SA_RESTART};
    EXPECT(sigaction(SIGUSR2, &action, NULL) == 0);
    for (int i = 0; i < 30; i++)
        child_sends(i % 3);
    threads_of_a_child_send();
}

int main(int argc, char **argv) {
    children_send();
    int burners = argc > 1 ? atoi(argv[1]) : 2;
    pthread_t burner[burners + 1], t[THREADS];
    for (int i = 0; i < burners; i++)
        EXPECT(pthread_create(&burner[i], NULL, burn, &stop) == 0);
    for (long i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&t[i], NULL, start, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_join(t[i], NULL) == 0);
    change_kernel_thread();
    become_daemon();
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < burners; i++)
        EXPECT(pthread_join(burner[i], NULL) == 0);
    puts("processes: ok");
    return 0;
}
