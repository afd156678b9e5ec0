// login1 on a real dbus-daemon with the node's own configuration, in a folder of the test. The
// tests do what the kubelet does, over a separate connection.
#include "machined/confined/login1/login-manager.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <kj/debug.h>
#include <sdbus-c++/sdbus-c++.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/testing/test-tree.h"
#include "machined/confined/login1/locks/test-pair.h"

namespace talos::login1 {
namespace {

using testing::HasSubstr;

constexpr kj::StringPtr kOfTheNode = "unix:path=/run/dbus/system_bus_socket"_kj;
const char* const kName = "org.freedesktop.login1";
const char* const kManager = "org.freedesktop.login1.Manager";

using ListedLock =
    sdbus::Struct<std::string, std::string, std::string, std::string, uint32_t, uint32_t>;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// A dbus-daemon that runs until this is dropped.
class Bus {
 public:
  // `uid`: the user that the configuration accepts as login1.
  explicit Bus(unsigned uid) {
    auto text = std::string(readFile(kj::str(TALOS_SOURCE_DIR, "/rootfs/dbus.conf")).cStr());
    address = kj::str("unix:path=", tree.at("bus.sock"));
    text = replaced(text, kOfTheNode.cStr(), address.cStr());
    text = replaced(text, "\"56\"", "\"" + std::to_string(uid) + "\"");
    tree.file("bus.conf", kj::StringPtr(text.c_str()));
    start();
  }
  ~Bus() { stop(); }
  KJ_DISALLOW_COPY_AND_MOVE(Bus);

  // dbus-daemon listens as soon as it has printed its address.
  void start() {
    int ends[2];
    KJ_SYSCALL(pipe2(ends, 0));
    kj::AutoCloseFd reading(ends[0]);
    {
      kj::AutoCloseFd writing(ends[1]);
      auto config = kj::str("--config-file=", tree.at("bus.conf"));
      auto print = kj::str("--print-address=", ends[1]);
      const char* argv[] = {"/usr/bin/dbus-daemon", config.cStr(), print.cStr(), "--nofork",
                            "--nopidfile",          "--nosyslog",  nullptr};
      int error = posix_spawn(&pid, argv[0], nullptr, nullptr, const_cast<char**>(argv), environ);
      KJ_REQUIRE(error == 0, "dbus-daemon", error);
    }
    char byte;
    ssize_t size;
    KJ_SYSCALL(size = read(reading, &byte, 1));
    KJ_REQUIRE(size == 1, "dbus-daemon does not start");
  }
  void stop() {
    if (pid <= 0) return;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    pid = 0;
  }
  kj::String address;

 private:
  machined::TestTree tree;
  pid_t pid = 0;
};

kj::AutoCloseFd duplicate(int fd) {
  int copy;
  KJ_SYSCALL(copy = fcntl(fd, F_DUPFD_CLOEXEC, 0));
  return kj::AutoCloseFd(copy);
}

struct LoginManagerTest : public testing::Test {
  ~LoginManagerTest() noexcept override {}
  Bus bus{getuid()};
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  kj::Maybe<LoginManager&> listening;
  Signal changed;
  ShutdownDelay delay{timer,
                      [this](bool begins) {
                        KJ_IF_MAYBE (it, listening) it->prepareForShutdown(begins);
                      },
                      [this] { changed.raise(); }};
  // Held by process 1 on a node.
  TestPair pair;
  KeptLocks kept{duplicate(pair.keeping), duplicate(pair.kept)};
  kj::Own<LoginManager> manager = kj::heap<LoginManager>(
      io.unixEventPort, timer, kj::systemPreciseCalendarClock(), bus.address, delay, kept);
  kj::Maybe<kj::Exception> ended;
  kj::Promise<void> running = manager->run().eagerlyEvaluate([this](kj::Exception&& e) {
    ended = kj::mv(e);
    changed.raise();
  });

  LoginManagerTest() { listening = *manager; }
  void crash() {
    listening = nullptr;
    running = nullptr;
    manager = nullptr;
  }

