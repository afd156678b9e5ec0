// A client that connects to a shared address by TCP a hundred times a second, and records the
// failed connections, and the longest time without a connection. For figures; needs root.
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <kj/debug.h>
#include <kj/time.h>
#include <kj/vector.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "common/net/ip.h"
#include "tests/vip/places.h"

namespace talos {

constexpr uint16_t kServedPort = 6443;

// A listener that accepts connections to any address of a host, and ends them at once.
class Listener {
 public:
  explicit Listener(int place) {
    listening = inside(place, [] {
      int fd;
      KJ_SYSCALL(fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      kj::AutoCloseFd made(fd);
      sockaddr_in any{};
      any.sin_family = AF_INET;
      any.sin_port = htons(kServedPort);
      KJ_SYSCALL(bind(fd, reinterpret_cast<sockaddr*>(&any), sizeof any));
      KJ_SYSCALL(listen(fd, SOMAXCONN));
      return made;
    });
    thread = std::thread([this] { run(); });
  }
  ~Listener() noexcept {
    over = true;
    thread.join();
  }
  KJ_DISALLOW_COPY_AND_MOVE(Listener);

 private:
  kj::AutoCloseFd listening;
  std::atomic<bool> over{false};
  std::thread thread;

  void run() {
    while (!over) {
      pollfd ready{listening, POLLIN, 0};
      if (poll(&ready, 1, 100) > 0) kj::AutoCloseFd(accept(listening, nullptr, nullptr));
    }
  }
};

class ConnectProber {
 public:
  // Connects in the calling thread's namespace.
  explicit ConnectProber(Ip address) : place(thisNamespace()) {
    to.sin_family = AF_INET;
    to.sin_port = htons(kServedPort);
    memcpy(&to.sin_addr, address.bytes().begin(), sizeof to.sin_addr);
    thread = std::thread([this] { run(); });
  }
  ~ConnectProber() noexcept {
    over = true;
    thread.join();
  }
  KJ_DISALLOW_COPY_AND_MOVE(ConnectProber);

  std::atomic<unsigned> made{0};
  // Returns true if no attempt that began before this time is still open.
  bool decided(kj::TimePoint before) {
    std::lock_guard<std::mutex> lock(mutex);
    return tries.empty() ? last >= before : tries.front().began >= before;
  }
  // Returns the number of failed connections that began between the two times.
  unsigned failed(kj::TimePoint from, kj::TimePoint until) {
    std::lock_guard<std::mutex> lock(mutex);
    return unsigned(std::count_if(failures.begin(), failures.end(),
                                  [&](auto& at) { return at >= from && at < until; }));
  }
  // Returns the longest time without a connection since the previous call, in milliseconds.
  double takeLongest() { return double(longest.exchange(0)) / 1e6; }

 private:
  // The timeout is below 1 s, after which the kernel tries again: that would be another question.
  static constexpr auto kBetween = 10 * kj::MILLISECONDS, kTimeout = 200 * kj::MILLISECONDS;
  struct Try {
    kj::AutoCloseFd fd;
    kj::TimePoint began;
  };
  kj::AutoCloseFd place;
  sockaddr_in to{};
  std::atomic<int64_t> longest{0};
  std::mutex mutex;
  std::deque<Try> tries;
  std::vector<kj::TimePoint> failures;
  kj::TimePoint last = kj::systemPreciseMonotonicClock().now();
  std::atomic<bool> over{false};
  std::thread thread;

  void run() {
    enter(place);
    auto& clock = kj::systemPreciseMonotonicClock();
    auto next = clock.now();
    while (!over) {
      begin(next);
      next = kj::max(next + kBetween, clock.now());  // pauses of a busy machine are not made up for
      do {
        watch(next - clock.now());
      } while (clock.now() < next);
      auto gap = (clock.now() - last) / kj::NANOSECONDS;
      if (gap > longest) longest = gap;
    }
  }
  void begin(kj::TimePoint now) {
    int fd;
    KJ_SYSCALL(fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    kj::AutoCloseFd made(fd);
    linger none{1, 0};  // no connection is kept in the kernel for later
    KJ_SYSCALL(setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none));
    bool begun =
        connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0 || errno == EINPROGRESS;
    std::lock_guard<std::mutex> lock(mutex);
    if (begun) {
      tries.push_back({kj::mv(made), now});
    } else {
      failures.push_back(now);
    }
  }
  void watch(kj::Duration time) {
    std::vector<pollfd> ready;
    for (auto& each : tries) ready.push_back({each.fd, POLLOUT, 0});
    auto ms = kj::max(time / kj::MILLISECONDS, 0);
    poll(ready.data(), ready.size(), int(ms) + (ms == 0 ? 1 : 0));
    auto now = kj::systemPreciseMonotonicClock().now();
    std::lock_guard<std::mutex> lock(mutex);
    std::deque<Try> left;
    for (size_t i = 0; i < ready.size(); ++i) {
      if (ready[i].revents != 0) {
        int error = 0;
        socklen_t size = sizeof error;
        getsockopt(ready[i].fd, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error == 0) {
          ++made;
          last = kj::max(last, tries[i].began);
          continue;
        }
        failures.push_back(tries[i].began);
      } else if (now - tries[i].began > kTimeout) {
        failures.push_back(tries[i].began);
      } else {
        left.push_back(kj::mv(tries[i]));
      }
    }
    tries = kj::mv(left);
  }
};

}  // namespace talos
