// Traffic that is counted: numbered UDP packets from one namespace, echoed by another.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <time.h>

#include <atomic>
#include <memory>

#include "tests/kernel/namespaces.h"

namespace talos {

inline void pause(unsigned milliseconds) {
  timespec wait{time_t(milliseconds / 1000), long(milliseconds % 1000) * 1000000};
  while (nanosleep(&wait, &wait) != 0) {
  }
}

class Flow {
 public:
  struct Count {
    unsigned sent = 0, answered = 0;
    unsigned lost() const { return sent - answered; }
  };

  // `to` must have `address`.
  Flow(Namespace& from, Namespace& to, kj::StringPtr address) : from(from), to(to) {
    destination.sin_family = AF_INET;
    destination.sin_port = htons(port);
    KJ_REQUIRE(inet_pton(AF_INET, address.cStr(), &destination.sin_addr) == 1);
    echoing = std::thread([this] { this->to.run([this] { echo(); }); });
    sending = std::thread([this] { this->from.run([this] { send(); }); });
  }
  ~Flow() noexcept(false) {
    over = true;
    sending.join();
    echoing.join();
  }
  KJ_DISALLOW_COPY(Flow);

  // Returns true if a packet came back within the time.
  bool works(unsigned milliseconds) {
    unsigned before = answered;
    for (unsigned waited = 0; waited < milliseconds; waited += 10) {
      if (answered > before) return true;
      pause(10);
    }
    return false;
  }

  // Counts the packets sent while the body runs, and 100 ms longer, and those that came back within
  // `milliseconds`.
  template <typename F>
  Count during(F&& body, unsigned milliseconds = 3000) {
    unsigned first = sent;
    body();
    pause(100);
    unsigned last = sent;
    held = true;  // nothing new, so that all that is under way can come
    auto cameBack = [&] {
      unsigned count = 0;
      for (unsigned number = first; number < last; ++number) count += seen[number];
      return count;
    };
    for (unsigned waited = 0; waited < milliseconds && cameBack() < last - first; waited += 10) {
      pause(10);
    }
    held = false;
    return {last - first, cameBack()};
  }

 private:
  static inline std::atomic<uint16_t> nextPort = 4000;  // several may end in one namespace
  uint16_t port = nextPort++;
  static constexpr unsigned kMost = 1 << 20;
  Namespace &from, &to;
  sockaddr_in destination{};
  std::atomic<bool> over = false, held = false;
  std::atomic<unsigned> sent = 0, answered = 0;
  std::unique_ptr<std::atomic<bool>[]> seen = std::make_unique<std::atomic<bool>[]>(kMost);
  std::thread echoing, sending;

  static kj::AutoCloseFd udp() {
    int raw;
    KJ_SYSCALL(raw = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    timeval most{0, 20000};
    setsockopt(raw, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
    return kj::AutoCloseFd(raw);
  }

  void echo() {
    auto fd = udp();
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(port);
    KJ_SYSCALL(bind(fd, reinterpret_cast<sockaddr*>(&any), sizeof(any)));
    while (!over) {
      uint32_t number;
      sockaddr_in sender;
      socklen_t size = sizeof(sender);
      auto got =
          recvfrom(fd, &number, sizeof(number), 0, reinterpret_cast<sockaddr*>(&sender), &size);
      if (got == sizeof(number))
        sendto(fd, &number, sizeof(number), 0, reinterpret_cast<sockaddr*>(&sender), size);
    }
  }

  void send() {
    auto fd = udp();
    uint32_t next = 0;
    while (!over) {
      pause(1);
      if (!held && next < kMost) {
        // A packet that cannot even leave is lost too.
        sendto(fd, &next, sizeof(next), 0, reinterpret_cast<sockaddr*>(&destination),
               sizeof(destination));
        ++next;
        ++sent;
      }
      uint32_t number;
      while (recv(fd, &number, sizeof(number), MSG_DONTWAIT) == sizeof(number)) {
        if (number < kMost && !seen[number].exchange(true)) ++answered;
      }
    }
  }
};

}  // namespace talos
