// The C++ library on user threads: threads, locks, futures, exceptions, thread_local objects, cancellation as
// an exception.
#include "check.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <shared_mutex>
#include <sstream>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

std::atomic<int> destroyed, unwound;

struct Local {
    std::string text = "new";
    ~Local() { destroyed++; }
};
thread_local Local local;

struct Guard {
    ~Guard() { unwound++; }
};

int deep(int n) {
    Guard guard;
    std::string junk(static_cast<size_t>(n), 'x');
    if (n == 0)
        throw std::runtime_error("bottom");
    return deep(n - 1) + static_cast<int>(junk.size());
}

void work(int me) {
    EXPECT(local.text == "new");
    local.text = std::to_string(me);
    for (int i = 0; i < 100; i++) {
        try {
            deep(15);
            EXPECT(!"reached");
        } catch (const std::exception &e) {
            EXPECT(std::string(e.what()) == "bottom");
        }
        std::ostringstream s;
        s << me << ' ' << i / 3.0;
        EXPECT(s.str().rfind(std::to_string(me), 0) == 0);
    }
    EXPECT(local.text == std::to_string(me));
}

void *sleeps(void *) {
    Guard guard;
    sleep(1000);
    return nullptr;
}

} // namespace

int main() {
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; i++)
        threads.emplace_back(work, i);
    for (auto &t : threads)
        t.join();
    EXPECT(destroyed == 8 && unwound == 8 * 100 * 16);

    std::mutex m;
    std::condition_variable c;
    bool ready = false;
    auto future = std::async(std::launch::async, [&] {
        std::unique_lock lock(m);
        c.wait(lock, [&] { return ready; });
        return 42;
    });
    {
        std::unique_lock lock(m);
        EXPECT(!c.wait_for(lock, std::chrono::milliseconds(3), [] { return false; }));
        ready = true;
    }
    c.notify_all();
    EXPECT(future.get() == 42);
    auto failing = std::async(std::launch::async, [] { deep(3); });
    try {
        failing.get();
        EXPECT(!"reached");
    } catch (const std::runtime_error &) {
    }

    std::shared_timed_mutex shared;
    std::recursive_timed_mutex again;
    EXPECT(shared.try_lock_shared_for(std::chrono::milliseconds(1)) && !shared.try_lock_for(std::chrono::milliseconds(1)));
    shared.unlock_shared();
    EXPECT(again.try_lock_for(std::chrono::milliseconds(1)) && again.try_lock());
    again.unlock();
    again.unlock();
    std::once_flag once;
    int calls = 0;
    for (int i = 0; i < 3; i++) {
        try {
            std::call_once(once, [&] {
                if (++calls == 1)
                    throw 1;
            });
        } catch (int) {
        }
    }
    EXPECT(calls == 2);

    unwound = 0;
    pthread_t t;
    void *result;
    EXPECT(pthread_create(&t, nullptr, sleeps, nullptr) == 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    EXPECT(pthread_cancel(t) == 0 && pthread_join(t, &result) == 0 && result == PTHREAD_CANCELED && unwound == 1);
    std::puts("C++: ok");
}
