// link: common-net
// A DNS server's answers to a lookup of a name: the input is the bytes after the question of each
// answer, and the two octets of flags before it.
#include <arpa/inet.h>
#include <kj/async-unix.h>
#include <kj/debug.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/net/dns-resolver.h"
#include "common/net/ip.h"
#include "tests/fuzz/fuzz-target.h"

namespace {

constexpr size_t kHeader = 12, kMostAnswer = 4096;
constexpr size_t kMostAddresses = 4096;

// A DNS server on a port of the loopback interface.
struct Server {
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  kj::String address;

  Server() {
    KJ_ASSERT(fd >= 0);
    struct sockaddr_in local = {};
    socklen_t size = sizeof local;
    local.sin_family = AF_INET;
    local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    KJ_SYSCALL(bind(fd, reinterpret_cast<struct sockaddr*>(&local), sizeof local));
    KJ_SYSCALL(getsockname(fd, reinterpret_cast<struct sockaddr*>(&local), &size));
    address = kj::str("127.0.0.1:", ntohs(local.sin_port));
  }
  ~Server() { close(fd); }
  KJ_DISALLOW_COPY_AND_MOVE(Server);

  // Answers a question that has arrived: c-ares accepts only answers with its number and its text.
  void answer(kj::ArrayPtr<const kj::byte> input) {
    kj::byte buffer[kMostAnswer];
    struct sockaddr_in peer = {};
    socklen_t peerSize = sizeof peer;
    auto size = recvfrom(fd, buffer, sizeof buffer, 0, reinterpret_cast<struct sockaddr*>(&peer),
                         &peerSize);
    if (size < static_cast<ssize_t>(kHeader)) return;
    size_t end = kHeader;  // of the question: a name, its type and its class
    while (end < static_cast<size_t>(size) && buffer[end] != 0) end += buffer[end] + 1;
    end += 5;
    KJ_ASSERT(end <= static_cast<size_t>(size));
    buffer[2] = 0x80;
    if (input.size() >= 6) {
      buffer[2] = input[0] | 0x80;
      buffer[3] = input[1];
      for (size_t i = 0; i < 3; ++i) {  // counts of answers, authorities and additional records
        buffer[6 + 2 * i] = 0;
        buffer[7 + 2 * i] = input[2 + i];
      }
      input = input.slice(5, input.size());
    }
    size_t more = kj::min(input.size(), sizeof buffer - end);
    if (more > 0) memcpy(buffer + end, input.begin(), more);
    sendto(fd, buffer, end + more, 0, reinterpret_cast<struct sockaddr*>(&peer), peerSize);
  }
};

// Returns the addresses that a lookup finds with these answers; empty if it fails.
kj::Array<kj::String> lookup(kj::ArrayPtr<const kj::byte> input) {
  using namespace talos;
  Server server;
  kj::UnixEventPort port;
  kj::EventLoop loop(port);
  kj::WaitScope scope(loop);
  kj::TimerImpl timer(kj::origin<kj::TimePoint>());
  kj::Array<kj::String> addresses;
  auto failure = kj::runCatchingExceptions([&] {
    auto found = resolve(port, timer, "node.example.org",
                         {.servers = server.address, .timeoutMs = 1, .tries = 1});
    // An answer that c-ares ignores ends with its time, which is that of the real clock.
    while (!found.poll(scope)) {
      server.answer(input);
      timer.advanceTo(timer.now() + 1 * kj::MILLISECONDS);
    }
    addresses = found.wait(scope);
    KJ_ASSERT(addresses.size() > 0 && addresses.size() <= kMostAddresses);
  });
  KJ_IF_MAYBE (e, failure) {
    KJ_ASSERT(kindOf(*e) == ErrorKind::kUnavailable, *e);
  }
  return addresses;
}

// One address, whose name points to the question.
constexpr kj::byte kRight[] = {0x81, 0x80, 1, 0,  0, 0xc0, 0x0c, 0, 1, 0, 1,
                               0,    0,    0, 60, 0, 4,    10,   5, 0, 2};

}  // namespace

FUZZ_TARGET(resolver) {
  static bool right = [] {
    // The clock is the real one, so a busy machine may be too late for an answer.
    for (unsigned tries = 0; tries < 1000; ++tries) {
      auto found = lookup(kRight);
      if (found.size() == 1 && found[0] == "10.5.0.2") return true;
    }
    KJ_FAIL_ASSERT("what is damaged must be right");
  }();
  (void)right;
  for (auto& address : lookup(kj::arrayPtr(data, size))) {
    KJ_ASSERT(talos::Ip::parse(address) != nullptr, address);
  }
  return 0;
}
