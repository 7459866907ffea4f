/* The begin and end of a program without a C library: `static int run(void)` is the program.
 *
 *   program            runs without interrupts, here and on any x86-64 CPU
 *   program N          has the kernel-bypass timer interrupt it every N cycles, which only the model does;
 *                      the last line that it prints says how often it stopped */
typedef unsigned long quaver_word;

static inline long quaver_call(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

static int run(void);

/* Prints a number, so that runs can be compared. */
static void say(const char *name, quaver_word value) {
    char text[64];
    unsigned at = sizeof text, length = 0;
    text[--at] = '\n';
    do {
        text[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    while (name[length]) length++;
    text[--at] = ' ';
    while (length) text[--at] = name[--length];
    quaver_call(1, 1, (long)(text + at), (long)(sizeof text - at));
}

/* Switches from a thread to another; here there is only one. */
void quaver_switch(quaver_word *from, quaver_word *to);
__asm__("quaver_switch:\n"
        "\tpush %rbx\n\tpush %rbp\n\tpush %r12\n\tpush %r13\n\tpush %r14\n\tpush %r15\n"
        "\tmov %rsp, (%rdi)\n\tmov (%rsi), %rsp\n"
        "\tpop %r15\n\tpop %r14\n\tpop %r13\n\tpop %r12\n\tpop %rbp\n\tpop %rbx\n\tret\n");
static quaver_word quaver_thread;

static volatile quaver_word quaver_taken;

/* Of the system: set by whoever wants the program to stop. */
volatile int quaver_flag;

/* What a loop's body ends with: nothing, a look at the flag (POLL), or a place where an interrupt may be taken
 * (SAFEPOINT: xUI's prefix before a nop). */
#if defined POLL
__attribute__((noinline, cold, unused)) static void quaver_stop(void) {
    quaver_flag = 0;
    quaver_taken++;
    quaver_switch(&quaver_thread, &quaver_thread);
}
#define POINT()                                              \
    do {                                                     \
        if (__builtin_expect(quaver_flag, 0)) quaver_stop(); \
    } while (0)
#elif defined SAFEPOINT
#define POINT() __asm__ volatile(".byte 0x36\n\tnop")
#else
#define POINT() ((void)0)
#endif

struct quaver_frame {
    quaver_word rip, flags, rsp;
};

/* Sets the flag, or stops the program by itself. */
__attribute__((interrupt, target("general-regs-only"))) static void quaver_handler(struct quaver_frame *frame,
                                                                                  quaver_word vector) {
    (void)frame, (void)vector;
#if defined POLL
    quaver_flag = 1;
#else
    quaver_taken++;
    quaver_switch(&quaver_thread, &quaver_thread);
#endif
}

/* Begins to take interrupts. Says whether it could. */
static int quaver_interrupts(const char *text) {
    const long vector = 1;
    quaver_word cycles = 0;
    for (; *text >= '0' && *text <= '9'; text++) cycles = cycles * 10 + (quaver_word)(*text - '0');
    if (*text || !cycles) return 0;
    if (quaver_call(471, (long)quaver_handler, 0, 0) || quaver_call(0x78550001, vector, 0, 0)) return 0;
    __asm__ volatile("stui" : : : "memory");
    __asm__ volatile(".byte 0x66, 0x0f, 0x01, 0xec" : : "a"(cycles), "d"(1) : "memory");
    return 1;
}

__attribute__((noreturn, used)) static void begin(const long *stack) {
    int interrupts = stack[0] > 1;
    if (interrupts && !quaver_interrupts((const char *)stack[2])) quaver_call(231, 2, 0, 0);
    int status = run();
    if (interrupts) {
        __asm__ volatile("clui" : : : "memory");
        say("stops", quaver_taken);
    }
    quaver_call(231, status, 0, 0);
    __builtin_unreachable();
}

__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall begin\n");
