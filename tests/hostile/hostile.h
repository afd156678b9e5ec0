// Shared by the hostile tests: bytes of an attacker, ten thousand hostile sessions, and the honest
// client that must be answered after each.
#pragma once

#include <dirent.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <random>

#include "common/testing/sanitizers.h"
#include "common/wire/rpc-server.h"
#include "tests/testbeds/conversation.h"

#ifdef TALOS_ADDRESS_SANITIZER
extern "C" size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace talos {

constexpr unsigned kSessions = 10'000;
constexpr unsigned kWarmUp = 1'000;        // until caches and tables have reached their size
constexpr size_t kNoise = 128u << 10;      // bytes; 9000 sessions that leave 16 bytes each are more
constexpr unsigned kFreshConnection = 16;  // sessions between new connections of the honest client

// Returns the bytes that this process has from the allocator now.
inline size_t heapInUse() {
#ifdef TALOS_ADDRESS_SANITIZER
  return __sanitizer_get_current_allocated_bytes();
#else
  auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
#endif
}

inline size_t openDescriptors() {
  auto* directory = opendir("/proc/self/fd");
  KJ_ASSERT(directory != nullptr);
  size_t count = 0;
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

// Stands for a fuzzer that feeds hostileBytes(): mostly little damage, because great damage is
// refused early.
class Generator {
 public:
  explicit Generator(unsigned seed) : random(seed) {}

  kj::Array<kj::byte> next() {
    kj::Vector<kj::byte> input;
    auto kind = below(8);
    input.add(kind < 1 ? 0 : kind < 2 ? 1 : 2);
    if (kind < 2) {
      fill(input, below(600));
    } else {
      bool cut = kind < 4;
      auto length = cut ? below(8192) : 0xffff;
      input.add(length & 0xff);
      input.add(length >> 8);
      auto flips = cut ? below(2) : 1 + below(1 + below(12));
      for (unsigned i = 0; i < flips; ++i) {
        fill(input, 2);
        input.add(below(2) == 0 ? 1 << below(8) : below(256));
      }
    }
    return input.releaseAsArray();
  }
  unsigned below(unsigned limit) { return random() % limit; }

 private:
  std::mt19937 random;

  void fill(kj::Vector<kj::byte>& bytes, size_t count) {
    for (size_t i = 0; i < count; ++i) bytes.add(random());
  }
};

struct Hostile : testing::Test {
  ~Hostile() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();

  // Waits for a promise; one that never resolves fails the test at its deadline instead of hanging
  // it.
  template <typename T>
  T wait(kj::Promise<T> promise) {
    return timer.timeoutAfter(20 * kj::SECONDS, kj::mv(promise)).wait(io.waitScope);
  }
  kj::Own<kj::AsyncIoStream> dial(kj::StringPtr address) {
    return wait(wait(io.provider->getNetwork().parseAddress(address))->connect());
  }

  // Sends `bytes`, reads until the server ends the connection, and returns the bytes received.
  static kj::Promise<kj::Vector<kj::byte>> converse(kj::AsyncIoStream& stream,
                                                    kj::ArrayPtr<const kj::byte> bytes) {
    auto writing = stream.write(bytes.begin(), bytes.size())
                       .then([&stream]() { stream.shutdownWrite(); })
                       .eagerlyEvaluate([](kj::Exception&&) {});
    kj::Vector<kj::byte> heard;
    kj::byte buffer[4096];
    for (;;) {
      auto n =
          co_await stream.tryRead(buffer, 1, sizeof buffer).catch_([](kj::Exception&&) -> size_t {
            return 0;
          });  // reset
      if (n == 0) co_return kj::mv(heard);
      if (heard.size() < (1u << 20)) heard.addAll(buffer, buffer + n);
    }
  }

  struct Sizes {
    size_t heap = heapInUse(), descriptors = openDescriptors();
  };
  // `session` is one hostile session and returns how many of its calls had results; `honest` is one
  // honest call, over a new connection if its argument is true.
  void attack(kj::FunctionParam<unsigned(unsigned)> session, kj::FunctionParam<void(bool)> honest) {
    Sizes before;
    unsigned answered = 0;
    for (unsigned i = 0; i < kSessions; ++i) {
      if (i == kWarmUp) before = Sizes();
      if (session(i) > 0) ++answered;
      honest(i % kFreshConnection == 0);
      if (HasFailure()) {
        GTEST_FAIL() << "in session " << i;
      }
    }
    io.waitScope.poll();
    Sizes after;
    EXPECT_LT(after.heap, before.heap + kNoise);
    EXPECT_LE(after.descriptors, before.descriptors);
    // Damage that is always found at the first byte tests little.
    EXPECT_GT(answered, kSessions / 10);
    printf("heap %zu, then %zu bytes; %u of %u sessions had results\n", before.heap, after.heap,
           answered, kSessions);
  }

  // Attacks a Unix socket's server.
  void attackUnix(kj::StringPtr path, kj::ArrayPtr<const kj::byte> right, unsigned seed,
                  kj::FunctionParam<void()> afterwards,
                  kj::Promise<void> (*use)(capnp::Capability::Client)) {
    Generator generator(seed);
    auto held = wait(connectUnix(*io.lowLevelProvider, timer, path));
    auto heldCapability = held->bootstrap();
    auto address = kj::str("unix:", path);
    attack(
        [&](unsigned) {
          auto bytes = testbeds::hostileBytes(right, generator.next());
          auto stream = dial(address);
          auto results = testbeds::answersIn(wait(converse(*stream, bytes))).results;
          afterwards();
          return results;
        },
        [&](bool fresh) {
          if (fresh) wait(use(wait(connectUnix(*io.lowLevelProvider, timer, path))->bootstrap()));
          wait(use(heldCapability));
        });
  }
};

}  // namespace talos