  void await(kj::Function<bool()> condition) {
    timer
        .timeoutAfter(20 * kj::SECONDS,
                      kj::evalNow([&]() -> kj::Promise<void> { return until(condition); }))
        .wait(io.waitScope);
  }
  kj::Promise<void> until(kj::Function<bool()>& condition) {
    while (!condition()) co_await changed.wait();
  }
};

// The kubelet: a connection with its own thread, whose calls return when they are answered.
struct Kubelet {
  kj::MutexGuarded<std::vector<bool>> announced;
  // The connection's thread does not wait; the thread that destroys the proxy waits for it.
  kj::PromiseCrossThreadFulfillerPair<void> first = kj::newPromiseAndCrossThreadFulfiller<void>();
  std::unique_ptr<sdbus::IConnection> connection;
  std::unique_ptr<sdbus::IProxy> proxy;

  explicit Kubelet(LoginManagerTest& test)
      : connection(sdbus::createSessionBusConnectionWithAddress(test.bus.address.cStr())) {
    proxy = sdbus::createProxy(*connection, sdbus::ServiceName{kName},
                               sdbus::ObjectPath{"/org/freedesktop/login1"});
    proxy->uponSignal("PrepareForShutdown").onInterface(kManager).call([this](bool begins) {
      announced.lockExclusive()->push_back(begins);
      first.fulfiller->fulfill();
    });
    connection->enterEventLoopAsync();
  }

  sdbus::UnixFd inhibit(const std::string& who) {
    sdbus::UnixFd fd;
    proxy->callMethod("Inhibit")
        .onInterface(kManager)
        .withArguments("shutdown", who, "it ends pods", "delay")
        .storeResultsTo(fd);
    return fd;
  }
  std::vector<ListedLock> list() {
    std::vector<ListedLock> all;
    proxy->callMethod("ListInhibitors").onInterface(kManager).storeResultsTo(all);
    return all;
  }
};

// Runs `work` in a thread while the test's loop continues, and returns the result.
template <typename Work>
auto beside(LoginManagerTest& test, Work&& work) {
  kj::Maybe<decltype(work())> result;
  kj::Maybe<std::string> failure;
  auto paf = kj::newPromiseAndCrossThreadFulfiller<void>();
  kj::Thread thread([&] {
    try {
      result = work();
    } catch (const sdbus::Error& e) {
      failure = std::string(e.getName()) + ": " + e.getMessage();
    }
    paf.fulfiller->fulfill();
  });
  test.timer.timeoutAfter(20 * kj::SECONDS, kj::mv(paf.promise)).wait(test.io.waitScope);
  KJ_IF_MAYBE (why, failure) throw std::runtime_error(*why);
  return kj::mv(KJ_ASSERT_NONNULL(result));
}

// Catches: a kubelet that gets no signal, or whose lock the node does not wait for until it is
// closed; a delay that the kubelet considers too short; a program of the bus that the node's
// configuration denies.
TEST_F(LoginManagerTest, KubeletWithALockGetsSignalAndTime) {
  Kubelet kubelet(*this);
  auto maximum = beside(*this, [&] {
    return kubelet.proxy->getProperty("InhibitDelayMaxUSec").onInterface(kManager).get<uint64_t>();
  });
  EXPECT_EQ(maximum, 315'000'000u) << "any config's kubelet may ask for its time";
  auto lock = beside(*this, [&] { return kubelet.inhibit("kubelet"); });
  EXPECT_EQ(kj::strArray(delay.inhibitors().holders(), ""),
            kj::str("kubelet (pid ", getpid(), ")"));
  auto listed = beside(*this, [&] { return kubelet.list(); });
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].get<1>(), "kubelet");
  EXPECT_EQ(listed[0].get<4>(), getuid());

  delay.request(1);
  timer.timeoutAfter(20 * kj::SECONDS, kj::mv(kubelet.first.promise)).wait(io.waitScope);
  EXPECT_TRUE(kubelet.announced.lockShared()->front());
  EXPECT_EQ(delay.stateName(), "waiting"_kj);
  lock.reset();
  await([&] { return delay.stateName() == "over"; });
  EXPECT_TRUE(delay.inhibitors().empty());
}

