// C++ on user threads: exceptions, thread_local objects and std locks, while everything is preempted.
#include <quaver.h>

#include <cstdio>
#include <cstdlib>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);                         \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)

namespace {

constexpr int threads = 8;
int destroyed;
std::mutex mutex;
std::condition_variable changed;
int ready;

struct Local {
    std::string text = "untouched";
    ~Local() {
        std::lock_guard guard(mutex);
        destroyed++;
    }
};
thread_local Local local;

int deep(int n, int me) {
    std::vector<std::string> junk(3, std::to_string(n));
    if (n == 0)
        throw me;
    return deep(n - 1, me) + static_cast<int>(junk.size());
}

void *body(void *arg) {
    int me = static_cast<int>(reinterpret_cast<long>(arg));
    EXPECT(local.text == "untouched");
    {
        std::unique_lock lock(mutex);
        ready++;
        changed.notify_all();
        changed.wait(lock, [] { return ready >= threads; });
    }
    for (int i = 0; i < 300; i++) {
        local.text = std::to_string(me);
        try {
            deep(20, me);
            EXPECT(false);
        } catch (int caught) {
            EXPECT(caught == me && !std::uncaught_exceptions());
        }
        EXPECT(local.text == std::to_string(me));
    }
    return nullptr;
}

void *program(void *) {
    quaver_thread *all[threads];
    for (long i = 0; i < threads; i++)
        EXPECT(quaver_spawn(&all[i], nullptr, body, reinterpret_cast<void *>(i)) == QUAVER_OK);
    for (auto *thread : all)
        EXPECT(quaver_join(thread, nullptr) == QUAVER_OK);
    EXPECT(destroyed == threads);
    return nullptr;
}

} // namespace

int main() {
    for (const char *settings : {"workers=1 quantum=50us", "workers=2 quantum=50us"}) {
        destroyed = ready = 0;
        EXPECT(quaver_start(settings) == QUAVER_OK);
        EXPECT(quaver_run(program, nullptr, nullptr) == QUAVER_OK);
        EXPECT(quaver_shutdown(nullptr) == QUAVER_OK);
    }
    std::puts("C++: exceptions and thread_local objects stay with their threads");
}
