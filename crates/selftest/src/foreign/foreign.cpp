// Scenarios that only C and C++ can express. Each returns a number that does not depend on when it is
// interrupted.

#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {

struct Order {
    std::uint64_t &sum;
    std::uint64_t weight;
    ~Order() { sum = sum * 31 + weight; }
};

struct Small {
    std::uint64_t value;
};

[[gnu::noinline]] void descend(std::uint64_t depth, std::uint64_t &sum) {
    Order order{sum, depth};
    if (depth == 0) {
        throw Small{sum + 7};
    }
    try {
        descend(depth - 1, sum);
    } catch (const std::string &) {
        sum += 1000; // never: of another type
    }
}

struct Counted {
    std::vector<std::uint64_t> values;
    Counted() : values{1, 2, 3} {}
    ~Counted() { ended()++; }
    static std::uint64_t &ended() {
        static std::uint64_t count;
        return count;
    }
};

thread_local Counted counted;
thread_local std::uint64_t plain = 5;

} // namespace

extern "C" {

std::uint64_t quaver_foreign_throw(std::uint64_t depth) {
    std::uint64_t sum = depth;
    try {
        try {
            descend(depth, sum);
        } catch (const Small &small) {
            sum += small.value;
            throw std::string("again");
        }
    } catch (const std::string &text) {
        sum = sum * 3 + text.size();
    }
    return sum;
}

// How often this thread has called it, and what the vector holds.
std::uint64_t quaver_foreign_thread_local(void) {
    counted.values.push_back(plain++);
    std::uint64_t sum = 0;
    for (std::uint64_t value : counted.values) {
        sum = sum * 7 + value;
    }
    return sum;
}

std::uint64_t quaver_foreign_longjmp(std::uint64_t rounds) {
    std::jmp_buf back;
    volatile std::uint64_t sum = rounds;
    int value = setjmp(back);
    sum = sum * 5 + static_cast<std::uint64_t>(value);
    if (static_cast<std::uint64_t>(value) < rounds) {
        std::longjmp(back, value + 1);
    }
    return sum;
}

std::uint64_t quaver_foreign_print(std::uint64_t seed) {
    char text[160];
    int length = std::snprintf(text, sizeof text, "%llu %a %.12g %s %+08d", static_cast<unsigned long long>(seed),
                               1.0 / static_cast<double>(seed + 3), 1e6 / static_cast<double>(seed + 7), "quaver",
                               static_cast<int>(seed) - 5);
    std::uint64_t sum = static_cast<std::uint64_t>(length);
    for (int i = 0; i < length; i++) {
        sum = sum * 131 + static_cast<unsigned char>(text[i]);
    }
    return sum;
}
}
