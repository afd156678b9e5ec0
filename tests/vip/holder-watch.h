// Records which hosts' kernels have a shared address, read a thousand times a second on a separate
// thread; whether two ever had it at one instant; and the holder at each time. Independent of the
// tested programs. For tests; needs root.
#pragma once

#include <kj/debug.h>
#include <kj/time.h>
#include <kj/vector.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/netlink/netlink.h"
#include "tests/vip/places.h"

namespace talos {

class HolderWatch {
 public:
  // Hosts are numbered from 0, and have no namespace in the beginning.
  HolderWatch(Ip address, unsigned hosts)
      : address(address), kernels(hosts), thread([this] { run(); }) {}
  ~HolderWatch() noexcept { end(); }
  KJ_DISALLOW_COPY_AND_MOVE(HolderWatch);
  void end() {
    over = true;
    if (thread.joinable()) thread.join();
  }

  // Sets the network namespace of this host from now on.
  void put(unsigned host, int place) {
    auto kernel = inside(place, [] { return netlink::openKernel(); });
    std::lock_guard<std::mutex> lock(mutex);
    kernels[host] = kj::mv(kernel);
  }
  // Forgets the host's namespace, which no longer exists, with the addresses of its kernel.
  void lose(unsigned host) {
    std::lock_guard<std::mutex> lock(mutex);
    kernels[host] = nullptr;
  }

  std::atomic<unsigned> overlaps{0}, looks{0};
  // Hosts that have the address, as bits.
  std::atomic<unsigned> holders{0};
  // Returns a host that has it now; -1 if there is none.
  int holder() const {
    unsigned now = holders;
    return now == 0 ? -1 : __builtin_ctz(now);
  }
  // Returns the only host that has it, by one look, because the state may change between two looks;
  // -1 if there is none, or more than one.
  int onlyHolder() const {
    unsigned now = holders;
    return now == 0 || (now & (now - 1)) != 0 ? -1 : __builtin_ctz(now);
  }
  // Returns for how long two hosts had it, in milliseconds, as far as looks can show.
  double overlapMs() const { return double(overlapTime.load()) / 1e6; }
  // Returns true if the host had it at any look between the two times.
  bool had(unsigned host, kj::TimePoint from, kj::TimePoint until) {
    std::lock_guard<std::mutex> lock(mutex);
    for (size_t i = 0; i < history.size(); ++i) {
      bool after = i + 1 < history.size() && history[i + 1].at < from;
      if (!after && history[i].at <= until && (history[i].who & 1u << host) != 0) return true;
    }
    return false;
  }
  // Returns the time of the first look after `from` at which another host got it; nullptr if none
  // has.
  kj::Maybe<kj::TimePoint> anotherGotIt(unsigned host, kj::TimePoint from) {
    std::lock_guard<std::mutex> lock(mutex);
    for (auto& look : history) {
      if (look.at >= from && (look.who & ~(1u << host)) != 0) return look.at;
    }
    return nullptr;
  }
  // Describes the first overlap, to find its cause.
  std::string firstOverlap() {
    std::lock_guard<std::mutex> lock(mutex);
    return first;
  }

 private:
  struct Look {
    kj::TimePoint at;
    unsigned who;
  };
  static constexpr size_t kKept = 1000;
  Ip address;
  std::vector<kj::Own<netlink::Kernel>> kernels;
  std::mutex mutex;
  std::deque<Look> history;  // changes
  std::string first;
  std::atomic<int64_t> overlapTime{0};
  std::atomic<bool> over{false};
  std::thread thread;

  bool has(size_t host) {
    if (kernels[host].get() == nullptr) return false;
    for (auto& each : kernels[host]->addresses()) {
      if (each.prefix.address == address) return true;
    }
    return false;
  }
  // Looks at all hosts, which takes more than an instant: two holders count only if the first still
  // has the address after the second was seen to have it.
  unsigned look() {
    std::lock_guard<std::mutex> lock(mutex);
    unsigned who = 0;
    for (size_t a = 0; a < kernels.size(); ++a) {
      if (!has(a)) continue;
      who |= 1u << a;
      for (size_t b = a + 1; b < kernels.size(); ++b) {
        if (!has(b) || !has(a)) continue;
        ++overlaps;
        if (first.empty()) first = kj::str("hosts ", a, " and ", b).cStr();
      }
    }
    auto now = kj::systemPreciseMonotonicClock().now();
    if (history.empty() || history.back().who != who) history.push_back({now, who});
    if (history.size() > kKept) history.pop_front();
    return who;
  }
  void run() {
    auto& clock = kj::systemPreciseMonotonicClock();
    auto before = clock.now();
    while (!over) {
      auto counted = overlaps.load();
      holders = look();
      auto now = clock.now();
      if (overlaps > counted) overlapTime += (now - before) / kj::NANOSECONDS;
      before = now;
      ++looks;
      usleep(1000);
    }
  }
};

}  // namespace talos
