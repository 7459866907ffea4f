// Lambdas as user threads, a channel between them, and exceptions that stay with their thread.
#include <quaver.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

void check(int status, const char *what) {
    if (status != QUAVER_OK)
        throw std::runtime_error(std::string(what) + ": " + quaver_last_message());
}

// Joins when it goes out of scope.
class Thread {
  public:
    template <class F> explicit Thread(F f) {
        auto boxed = std::make_unique<F>(std::move(f));
        check(quaver_spawn(&thread_, nullptr, &call<F>, boxed.get()), "spawn");
        boxed.release();
    }
    Thread(Thread &&other) noexcept : thread_(other.thread_) { other.thread_ = nullptr; }
    Thread(const Thread &) = delete;
    ~Thread() {
        if (thread_)
            quaver_join(thread_, nullptr);
    }

  private:
    template <class F> static void *call(void *f) {
        std::unique_ptr<F> owned(static_cast<F *>(f));
        (*owned)();
        return nullptr;
    }
    quaver_thread *thread_ = nullptr;
};

void *program(void *) {
    std::unique_ptr<quaver_channel, void (*)(quaver_channel *)> channel(quaver_channel_new(4), quaver_channel_free);
    long sum = 0;
    {
        Thread consumer([&] {
            void *item;
            while (quaver_channel_receive(channel.get(), &item, QUAVER_FOREVER) == QUAVER_OK)
                sum += *std::unique_ptr<long>(static_cast<long *>(item));
        });
        {
            std::vector<Thread> producers;
            for (int p = 0; p < 4; p++)
                producers.emplace_back([&] {
                    for (long i = 1; i <= 1000; i++) {
                        try {
                            if (i % 10 == 0)
                                throw i;
                            quaver_channel_send(channel.get(), new long(i), QUAVER_FOREVER);
                        } catch (long skipped) {
                            quaver_channel_send(channel.get(), new long(-skipped), QUAVER_FOREVER);
                        }
                    }
                });
        }
        quaver_channel_close(channel.get());
    }
    std::printf("sum: %ld\n", sum);
    return nullptr;
}

} // namespace

int main() try {
    check(quaver_start("workers=2 quantum=50us"), "start");
    check(quaver_run(program, nullptr, nullptr), "run");
    check(quaver_shutdown(nullptr), "shutdown");
} catch (const std::exception &e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
