#include "common/net/dns-resolver.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "common/base/error.h"
#include "talosctl/cli/test-console.h"

namespace talos::talosctl {
namespace {

using ::testing::HasSubstr;

// A DNS server on loopback that knows one name: A 192.0.2.7, AAAA 2001:db8::7. No other name
// exists.
class DnsServer {
 public:
  DnsServer() : fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    socklen_t size = sizeof(address);
    getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
    port = ntohs(address.sin_port);
    thread = std::thread([this]() { serve(); });
  }
  ~DnsServer() {
    shutdown(fd, SHUT_RDWR);  // wakes recvfrom
    thread.join();
    close(fd);
  }
  unsigned port;

 private:
  int fd;
  std::thread thread;

  void serve() {
    kj::byte q[512];
    sockaddr_in from = {};
    socklen_t size = sizeof(from);
    for (ssize_t n;
         (n = recvfrom(fd, q, sizeof(q), 0, reinterpret_cast<sockaddr*>(&from), &size)) > 12;) {
      // The question: labels, type, class.
      std::string name;
      size_t at = 12;
      while (q[at] != 0) {
        name.append(reinterpret_cast<char*>(q + at + 1), q[at]).append(".");
        at += q[at] + 1;
      }
      unsigned type = unsigned(q[at + 1] << 8 | q[at + 2]);
      size_t end = at + 5;
      std::string answer(reinterpret_cast<char*>(q), end);
      bool known = name == "node-1.example.";
      answer[2] = char(0x81), answer[3] = char(known ? 0x80 : 0x83);  // NXDOMAIN
      answer[7] = known ? 1 : 0;
      answer[10] = answer[11] = 0;
      if (known && type == 1) {
        answer.append("\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc0\0\2\7", 16);
      } else if (known && type == 28) {
        answer.append("\xc0\x0c\0\x1c\0\1\0\0\0\x3c\0\x10\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\7",
                      28);
      } else {
        answer[7] = 0;
      }
      sendto(fd, answer.data(), answer.size(), 0, reinterpret_cast<sockaddr*>(&from), size);
    }
  }
};

struct Resolver : public ::testing::Test {
  ConsoleFixture test;
  DnsServer server;
  ~Resolver() noexcept override {}
  std::string ask(kj::StringPtr host) {
    auto servers = kj::str("127.0.0.1:", server.port);
    std::string result;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                   auto found = resolve(test.io.unixEventPort, test.io.provider->getTimer(), host,
                                        {.servers = servers, .timeoutMs = 1000, .tries = 2})
                                    .wait(test.io.waitScope);
                   std::vector<std::string> sorted;
                   for (auto& f : found) sorted.push_back(f.cStr());
                   std::sort(sorted.begin(), sorted.end());
                   for (auto& s : sorted) result += s + " ";
                 })) {
      result = kj::str(nameOf(kindOf(*e)), ": ", messageOf(*e)).cStr();
    }
    return result;
  }
};

// Catches addresses that are sent to a server although they need no resolution.
TEST_F(Resolver, AddressesAreTheirOwnAnswer) {
  EXPECT_EQ(ask("10.0.0.2"), "10.0.0.2 ");
  EXPECT_EQ(ask("[fd00::1]"), "fd00::1 ");
  EXPECT_EQ(ask("fd00::1"), "fd00::1 ");
  EXPECT_EQ(asAddress("[10.0.0.2]"), nullptr);
  EXPECT_EQ(asAddress("10.0.0.2:50000"), nullptr);
}

TEST_F(Resolver, NamesOfHostsAndOfServers) {
  EXPECT_EQ(ask("node-1.example"), "192.0.2.7 2001:db8::7 ");
  EXPECT_THAT(ask("localhost"), HasSubstr("127.0.0.1"));
}

TEST_F(Resolver, UnknownNamesAreNamed) {
  EXPECT_THAT(ask("nobody.example"), HasSubstr("Unavailable: cannot resolve \"nobody.example\": "));
}

unsigned countIn(const char* folder) {
  unsigned count = 0;
  for (auto& entry : std::filesystem::directory_iterator(folder)) {
    (void)entry;
    ++count;
  }
  return count;
}
unsigned threads() {
  return countIn("/proc/self/task");
}
// Returns true when no more threads are left. A thread that has ended is listed for a moment more.
bool noMoreThreadsThan(unsigned count, kj::Timer& timer, kj::WaitScope& scope) {
  auto deadline = timer.now() + 20 * kj::SECONDS;
  while (threads() > count && timer.now() < deadline) {
    timer.afterDelay(1 * kj::MILLISECONDS).wait(scope);
  }
  return threads() <= count;
}
unsigned descriptors() {
  return countIn("/proc/self/fd");
}

// Catches a c-ares thread left by each lookup that could not begin.
TEST_F(Resolver, ServersThatAreNoneLeaveNothingBehind) {
  auto before = threads();
  for (int i = 0; i < 20; ++i) {
    std::string message;
    auto pending = resolve(test.io.unixEventPort, test.io.provider->getTimer(), "node-1.example",
                           {.servers = "not:a:server"});
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { pending.wait(test.io.waitScope); })) {
      message = messageOf(*e).cStr();
    }
    EXPECT_THAT(message, HasSubstr("cannot resolve \"node-1.example\": "));
  }
  EXPECT_TRUE(noMoreThreadsThan(before, test.io.provider->getTimer(), test.io.waitScope));
}

// Catches a thread left by each lookup, a dropped lookup that continues, sockets that stay open.
TEST_F(Resolver, CanBeDropped) {
  int silent = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);  // receives queries and never answers
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  bind(silent, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  socklen_t size = sizeof(address);
  getsockname(silent, reinterpret_cast<sockaddr*>(&address), &size);
  auto servers = kj::str("127.0.0.1:", ntohs(address.sin_port));
  auto threadsBefore = threads(), descriptorsBefore = descriptors();
  kj::Vector<kj::Promise<kj::Array<kj::String>>> pending;
  for (int i = 0; i < 20; ++i) {
    pending.add(resolve(test.io.unixEventPort, test.io.provider->getTimer(), "slow.example",
                        {.servers = servers}));
    EXPECT_FALSE(pending.back().poll(test.io.waitScope));
  }
  EXPECT_TRUE(noMoreThreadsThan(threadsBefore, test.io.provider->getTimer(), test.io.waitScope));
  EXPECT_GT(descriptors(), descriptorsBefore) << "nothing was asked";
  pending.clear();
  EXPECT_EQ(descriptors(), descriptorsBefore);
  close(silent);
}

}  // namespace
}  // namespace talos::talosctl
