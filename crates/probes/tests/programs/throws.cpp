// Exceptions through instrumented frames, virtual calls, templates, destructors.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

static int alive;
struct Counted {
    int value;
    explicit Counted(int v) : value(v) { alive++; }
    Counted(const Counted &other) : value(other.value) { alive++; }
    ~Counted() { alive--; }
};

struct Shape {
    virtual ~Shape() = default;
    virtual double area(int n) const = 0;
};
struct Square : Shape {
    double area(int n) const override {
        double s = 0;
        for (int i = 0; i < n; i++) s += i * 0.5;
        return s;
    }
};
struct Round : Shape {
    double area(int n) const override {
        double s = 1;
        while (n-- > 0) s = s * 1.01 + 0.1;
        return s;
    }
};

__attribute__((noinline)) static int checked(const std::vector<int> &v, int limit) {
    int s = 0;
    for (size_t i = 0; i < v.size(); i++) {
        if (v[i] > limit) throw std::out_of_range(std::to_string(v[i]));
        s += v[i];
    }
    return s;
}

__attribute__((noinline)) static int guarded(int n) {
    int s = 0;
    for (int i = 0; i < n; i++) {
        try {
            Counted one(i);
            std::vector<int> v(i + 1);
            std::iota(v.begin(), v.end(), i);
            s += checked(v, 2 * n - n / 3);
        } catch (const std::out_of_range &error) {
            s += std::stoi(error.what()) * 1000;
            continue;
        } catch (...) {
            s = -1;
        }
        s ^= i;
    }
    return s;
}

__attribute__((noinline)) static int nested(int depth) {
    Counted here(depth);
    int local = 0;
    for (int i = 0; i < 10; i++) local += i * depth;
    if (depth == 0) throw local + 7;
    try {
        return nested(depth - 1) + local;
    } catch (int value) {
        if (depth % 3 == 0) return value + local;
        throw value + 1;
    }
}

__attribute__((noinline)) static int retry(int n) {
    for (int attempt = 0;; attempt++) {
        try {
            if (attempt < n) throw attempt;
            return attempt * 11;
        } catch (int) {
        }
    }
}

template <typename T> __attribute__((noinline)) static T fold(const std::vector<T> &v) {
    T s{};
    for (const T &x : v) s = s * 3 + x;
    return s;
}

int main() {
    std::printf("guarded %d alive %d\n", guarded(40), alive);
    std::printf("nested %d alive %d\n", nested(11), alive);
    std::printf("retry %d\n", retry(25));
    std::vector<std::unique_ptr<Shape>> shapes;
    for (int i = 0; i < 10; i++) {
        if (i % 3) shapes.push_back(std::make_unique<Square>());
        else shapes.push_back(std::make_unique<Round>());
    }
    double area = 0;
    for (const auto &shape : shapes) area += shape->area(50);
    std::printf("area %.9g\n", area);
    std::map<std::string, int> counts;
    for (int i = 0; i < 500; i++) counts[std::to_string(i * i % 37)] += i;
    unsigned mixed = 0;
    for (const auto &[key, value] : counts) mixed = mixed * 31 + key.size() + value;
    std::printf("map %u\n", mixed);
    std::vector<int> v(300);
    for (int i = 0; i < 300; i++) v[i] = i * 7919 % 1009;
    std::sort(v.begin(), v.end(), [](int x, int y) { return x % 100 < y % 100 || (x % 100 == y % 100 && x < y); });
    std::printf("sort %d fold %ld %g\n", v[150], fold(std::vector<long>(v.begin(), v.begin() + 20)),
                fold(std::vector<double>{1.5, 2.5, 3.5}));
    try {
        std::string text(5, 'x');
        for (int i = 0;; i++) text.at(i * 2) = 'y';
    } catch (const std::exception &) {
        std::printf("caught\n");
    }
    return 0;
}
