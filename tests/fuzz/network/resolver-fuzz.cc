// link: common-net
// What a DNS server answers to a lookup of a name: the input is what follows the question of each
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

  // Answers the questions that have arrived; c-ares takes only an answer with their number and their
  // question. Returns false if there was none.
  bool answer(kj::ArrayPtr<const kj::byte> input) {
    kj::byte buffer[kMostAnswer];
    struct sockaddr_in peer = {};
    socklen_t peerSize = sizeof peer;
    auto size = recvfrom(fd, buffer, sizeof buffer, 0, reinterpret_cast<struct sockaddr*>(&peer),
                         &peerSize);
    if (size < static_cast<ssize_t>(kHeader)) return false;
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
    return true;
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace talos;
  Server server;
  kj::UnixEventPort port;
  kj::EventLoop loop(port);
  kj::WaitScope scope(loop);
  kj::TimerImpl timer(kj::origin<kj::TimePoint>());
  auto input = kj::arrayPtr(data, size);
  auto failure = kj::runCatchingExceptions([&] {
    auto lookup = resolve(port, timer, "node.example.org",
                          {.servers = server.address, .timeoutMs = 1, .tries = 1});
    // An answer that c-ares ignores ends with its time, which is that of the real clock.
    while (!lookup.poll(scope)) {
      server.answer(input);
      timer.advanceTo(timer.now() + 1 * kj::MILLISECONDS);
    }
    auto addresses = lookup.wait(scope);
    KJ_ASSERT(addresses.size() > 0 && addresses.size() <= kMostAddresses);
    for (auto& address : addresses) KJ_ASSERT(Ip::parse(address) != nullptr, address);
  });
  KJ_IF_MAYBE (e, failure) KJ_ASSERT(kindOf(*e) == ErrorKind::kUnavailable, *e);
  return 0;
}
