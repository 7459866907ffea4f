// Threads of C++: locks, conditions, exceptions that cross them, thread-locals with destructors. The
// results do not depend on who runs first.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <future>
#include <mutex>
#include <numeric>
#include <queue>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static std::atomic<long> locals_ended;
struct Local {
    long count = 0;
    ~Local() { locals_ended += count; }
};
static thread_local Local local;
static thread_local uint64_t seed = 0x9e3779b97f4a7c15u;

__attribute__((noinline)) static uint64_t work(int number, int rounds) {
    seed += uint64_t(number);
    for (int i = 0; i < rounds; i++) {
        seed ^= seed >> 29;
        seed *= 0xbf58476d1ce4e5b9u;
        local.count++;
    }
    return seed;
}

// Bounded queue: producers wait for consumers and the other way round.
class Queue {
    std::mutex mutex;
    std::condition_variable changed;
    std::queue<long> items;
    bool closed = false;

  public:
    void push(long item) {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [&] { return items.size() < 8; });
        items.push(item);
        changed.notify_all();
    }
    bool pop(long &item) {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [&] { return !items.empty() || closed; });
        if (items.empty()) return false;
        item = items.front();
        items.pop();
        changed.notify_all();
        return true;
    }
    void close() {
        std::lock_guard<std::mutex> lock(mutex);
        closed = true;
        changed.notify_all();
    }
};

__attribute__((noinline)) static long fails(long n) {
    long sum = 0;
    for (long i = 0; i < n; i++) sum += i;
    if (n % 3 == 0) throw std::runtime_error(std::to_string(sum));
    return sum;
}

int main() {
    std::vector<uint64_t> results(4);
    {
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; i++) threads.emplace_back([&results, i] { results[size_t(i)] = work(i, 2000); });
        for (auto &thread : threads) thread.join();
    }
    for (uint64_t result : results) std::printf("%016lx\n", (unsigned long)result);
    std::printf("locals %ld\n", locals_ended.load());

    Queue queue;
    std::atomic<long> consumed{0};
    std::vector<std::thread> consumers, producers;
    for (int i = 0; i < 2; i++)
        consumers.emplace_back([&] {
            long item, sum = 0;
            while (queue.pop(item)) sum += item * item;
            consumed += sum;
        });
    for (int i = 0; i < 3; i++)
        producers.emplace_back([&queue, i] {
            for (long n = 0; n < 100; n++) queue.push(n * (i + 1));
        });
    for (auto &thread : producers) thread.join();
    queue.close();
    for (auto &thread : consumers) thread.join();
    std::printf("consumed %ld\n", consumed.load());

    long good = 0, bad = 0;
    std::vector<std::future<long>> futures;
    for (long n = 0; n < 12; n++) futures.push_back(std::async(std::launch::async, fails, n * 100));
    for (auto &future : futures) {
        try {
            good += future.get();
        } catch (const std::runtime_error &error) {
            bad += std::stol(error.what());
        }
    }
    std::printf("good %ld bad %ld\n", good, bad);

    std::once_flag once;
    std::atomic<int> rounds{0};
    std::vector<std::thread> racers;
    for (int i = 0; i < 3; i++)
        racers.emplace_back([&] {
            std::call_once(once, [&] { rounds += 100; });
            for (int n = 0; n < 500; n++) rounds.fetch_add(1);
        });
    for (auto &thread : racers) thread.join();
    std::printf("rounds %d\n", rounds.load());
    return 0;
}
