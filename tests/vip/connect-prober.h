// A client that connects to a shared address by TCP a hundred times a second, and what it finds
// there: which connections failed, and for how long none was made. For figures; needs root.
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

// Takes connections to any address of a host, and ends them at once.
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
  // Of the calling thread's namespace.
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
  // Nothing is open any more of what was begun before.
  bool decided(kj::TimePoint before) {
    std::lock_guard<std::mutex> lock(mutex);
    return tries.empty() ? last >= before : tries.front().began >= before;
  }
  // Of the connections that were begun between the two.
  unsigned failed(kj::TimePoint from, kj::TimePoint until) {
    std::lock_guard<std::mutex> lock(mutex);
    return unsigned(std::count_if(failures.begin(), failures.end(),
                                  [&](auto& at) { return at >= from && at < until; }));
  }
  // The longest time without a connection since it was asked last, in milliseconds.
  double takeLongest() { return double(longest.exchange(0)) / 1e6; }

 private:
  // The kernel tries again after 1 s, which would be another question.
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
      next =
          kj::max(next + kBetween, clock.now());  // what a busy machine left out is not made up for
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
