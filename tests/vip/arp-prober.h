// Asks the segment for the address a hundred times a second, by ARP, as a client's kernel does, and
// reports whether ever two hosts answered one question, the longest time without an answer, and
// which hosts announced that they have the address. For tests; needs root, and a link with its own
// address on the segment.
#pragma once

#include <kj/debug.h>
#include <kj/io.h>
#include <kj/time.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/net/ip.h"
#include "common/netlink/netlink.h"

namespace talos {

class ArpProber {
 public:
  // Probes in the calling thread's namespace. `own`: address to which answers come.
  ArpProber(const netlink::Link& from, Ip own, Ip wanted)
      : link(from.index), own(own), wanted(wanted) {
    KJ_REQUIRE(from.hardwareAddress.size() == mac.size(), from.name);
    memcpy(mac.data(), from.hardwareAddress.begin(), mac.size());
    int fd;
    KJ_SYSCALL(fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETHERTYPE_ARP)));
    socket_ = kj::AutoCloseFd(fd);
    auto name = to({});
    KJ_SYSCALL(bind(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)));
    thread = std::thread([this] { run(); });
  }
  ~ArpProber() noexcept { end(); }
  void end() {
    over = true;
    if (thread.joinable()) thread.join();
  }

  std::atomic<unsigned> asked{0}, answered{0}, twice{0};
  // Returns the longest time without an answer since the previous call, in milliseconds.
  int64_t takeLongest() { return longest.exchange(0); }
  // An announcement to all hosts since the previous call of takeClaims().
  struct Claim {
    kj::TimePoint at;
    std::string mac;  // six bytes
  };
  std::vector<Claim> takeClaims() {
    std::lock_guard<std::mutex> lock(mutex);
    return std::exchange(claims, {});
  }

 private:
  static constexpr int kBetween = 10;  // ms
  unsigned link;
  std::array<kj::byte, 6> mac;
  Ip own, wanted;
  kj::AutoCloseFd socket_;
  std::atomic<bool> over{false};
  std::atomic<int64_t> longest{0};
  std::mutex mutex;
  std::vector<Claim> claims;
  std::thread thread;

  sockaddr_ll to(std::array<kj::byte, 6> address) {
    sockaddr_ll name{};
    name.sll_family = AF_PACKET;
    name.sll_protocol = htons(ETHERTYPE_ARP);
    name.sll_ifindex = int(link);
    name.sll_halen = address.size();
    memcpy(name.sll_addr, address.data(), address.size());
    return name;
  }
  void ask() {
    kj::byte packet[28] = {0, 1, 8, 0, 6, 4, 0, 1};
    memcpy(packet + 8, mac.data(), 6);
    memcpy(packet + 14, own.bytes().begin(), 4);
    memcpy(packet + 24, wanted.bytes().begin(), 4);
    auto all = to({0xff, 0xff, 0xff, 0xff, 0xff, 0xff});
    (void)sendto(socket_, packet, sizeof(packet), 0, reinterpret_cast<sockaddr*>(&all),
                 sizeof(all));
    ++asked;
  }
  // Collects the hosts that answer until the next question is due.
  void listen(std::set<std::string>& who, kj::TimePoint until) {
    auto& clock = kj::systemPreciseMonotonicClock();
    for (;;) {
      auto left = (until - clock.now()) / kj::MILLISECONDS;
      pollfd ready{socket_, POLLIN, 0};
      if (poll(&ready, 1, left > 0 ? int(left) : 0) <= 0) return;
      kj::byte packet[64];
      auto size = recv(socket_, packet, sizeof(packet), MSG_DONTWAIT);
      if (size < 28 || memcmp(packet + 14, wanted.bytes().begin(), 4) != 0) continue;
      std::string sender(reinterpret_cast<char*>(packet) + 8, 6);
      if (memcmp(packet + 24, wanted.bytes().begin(), 4) == 0) {
        std::lock_guard<std::mutex> lock(mutex);
        claims.push_back({clock.now(), kj::mv(sender)});
      } else if (packet[7] == 2 && memcmp(packet + 24, own.bytes().begin(), 4) == 0) {
        who.insert(kj::mv(sender));
      }
    }
  }
  void run() {
    auto& clock = kj::systemPreciseMonotonicClock();
    auto last = clock.now();
    while (!over) {
      auto begin = clock.now();
      std::set<std::string> who;
      ask();
      listen(who, begin + kBetween * kj::MILLISECONDS);
      if (who.size() > 1) ++twice;
      auto now = clock.now();
      if (!who.empty()) {
        ++answered;
        last = now;
      }
      auto gap = (now - last) / kj::MILLISECONDS;
      if (gap > longest) longest = gap;
    }
  }
};

}  // namespace talos
