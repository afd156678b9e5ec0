// A destination of logd and Debian's rsyslogd, in a network of this process alone: all lines
// arrive, in their order, although the receiver is stopped, ends and starts again, and the network
// is cut. LINES is their number. Lines that a broken connection doubles are marked, counted and
// printed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/async-unix.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "common/base/file.h"
#include "common/testing/test-tree.h"
#include "common/tls/pki.h"
#include "logd/destination.h"
#include "tests/models/test-log-feed.h"

namespace talos::logd {
namespace {

using config::LogFormat;
using config::LogStream;

constexpr unsigned kPort = 5140, kBatchLines = 250;

void setLoopback(bool up) {
  kj::AutoCloseFd control(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request = {};
  strcpy(request.ifr_name, "lo");
  KJ_SYSCALL(ioctl(control, SIOCGIFFLAGS, &request));
  request.ifr_flags =
      static_cast<short>(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
  KJ_SYSCALL(ioctl(control, SIOCSIFFLAGS, &request));
}

class Rsyslogd {
 public:
  Rsyslogd(const machined::TestTree& tree, bool tls) : folder(tree.root) {
    auto authority =
        pki::makeAuthority({.organization = "receivers", .keyType = pki::KeyType::kEcdsaP256});
    pki::LeafOptions options{.commonName = "receiver"};
    options.addresses = kj::arr(kj::str("127.0.0.1"));
    auto leaf = pki::issue(authority.certificate, authority.key, kj::mv(options));
    ca = kj::str(authority.certificate);
    writeFileAtomically(kj::str(folder, "/ca"), ca, 0600);
    writeFileAtomically(kj::str(folder, "/crt"), leaf.certificate, 0600);
    writeFileAtomically(kj::str(folder, "/key"), kj::StringPtr(leaf.key), 0600);
    auto driver = tls ? " streamDriver.name=\"ossl\" streamDriver.mode=\"1\" "
                        "streamDriver.authMode=\"anon\""
                      : "";
    auto config =
        kj::str("global(workDirectory=\"", folder,
                "\" maxMessageSize=\"16k\" defaultNetstreamDriverCAFile=\"", folder,
                "/ca\" defaultNetstreamDriverCertFile=\"", folder,
                "/crt\" defaultNetstreamDriverKeyFile=\"", folder,
                "/key\")\nmain_queue(queue.type=\"linkedList\" queue.timeoutShutdown=\"20000\")\n"
                "module(load=\"imtcp\")\nmodule(load=\"imudp\")\n"
                "template(name=\"raw\" type=\"string\" string=\"%rawmsg%\\n\")\n"
                "action(type=\"omfile\" file=\"",
                folder, "/out\" template=\"raw\" flushOnTXEnd=\"on\")\n",
                "input(type=\"imtcp\" address=\"127.0.0.1\" port=\"", kPort, "\"", driver,
                ")\ninput(type=\"imudp\" address=\"127.0.0.1\" port=\"", kPort, "\")\n");
    writeFileAtomically(kj::str(folder, "/conf"), config, 0600);
  }
  ~Rsyslogd() noexcept { end(SIGKILL); }

  void start() {
    pid = fork();
    if (pid == 0) {
      auto conf = kj::str(folder, "/conf"), file = kj::str(folder, "/pid");
      execl("/usr/sbin/rsyslogd", "rsyslogd", "-n", "-f", conf.cStr(), "-i", file.cStr(), nullptr);
      _exit(127);
    }
  }
  void send(int signal) { KJ_SYSCALL(::kill(pid, signal)); }
  void end(int signal) {
    if (pid <= 0) return;
    ::kill(pid, signal);
    waitpid(pid, nullptr, 0);
    pid = 0;
  }

  // Reads on in its file: "line <number> " of each line.
  void read() {
    if (!file.is_open()) file.open(kj::str(folder, "/out").cStr());
    if (!file.is_open()) return;
    file.clear();
    for (;;) {
      auto at = file.tellg();
      std::string line;
      if (!std::getline(file, line) || file.eof()) {
        file.clear();
        file.seekg(at);
        return;
      }
      auto number = line.find("line ");
      // The end of a message that a broken connection cut off.
      if (number == std::string::npos || line.find(" of the test") == std::string::npos) {
        ++pieces;
        continue;
      }
      auto n = strtoull(line.c_str() + number + 5, nullptr, 10);
      if (n == next) {
        ++next;
      } else if (n < next) {
        ++doubled;
        if (line.find("repeated") == std::string::npos) ++unmarked;
      } else {
        ++gaps;
        if (gaps < 5) ADD_FAILURE() << "line " << n << " came where " << next << " was expected";
        next = n + 1;
      }
    }
  }
  uint64_t next = 0, doubled = 0, unmarked = 0, gaps = 0, pieces = 0;
  kj::String ca;

 private:
  kj::StringPtr folder;
  pid_t pid = 0;
  std::ifstream file;
};

// Bytes that rsyslogd's kernel has acknowledged and rsyslogd has not read yet.
uint64_t unread() {
  std::ifstream table("/proc/net/tcp");
  std::string line;
  uint64_t bytes = 0;
  char local[32];
  snprintf(local, sizeof local, "0100007F:%04X", kPort);
  while (std::getline(table, line)) {
    char own[64], peer[64], state[8], queues[64];
    if (sscanf(line.c_str(), " %*d: %63s %63s %7s %63s", own, peer, state, queues) != 4) continue;
    if (strcmp(own, local) == 0 && strcmp(state, "0A") != 0)
      bytes += strtoull(strchr(queues, ':') + 1, nullptr, 16);
  }
  return bytes;
}

struct RsyslogTest : public testing::Test {
  ~RsyslogTest() noexcept override {}
  static void SetUpTestSuite() {
    KJ_SYSCALL(unshare(CLONE_NEWNET));
    setLoopback(true);
  }

  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  machined::TestTree tree;
  DiskThread disk;
  kj::Own<FeedModel> feed = kj::heap<FeedModel>(io.unixEventPort);
  kj::String hostname = kj::str("node-1");
  kj::Function<double()> random = [] { return 0.5; };
  uint64_t position = 0, written = 0;
  kj::Own<Destination> destination;

  void connect(kj::StringPtr scheme, LogFormat format, kj::StringPtr ca) {
    DestinationSettings settings;
    settings.endpoint = kj::str(scheme, "://127.0.0.1:", kPort);
    settings.format = format;
    settings.streams = kj::arr(LogStream::SERVICES);
    settings.bufferBytes = 1u << 30;
    auto address = ReceiverAddress::parse(settings.endpoint);
    destination = kj::heap<Destination>(
        DestinationDependencies{.timer = timer,
                                .clock = kj::systemPreciseCalendarClock(),
                                .random = random,
                                .disk = disk,
                                .machined = feed->machined(),
                                .hostname = hostname},
        kj::mv(settings), tree.at("spool"),
        Dial([this, address = kj::mv(address), ca = kj::str(ca)]() {
          return connectReceiver({*io.lowLevelProvider, io.unixEventPort, timer, disk}, address,
                                 ca);
        }));
  }
  // Polls: rsyslogd announces nothing.
  bool waitUntil(kj::Function<bool()> condition, kj::Duration most = 120 * kj::SECONDS) {
    auto end = timer.now() + most;
    while (!condition()) {
      if (timer.now() > end) return false;
      timer.afterDelay(10 * kj::MILLISECONDS).wait(io.waitScope);
    }
    return true;
  }
  void log(uint64_t until) {
    ASSERT_TRUE(waitUntil([this]() { return feed->follows > 0; }));
    while (written < until) {
      kj::Vector<char> lines;
      for (unsigned i = 0; i < kBatchLines && written < until; ++i) {
        lines.addAll(kj::str("line ", written++, " of the test, as long as many others are\n"));
      }
      position += lines.size();
      feed->append("a", kj::heapString(lines));
      ASSERT_TRUE(waitUntil([this]() { return feed->delivered >= position; }));
    }
  }
  // Waits until the receiver has got this number of lines.
  void await(Rsyslogd& receiver, uint64_t number) {
    EXPECT_TRUE(waitUntil([&]() {
      receiver.read();
      return receiver.next >= number;
    })) << receiver.next
        << " of " << number << " lines; " << destination->status().lastError.cStr();
  }

  void run(kj::StringPtr scheme, LogFormat format) {
    auto configured = getenv("LINES");
    const uint64_t all = configured == nullptr ? 20'000 : strtoull(configured, nullptr, 10);
    Rsyslogd receiver(tree, scheme == "tls");
    receiver.start();
    connect(scheme, format, scheme == "tls" ? receiver.ca.asPtr() : ""_kj);
    const unsigned kRounds = 6;
    for (unsigned round = 0; round < kRounds; ++round) {
      const auto part = all / kRounds, base = round * part;
      log(base + part / 3);
      await(receiver, base + part / 6);
      switch (round % 3) {
        case 0:  // it stands still
          receiver.send(SIGSTOP);
          log(base + part * 2 / 3);
          waitUntil([&]() { return unread() > 0; });
          receiver.send(SIGCONT);
          break;
        case 1:  // the network is cut, in the middle of what is sent
          setLoopback(false);
          log(base + part * 2 / 3);
          timer.afterDelay(700 * kj::MILLISECONDS).wait(io.waitScope);
          setLoopback(true);
          break;
        case 2:  // it ends, and begins again
          setLoopback(false);
          EXPECT_TRUE(waitUntil([]() { return unread() == 0; }));
          log(base + part * 2 / 3);
          // This process stands still until it has ended: logd looks for acknowledgements before.
          timer.afterDelay(200 * kj::MILLISECONDS).wait(io.waitScope);
          receiver.end(SIGTERM);
          setLoopback(true);
          timer.afterDelay(300 * kj::MILLISECONDS).wait(io.waitScope);
          receiver.start();
      }
      log(base + part);
    }
    log(all);
    await(receiver, all);
    EXPECT_EQ(all, receiver.next);
    EXPECT_EQ(0u, receiver.gaps);
    // The receiver ends in two of the rounds: at most all lines before come twice.
    EXPECT_EQ(0u, receiver.unmarked);
    EXPECT_LT(receiver.doubled, all / 2 + all);
    EXPECT_TRUE(waitUntil([&]() { return destination->status().sentLines == all; }))
        << destination->status().sentLines;
    EXPECT_EQ(0u, destination->status().droppedLines);
    EXPECT_EQ(0u, destination->status().waitingBytes);
    printf("%s: %llu lines, %llu twice, %llu pieces\n", scheme.cStr(),
           static_cast<unsigned long long>(receiver.next),
           static_cast<unsigned long long>(receiver.doubled),
           static_cast<unsigned long long>(receiver.pieces));
    destination = nullptr;
  }
};

// Catches: lines that are lost when a connection breaks, come in another order, or without end.
TEST_F(RsyslogTest, TcpJsonLines) {
  run("tcp", LogFormat::JSON_LINES);
}
TEST_F(RsyslogTest, TcpRfc5424) {
  run("tcp", LogFormat::RFC5424);
}
TEST_F(RsyslogTest, TlsRfc5424) {
  run("tls", LogFormat::RFC5424);
}

// Catches: datagrams that do not hold one whole message each.
TEST_F(RsyslogTest, Udp) {
  for (auto format : {LogFormat::RFC5424, LogFormat::JSON_LINES}) {
    machined::TestTree own;
    Rsyslogd receiver(own, false);
    receiver.start();
    ASSERT_TRUE(waitUntil([]() {
      std::ifstream table("/proc/net/udp");
      std::string text((std::istreambuf_iterator<char>(table)), {});
      return text.find(":1414 ") != std::string::npos;  // kPort
    }));
    position = written = 0;
    destination = nullptr;
    feed = kj::heap<FeedModel>(io.unixEventPort);  // of another machine
    disk.run([folder = tree.at("spool")]() { removeTree(folder); }).wait(io.waitScope);
    connect("udp", format, "");
    log(100);
    await(receiver, 100);
    EXPECT_EQ(0u, receiver.pieces);
  }
}

}  // namespace
}  // namespace talos::logd
