// C++ whose results depend on every destructor, exception and virtual call.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

static uint64_t state = 88172645463325252u;
static uint32_t next() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return uint32_t(state >> 16);
}

static long alive, ended;
struct Token {
    long value;
    explicit Token(long v) : value(v) { alive++; }
    Token(const Token &other) : value(other.value) { alive++; }
    Token &operator=(const Token &) = default;
    ~Token() {
        alive--;
        ended = ended * 31 + value;
    }
};

struct Failure : std::runtime_error {
    Token token;
    explicit Failure(long v) : std::runtime_error("failure " + std::to_string(v)), token(v) {}
};

// Diamonds: calls through adjusted `this`.
struct Base {
    long seed = 7;
    virtual ~Base() = default;
    virtual long step(long x) { return x + seed; }
};
struct Left : virtual Base {
    long step(long x) override { return x * 3 + seed; }
};
struct Right : virtual Base {
    virtual long more(long x) { return step(x) ^ 0x55; }
};
struct Both : Left, Right {
    Token token{5};
    long step(long x) override { return Left::step(x) - 2; }
    long more(long x) override { return Right::more(x) + token.value; }
};

__attribute__((noinline)) static long risky(long depth, long limit) {
    Token here(depth);
    long sum = 0;
    for (long i = 0; i <= depth; i++) {
        Token each(i);
        if (i * depth > limit) throw Failure(i * depth);
        sum += each.value;
    }
    return depth == 0 ? sum : sum + risky(depth - 1, limit);
}

__attribute__((noinline)) static long catches(long n) {
    long result = 0;
    for (long i = 0; i < n; i++) {
        try {
            try {
                result += risky(i % 20, 150 + i % 60);
            } catch (const Failure &failure) {
                result += failure.token.value;
                if (failure.token.value % 2) throw;
            }
        } catch (const std::exception &error) {
            result ^= long(std::string(error.what()).size()) << i % 13;
        }
    }
    return result;
}

// A loop whose body throws into itself.
__attribute__((noinline)) static int parse(const std::string &text) {
    int good = 0;
    std::istringstream words(text);
    std::string word;
    while (words >> word) {
        try {
            good += std::stoi(word);
        } catch (const std::invalid_argument &) {
            good -= 1;
        } catch (const std::out_of_range &) {
            good -= 100;
        }
    }
    return good;
}

template <typename Container> __attribute__((noinline)) static uint64_t digest(const Container &all) {
    uint64_t sum = 0;
    for (const auto &one : all) sum = sum * 1099511628211u + uint64_t(one);
    return sum;
}

// A checked sum under noexcept: terminate's landing pads.
__attribute__((noinline)) static double smooth(std::vector<double> &v) noexcept {
    for (int round = 0; round < 5; round++)
        for (size_t i = 1; i + 1 < v.size(); i++) v[i] = (v.at(i - 1) + v.at(i) + v.at(i + 1)) / 3;
    return std::accumulate(v.begin(), v.end(), 0.0);
}

int main() {
    long caught = catches(400);
    std::printf("catches %ld alive %ld ended %ld\n", caught, alive, ended);

    Both both;
    Base &base = both;
    Right &right = both;
    long x = 1;
    for (int i = 0; i < 500; i++) x = (base.step(x) + right.more(x)) % 1000003;
    std::printf("virtual %ld\n", x);

    std::map<std::string, std::set<int>> index;
    std::unordered_map<uint32_t, int> seen;
    for (int i = 0; i < 2000; i++) {
        uint32_t r = next();
        index["k" + std::to_string(r % 97)].insert(int(r % 1013));
        seen[r % 509]++;
    }
    uint64_t mixed = 0;
    for (const auto &[key, set] : index) mixed = mixed * 31 + digest(set) + key.size();
    for (uint32_t i = 0; i < 509; i++) mixed ^= uint64_t(seen[i]) << i % 50;
    std::printf("maps %zu %016lx\n", index.size(), (unsigned long)mixed);

    std::vector<uint32_t> v(3000);
    std::generate(v.begin(), v.end(), next);
    std::vector<uint32_t> copy = v;
    std::sort(v.begin(), v.end(), [](uint32_t a, uint32_t b) { return (a ^ 0x5555) < (b ^ 0x5555); });
    std::stable_sort(copy.begin(), copy.end(), [](uint32_t a, uint32_t b) { return a % 64 < b % 64; });
    std::nth_element(v.begin(), v.begin() + 100, v.end());
    std::printf("sorted %016lx %016lx %u\n", (unsigned long)digest(copy),
                (unsigned long)digest(std::set<uint32_t>(v.begin(), v.end())), v[100]);

    std::list<long> list;
    std::deque<long> deque;
    for (int i = 0; i < 300; i++) (i % 3 ? list.push_front(i) : deque.push_back(i * i));
    list.sort();
    list.merge(std::list<long>(deque.begin(), deque.end()));
    std::printf("lists %016lx\n", (unsigned long)digest(list));

    std::vector<std::function<long(long)>> functions;
    for (long i = 0; i < 20; i++)
        functions.push_back([i, token = Token(i)](long y) { return y * 2 + i - token.value % 7; });
    long folded = 3;
    for (int round = 0; round < 30; round++)
        for (auto &function : functions) folded = function(folded) % 1000033;
    std::printf("functions %ld\n", folded);

    std::vector<std::variant<int, double, std::string>> values;
    for (int i = 0; i < 90; i++) {
        if (i % 3 == 0) values.emplace_back(i);
        else if (i % 3 == 1) values.emplace_back(i * 0.25);
        else values.emplace_back(std::string(size_t(i), 'v'));
    }
    double total = 0;
    for (const auto &value : values)
        total += std::visit([](const auto &y) -> double {
            if constexpr (std::is_same_v<std::decay_t<decltype(y)>, std::string>) return double(y.size());
            else return double(y);
        }, value);
    std::printf("variants %.6f\n", total);

    std::string text;
    for (int i = 0; i < 400; i++)
        text += i % 7 == 3 ? "word " : i % 11 == 5 ? "99999999999999 " : std::to_string(i) + " ";
    std::printf("parsed %d\n", parse(text));
    std::vector<double> curve(200);
    for (size_t i = 0; i < curve.size(); i++) curve[i] = double(next() % 1000);
    std::printf("smooth %.6f\n", smooth(curve));
    functions.clear();
    std::printf("alive %ld ended %ld\n", alive, ended);
    return 0;
}
