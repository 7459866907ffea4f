// The operations in Boost.Fiber, for boost_fibers.rs. The kernel thread that calls is the main
// fiber of its own scheduler, a round robin.
//
// Nothing throws across this interface: every function is noexcept, so an exception ends the
// program.

#include <boost/fiber/all.hpp>

#include <chrono>
#include <cstdint>
#include <memory>

namespace fibers = boost::fibers;

namespace {

// Stacks are used again, as the library's documentation advises for many short fibers.
template <typename Body>
fibers::fiber spawn(Body &&body) {
    static fibers::pooled_fixedsize_stack stacks;
    return fibers::fiber(std::allocator_arg, stacks, std::forward<Body>(body));
}

// Runs body(0) and body(1) in two fibers and waits for both.
template <typename Body>
void in_two_fibers(Body body) {
    fibers::fiber first = spawn([&] { body(0); });
    fibers::fiber second = spawn([&] { body(1); });
    first.join();
    second.join();
}

using Channel = fibers::buffered_channel<std::uint64_t>;
// The smallest that the library allows: it holds one value.
constexpr std::size_t CAPACITY = 2;

} // namespace

extern "C" {

void boost_yield(std::uint64_t n) noexcept {
    in_two_fibers([n](int) {
        for (std::uint64_t i = 0; i < n; i++)
            boost::this_fiber::yield();
    });
}

void boost_spawn_join(std::uint64_t n) noexcept {
    for (std::uint64_t i = 0; i < n; i++)
        spawn([] {}).join();
}

void boost_spawn_detached(std::uint64_t n, std::uint64_t batch) noexcept {
    for (std::uint64_t i = 0; i < n; i++) {
        std::uint64_t ran = 0;
        for (std::uint64_t j = 0; j < batch; j++)
            spawn([&ran] { ran++; }).detach();
        while (ran < batch)
            boost::this_fiber::yield();
    }
}

std::uint64_t boost_mutex(std::uint64_t n) noexcept {
    fibers::mutex mutex;
    std::uint64_t count = 0;
    for (std::uint64_t i = 0; i < n; i++) {
        std::lock_guard<fibers::mutex> locked(mutex);
        count++;
    }
    return count;
}

void boost_condvar(std::uint64_t n) noexcept {
    fibers::mutex mutex;
    fibers::condition_variable changed[2];
    int turn = 0;
    in_two_fibers([&](int me) {
        std::unique_lock<fibers::mutex> locked(mutex);
        for (std::uint64_t i = 0; i < n; i++) {
            changed[me].wait(locked, [&] { return turn == me; });
            turn = 1 - me;
            changed[turn].notify_one();
        }
    });
}

// The number of values that came back as they were sent.
std::uint64_t boost_channel(std::uint64_t n) noexcept {
    Channel ping(CAPACITY), pong(CAPACITY);
    fibers::fiber echo = spawn([&] {
        std::uint64_t value;
        while (ping.pop(value) == fibers::channel_op_status::success)
            pong.push(value);
    });
    std::uint64_t same = 0;
    for (std::uint64_t i = 0; i < n; i++) {
        ping.push(i);
        same += pong.value_pop() == i;
    }
    ping.close();
    echo.join();
    return same;
}

// Runs sleeper(data) and hogs times hog(data) in fibers of their own and waits for all.
void boost_sleeper_and_hogs(void (*sleeper)(void *), std::uint32_t hogs, void (*hog)(void *),
                            void *data) noexcept {
    auto all = std::make_unique<fibers::fiber[]>(hogs + 1);
    all[0] = spawn([=] { sleeper(data); });
    for (std::uint32_t i = 1; i <= hogs; i++)
        all[i] = spawn([=] { hog(data); });
    for (std::uint32_t i = 0; i <= hogs; i++)
        all[i].join();
}

void boost_sleep(std::uint64_t nanoseconds) noexcept {
    boost::this_fiber::sleep_for(std::chrono::nanoseconds(nanoseconds));
}

} // extern "C"
