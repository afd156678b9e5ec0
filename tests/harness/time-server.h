// A time server (SNTP, RFC 4330) for machines under test, with a clock that the test sets.
#pragma once

#include <arpa/inet.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#include <atomic>
#include <thread>

namespace talos::harness {

class TimeServer {
 public:
  // Answers at this address of the calling thread's network, until the object is destroyed.
  explicit TimeServer(int64_t aheadSeconds, in_addr_t address = INADDR_ANY) : ahead(aheadSeconds) {
    int raw;
    KJ_SYSCALL(raw = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    fd = kj::AutoCloseFd(raw);
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(123);
    name.sin_addr.s_addr = htonl(address);
    timeval timeout{0, 100'000};
    KJ_SYSCALL(setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)));
    KJ_SYSCALL(bind(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)));
    thread = std::jthread([this](std::stop_token over) {
      while (!over.stop_requested()) answer();
    });
  }
  std::atomic<unsigned> answered{0};
  std::atomic<int64_t> ahead;  // seconds

 private:
  kj::AutoCloseFd fd;
  std::jthread thread;  // the last: it ends first

  // RFC 4330, sections 4 and 6.
  void answer() {
    kj::byte packet[48];
    sockaddr_in from{};
    socklen_t size = sizeof(from);
    if (recvfrom(fd.get(), packet, sizeof(packet), 0, reinterpret_cast<sockaddr*>(&from), &size) !=
        48) {
      return;
    }
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint32_t stamp[2] = {htonl(uint32_t(now.tv_sec + 2'208'988'800 + ahead)),
                         htonl(uint32_t(double(now.tv_nsec) * 4.294967296))};
    memcpy(packet + 24, packet + 40, 8);
    for (auto offset : {16, 32, 40}) memcpy(packet + offset, stamp, 8);
    memset(packet + 4, 0, 8);
    packet[0] = 4 << 3 | 4;
    packet[1] = 1;
    packet[3] = 0xec;  // 2^-20 s
    memcpy(packet + 12, "LOCL", 4);
    sendto(fd.get(), packet, sizeof(packet), 0, reinterpret_cast<sockaddr*>(&from), size);
    ++answered;
  }
};

}  // namespace talos::harness