// Catches: a node that shuts down under a kubelet whose lock was lost with login1, although the
// kubelet still has its end of the pipe.
TEST_F(LoginManagerTest, TheNextLogin1HasTheLocks) {
  Kubelet kubelet(*this);
  auto lock = beside(*this, [&] { return kubelet.inhibit("kubelet"); });
  auto released = beside(*this, [&] { return kubelet.inhibit("released meanwhile"); });
  crash();
  released.reset();

  ShutdownDelay later(
      timer,
      [this](bool begins) {
        KJ_IF_MAYBE (it, listening) it->prepareForShutdown(begins);
      },
      [this] { changed.raise(); });
  LoginManager next(io.unixEventPort, timer, kj::systemPreciseCalendarClock(), bus.address, later,
                    kept);
  listening = next;
  auto run = next.run().eagerlyEvaluate([](kj::Exception&&) {});
  await([&] { return later.inhibitors().holders().size() == 1; });
  auto listed = beside(*this, [&] { return kubelet.list(); });
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].get<0>(), "shutdown");
  EXPECT_EQ(listed[0].get<1>(), "kubelet");
  EXPECT_EQ(listed[0].get<2>(), "it ends pods");
  EXPECT_EQ(listed[0].get<3>(), "delay");
  EXPECT_EQ(listed[0].get<4>(), getuid());
  EXPECT_EQ(listed[0].get<5>(), static_cast<uint32_t>(getpid()));

  later.request(1);
  timer.timeoutAfter(20 * kj::SECONDS, kj::mv(kubelet.first.promise)).wait(io.waitScope);
  EXPECT_EQ(later.stateName(), "waiting"_kj);
  lock.reset();
  await([&] { return later.stateName() == "over"; });
  EXPECT_EQ(later.message(), "all locks were released"_kj);
  listening = nullptr;
}

// Catches: an answer that is not a string of D-Bus, which is UTF-8.
TEST_F(LoginManagerTest, ALongNameIsCutBetweenCharacters) {
  Kubelet kubelet(*this);
  std::string who(255, 'x');
  auto lock = beside(*this, [&] { return kubelet.inhibit(who + "\u00e9"); });
  auto listed = beside(*this, [&] { return kubelet.list(); });
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].get<1>(), who);
}

// Catches: a lock that is granted and not kept; a refusal without a message.
TEST_F(LoginManagerTest, WhatIsNotGivenIsRefused) {
  Kubelet kubelet(*this);
  try {
    beside(*this, [&] {
      sdbus::UnixFd fd;
      kubelet.proxy->callMethod("Inhibit")
          .onInterface(kManager)
          .withArguments("sleep", "x", "y", "delay")
          .storeResultsTo(fd);
      return fd;
    });
    FAIL() << "it was given";
  } catch (const std::runtime_error& e) {
    EXPECT_THAT(e.what(), HasSubstr("org.freedesktop.DBus.Error.InvalidArgs: locks of \"sleep\""));
  }
  EXPECT_TRUE(delay.inhibitors().empty());
}

// Catches: a program that stays alive without its bus, where no client can reach it.
TEST_F(LoginManagerTest, WithoutItsBusItEnds) {
  bus.stop();
  await([&] { return ended != nullptr; });
}

// Catches: a node on which any program can announce a shutdown, or delay one.
TEST(LoginBus, OnlyLogin1HasTheName) {
  ASSERT_EQ(getuid(), 0u) << "needs root";
  Bus bus(1);  // the user daemon
  TestPair pair;
  KeptLocks kept(kj::mv(pair.keeping), kj::mv(pair.kept));
  auto io = kj::setupAsyncIo();
  ShutdownDelay delay(io.provider->getTimer(), [](bool) {}, [] {});
  auto refused = kj::runCatchingExceptions([&] {
    LoginManager manager(io.unixEventPort, io.provider->getTimer(),
                         kj::systemPreciseCalendarClock(), bus.address, delay, kept);
  });
  EXPECT_THAT(KJ_ASSERT_NONNULL(refused).getDescription().cStr(), HasSubstr("AccessDenied"));
}

}  // namespace
}  // namespace talos::login1
