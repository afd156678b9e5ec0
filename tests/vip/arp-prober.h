// Asks the segment a hundred times a second who has the address, by ARP, as a client's kernel does,
// and says whether ever two hosts answered one question, and how long nobody did. For tests; needs
// root, and a link with an address of its own on the segment.
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
#include <set>
#include <thread>

#include "common/net/ip.h"

namespace talos {

class ArpProber {
 public:
  // Of the calling thread's namespace. `own`: that answers come to.
  ArpProber(unsigned link, std::array<kj::byte, 6> mac, Ip own, Ip wanted)
      : link(link), mac(mac), own(own), wanted(wanted) {
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
  // The longest time without an answer since it was asked last, in milliseconds.
  int64_t takeLongest() { return longest.exchange(0); }

 private:
  static constexpr int kBetween = 10;  // ms
  unsigned link;
  std::array<kj::byte, 6> mac;
  Ip own, wanted;
  kj::AutoCloseFd socket_;
  std::atomic<bool> over{false};
  std::atomic<int64_t> longest{0};
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
  // Who answers until the next question is due.
  void listen(std::set<std::string>& who, kj::TimePoint until) {
    auto& clock = kj::systemPreciseMonotonicClock();
    for (;;) {
      auto left = (until - clock.now()) / kj::MILLISECONDS;
      pollfd ready{socket_, POLLIN, 0};
      if (poll(&ready, 1, left > 0 ? int(left) : 0) <= 0) return;
      kj::byte packet[64];
      auto size = recv(socket_, packet, sizeof(packet), MSG_DONTWAIT);
      // Answers to us: an announcement is for everybody.
      if (size < 28 || packet[7] != 2 || memcmp(packet + 14, wanted.bytes().begin(), 4) != 0 ||
          memcmp(packet + 24, own.bytes().begin(), 4) != 0) {
        continue;
      }
      who.insert(std::string(reinterpret_cast<char*>(packet) + 8, 6));
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
