// Locks of the C++ library whose holders are preempted, on one worker and on two: whoever waits for them
// waits for a thread that may have no worker, and must not keep its own.
#include <quaver.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <string>

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);                         \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)

namespace {

constexpr int threads = 4;

std::uint64_t preemptions() {
    std::uint64_t n;
    EXPECT(quaver_stat("preempt_useful", &n) == QUAVER_OK);
    return n;
}

std::uint64_t handovers() {
    std::uint64_t n;
    EXPECT(quaver_stat("handovers", &n) == QUAVER_OK);
    return n;
}

void spin(int rounds) {
    for (volatile int i = 0; i < rounds; i = i + 1) {
    }
}

// The second number follows the first, after longer than a quantum now and then.
struct Protected {
    std::atomic<int> first{0}, second{0};

    void change(int i) {
        int seen = first++;
        spin(i % 8 == 0 ? 40000 : 500);
        EXPECT(second.exchange(seen + 1) == seen);
    }
    void look(int i) {
        int seen = first;
        spin(i % 8 == 0 ? 40000 : 500);
        EXPECT(second == seen);
    }
};

// Runs a function on so many threads at a time.
template <typename F> void together(F &&f) {
    struct Start {
        F *f;
        int me;
    } starts[threads];
    quaver_thread *all[threads];
    for (int i = 0; i < threads; i++) {
        starts[i] = {&f, i};
        auto body = [](void *p) -> void * {
            auto start = static_cast<Start *>(p);
            (*start->f)(start->me);
            return nullptr;
        };
        EXPECT(quaver_spawn(&all[i], nullptr, body, &starts[i]) == QUAVER_OK);
    }
    for (auto *thread : all)
        EXPECT(quaver_join(thread, nullptr) == QUAVER_OK);
}

// Steps of all threads until there have been enough preemptions and waits in the kernel.
template <typename F> void contend(F &&step) {
    std::uint64_t enough = preemptions() + 50, waited = handovers() + 3;
    together([&](int me) {
        for (int i = me; preemptions() < enough || handovers() < waited; i++)
            step(i);
    });
}

void mutexes() {
    std::mutex mutex;
    std::recursive_mutex recursive;
    Protected one, other;
    contend([&](int i) {
        if (i % 3) {
            std::lock_guard guard(mutex);
            one.change(i);
        } else {
            std::lock_guard guard(recursive);
            std::lock_guard again(recursive);
            other.change(i);
        }
    });
}

void shared_mutexes() {
    std::shared_mutex mutex;
    Protected data;
    contend([&](int i) {
        if (i % 3) {
            std::shared_lock guard(mutex);
            data.look(i);
        } else {
            std::unique_lock guard(mutex);
            data.change(i);
        }
    });
}

void condition_variables() {
    std::mutex mutex;
    std::condition_variable changed;
    int turn = 0;
    together([&](int me) {
        for (int i = 0; i < 50; i++) {
            std::unique_lock lock(mutex);
            changed.wait(lock, [&] { return turn % threads == me; });
            spin(i % 8 == 0 ? 40000 : 100);
            turn++;
            changed.notify_all();
        }
    });
    EXPECT(turn == 50 * threads);
}

// Made once for each N, in many quanta. Who comes meanwhile waits in the guard.
template <int N> const std::string &made_once() {
    static std::atomic<int> makers{0};
    static const std::string text = [] {
        EXPECT(makers++ == 0);
        spin(400000);
        return "made once, too long for the string itself: " + std::to_string(N);
    }();
    return text;
}

template <int N> void local_statics() {
    together([](int) {
        auto &text = made_once<N>();
        EXPECT(text == "made once, too long for the string itself: " + std::to_string(N));
    });
}

template <int N> void *program(void *) {
    mutexes();
    shared_mutexes();
    condition_variables();
    local_statics<N>();
    return nullptr;
}

template <int N> void run(const char *settings) {
    EXPECT(quaver_start(settings) == QUAVER_OK);
    EXPECT(quaver_run(program<N>, nullptr, nullptr) == QUAVER_OK);
    EXPECT(quaver_shutdown(nullptr) == QUAVER_OK);
}

} // namespace

int main() {
    run<1>("workers=1 clock=posix-timer quantum=20us");
    run<2>("workers=1 clock=timer-thread quantum=10us");
    run<3>("workers=1 clock=timer-core quantum=5us");
    run<4>("workers=2 clock=posix-timer quantum=20us");
    run<5>("workers=2 clock=timer-thread quantum=10us");
    run<6>("workers=2 clock=timer-core quantum=5us");
    std::puts("C++: holders of locks are preempted, and those who wait for them let them run");
}
