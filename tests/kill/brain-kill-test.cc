// kill -9 of machined at random moments, while configs are applied, services are killed through the
// API and a log is followed: no answered change is lost.
//
// KILLS sets the number of kills (1000 take little more than a minute). Each promise is checked
// where it is made: data that a client got in an answer exists when it asks again, whichever brain
// answers.
#include <capnp/rpc-twoparty.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <kj/debug.h>
#include <signal.h>
#include <stdlib.h>

#include <random>

#include "common/base/error.h"
#include "common/wire/rpc-server.h"
#include "rpc/local.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "tests/kill/node-testbed.h"

namespace talos::kill {
namespace {

constexpr auto kAnswer = 10 * kj::SECONDS;  // of one call, on a machine that is busy
constexpr auto kComesUp = 30 * kj::SECONDS;
constexpr auto kEffect = 30 * kj::SECONDS;  // a restart of a service backs off up to 5 s

// Keeps the whole log that it was sent, and that there were no holes.
class Follower final : public rpc::LogSink::Server {
 public:
  struct Seen {
    uint64_t next = 0;
    uint64_t bytes = 0, missed = 0, holes = 0;
    uint64_t applies = 0;  // lines that tell of one
    kj::Vector<char> line;
  };
  explicit Follower(Seen& seen) : seen(seen) {}

  kj::Promise<void> write(WriteContext context) override {
    auto params = context.getParams();
    auto bytes = params.getBytes().asChars();
    if (seen.next != 0 && params.getNext() - bytes.size() != seen.next) ++seen.holes;
    seen.next = params.getNext();
    seen.bytes += bytes.size();
    for (char c : bytes) {
      if (c != '\n') {
        seen.line.add(c);
        continue;
      }
      auto text = kj::heapString(seen.line.asPtr());
      seen.applies += strstr(text.cStr(), "machine config: applying a new config") != nullptr;
      seen.line.clear();
    }
    return kj::READY_NOW;
  }
  kj::Promise<void> missed(MissedContext context) override {
    seen.missed += context.getParams().getBytes();
    return kj::READY_NOW;
  }

 private:
  Seen& seen;
};

struct BrainKillTest : testing::Test, kj::TaskSet::ErrorHandler {
  ~BrainKillTest() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  std::minstd_rand random{std::random_device{}()};
  NodeTestbed testbed{getenv("PROGRAMS")};
  rpc::Machined::Client machined =
      reconnecting(*io.lowLevelProvider, timer, kj::str(testbed.socket().c_str()))
          .castAs<rpc::Machined>();
  kj::String document;
  bool over = false, verifying = false;  // a signal was answered, and its effect is awaited
  unsigned kills = 0;
  // Counts of answered calls.
  uint64_t applied = 0, applies = 0, signals = 0;
  uint64_t version = 0;
  Follower::Seen log;
  kj::Vector<kj::String> wrong;
  kj::TaskSet tasks{*this};

  void taskFailed(kj::Exception&& e) override {
    wrong.add(kj::str("a task failed: ", messageOf(e)));
  }
  rpc::Node::Client node() { return machined.nodeRequest().send().getNode(); }
  kj::Promise<void> pause(kj::Duration d) { return timer.afterDelay(d); }

  // Returns nullptr if the call failed. Failures other than those of a call that a kill interrupts
  // are recorded as wrong.
  template <typename T>
  kj::Promise<kj::Maybe<T>> attempt(kj::Promise<T> call) {
    return timer.timeoutAfter(kAnswer, kj::mv(call))
        .then([](T&& value) -> kj::Maybe<T> { return kj::mv(value); },
              [this](kj::Exception&& e) -> kj::Maybe<T> {
                auto kind = kindOf(e);
                if (kind != ErrorKind::kUnavailable && kind != ErrorKind::kConflict &&
                    kind != ErrorKind::kFailedPrecondition) {
                  wrong.add(kj::str(nameOf(kind), ": ", messageOf(e)));
                }
                return nullptr;
              });
  }

  kj::Promise<bool> tryApply(uint64_t number) {
    auto request = node().configurationRequest().send().getConfiguration().applyRequest();
    auto apply = request.initRequest();
    auto text = kj::str(document, "# ", number, "\n");
    apply.setDocument(text.asBytes());
    apply.setMode(rpc::ApplyMode::NO_REBOOT);
    return attempt(request.send().then([](auto&&) { return true; })).then([](kj::Maybe<bool> m) {
      return m != nullptr;
    });
  }

  struct Stored {
    uint64_t number, version;
  };
  kj::Promise<kj::Maybe<Stored>> stored() {
    auto request = node().sensitiveResourcesRequest().send().getResources().getRequest();
    request.initKind().setType("MachineConfigs.config.talos.dev");
    request.setId("v1alpha1");
    return attempt(request.send().then([](auto&& answer) {
      auto resource = answer.getResource();
      auto text =
          kj::str(resource.getSpec().template getAs<rpc::MachineConfigSpec>().getDocument());
      auto mark = KJ_ASSERT_NONNULL(text.findLast('#'));
      return Stored{strtoull(text.cStr() + mark + 1, nullptr, 10),
                    resource.getMetadata().getVersion()};
    }));
  }

  // --- those that call, until it is over ---

  kj::Promise<void> applyAgainAndAgain() {
    for (uint64_t number = 1; !over; ++number) {
      if (co_await tryApply(number)) {
        applied = number;
        ++applies;
      } else {
        co_await pause(2 * kj::MILLISECONDS);
      }
      auto found = co_await stored();
      KJ_IF_MAYBE (s, found) {
        if (s->number < applied) {
          wrong.add(kj::str("config ", applied, " was answered, and ", s->number, " is there"));
        }
        if (s->version < version) {
          wrong.add(kj::str("version ", version, " was seen, and then ", s->version));
        }
        version = s->version;
      }
    }
  }

  kj::Promise<kj::Maybe<int>> networkdPid() {
    return attempt(
        node().servicesRequest().send().getServices().listRequest().send().then([](auto&& answer) {
          for (auto service : answer.getServices()) {
            if (service.getId() == "networkd") return static_cast<int>(service.getPid());
          }
          return 0;
        }));
  }

  kj::Promise<void> killServicesAgainAndAgain() {
    while (!over) {
      auto before = co_await networkdPid();
      int pid = before.orDefault(0);
      if (pid == 0) {
        co_await pause(5 * kj::MILLISECONDS);
        continue;
      }
      auto request = node().servicesRequest().send().getServices().killRequest();
      request.setId("networkd");
      request.setSignal(SIGKILL);
      auto sent = co_await attempt(request.send().then([](auto&&) { return true; }));
      if (sent == nullptr) continue;
      ++signals;
      verifying = true;
      auto late = timer.now() + kEffect;
      for (;;) {
        auto now = co_await networkdPid();
        if (now.orDefault(pid) != pid) break;
        if (timer.now() > late) {
          wrong.add(kj::str("SIGKILL to networkd (PID ", pid, ") was answered, and it runs"));
          break;
        }
        co_await pause(5 * kj::MILLISECONDS);
      }
      verifying = false;
    }
  }

  kj::Promise<void> followAgainAndAgain() {
    while (!over) {
      auto request = node().logsRequest().send().getLogs().readRequest();
      request.setId("machined");
      request.setFollow(true);
      request.setFrom(log.next);
      request.setSink(kj::heap<Follower>(log));
      co_await request.send().ignoreResult().catch_([](kj::Exception&&) {});
      if (!over) co_await pause(1 * kj::MILLISECONDS);
    }
  }

  // --- the test's own steps ---

  template <typename F>
  void until(kj::StringPtr what, kj::Duration timeout, F&& reached) {
    auto late = timer.now() + timeout;
    while (!reached()) {
      KJ_REQUIRE(timer.now() < late, "not reached in time", what,
                 wrong.empty() ? kj::String() : kj::str(wrong.back()), testbed.console().c_str());
      pause(20 * kj::MILLISECONDS).wait(io.waitScope);
    }
  }

  void boot() {
    until("machined answers", kComesUp, [&]() {
      auto made = attempt(firstConfig(node())).wait(io.waitScope);
      document = kj::mv(made).orDefault(kj::String());
      return document.size() > 0;
    });
    until("the first config", kComesUp, [&]() { return tryApply(0).wait(io.waitScope); });
    until("the node runs", kComesUp, [&]() {
      auto status = attempt(node().machineRequest().send().getMachine().statusRequest().send().then(
                                [](auto&& answer) { return answer.getStage(); }))
                        .wait(io.waitScope);
      return status.orDefault(rpc::Status::Stage::BOOTING) == rpc::Status::Stage::RUNNING;
    });
  }

  // The next brain may be killed before it has opened its eyes, or long after. Every fourth has
  // answered something before: on a busy machine five in a row would otherwise not come as far as
  // their records, which process 1 takes for records that kill
  // (machined/process1/recovery-guard.h).
  void killOnce() {
    bool answered = kills % 4 == 0;
    if (answered) {
      until("an answer", kComesUp, [&]() { return stored().wait(io.waitScope) != nullptr; });
    }
    int pid = 0;
    until("a brain", kComesUp, [&]() { return (pid = testbed.brain()) != 0; });
    auto delay = std::uniform_int_distribution<int>(0, answered ? 300 : 40)(random);
    pause(delay * kj::MILLISECONDS).wait(io.waitScope);
    // A child that a killed brain was about to start is an orphan of its name for a moment.
    if (::kill(pid, SIGKILL) != 0) return;
    ++kills;
    // The list of children may leave one out while another exits (proc(5)); this is certain.
    until("its end", kComesUp, [&]() { return ::kill(pid, 0) != 0; });
    checkExits(testbed.console());
  }

  // None ended but by our hand.
  void checkExits(const std::string& console) {
    constexpr char kExited[] = "machined exited with ", kKilled[] = "signal 9 ";
    for (auto at = console.find(kExited); at != console.npos; at = console.find(kExited, at + 1)) {
      if (console.compare(at + strlen(kExited), strlen(kKilled), kKilled) != 0) {
        wrong.add(kj::str("a brain ended by itself: ", console.substr(at, 80).c_str()));
        return;
      }
    }
  }
};

// Catches: whatever machined answers before process 1 or a disk has it.
TEST_F(BrainKillTest, NothingThatWasAnsweredIsLost) {
  auto* wanted = getenv("KILLS");
  unsigned count = wanted == nullptr ? 100 : strtoul(wanted, nullptr, 10);
  boot();
  wrong.clear();  // while it was coming up
  auto began = timer.now();
  tasks.add(applyAgainAndAgain());
  tasks.add(killServicesAgainAndAgain());
  tasks.add(followAgainAndAgain());
  while (kills < count && wrong.empty()) killOnce();
  over = true;
  until("the last config", kEffect, [&]() {
    auto found = stored().wait(io.waitScope);
    KJ_IF_MAYBE (s, found) {
      EXPECT_GE(s->number, applied);
      return true;
    }
    return false;
  });
  until("the effect of the last signal", kEffect + kAnswer, [&]() { return !verifying; });
  auto seconds = (timer.now() - began) / kj::SECONDS;
  printf(
      "%u kills in %lu s; answered: %lu applies, %lu signals; %lu bytes of log, %lu applies in "
      "it\n",
      kills, seconds, applies, signals, log.bytes, log.applies);
  for (auto& line : wrong) ADD_FAILURE() << line.cStr();
  if (!wrong.empty()) printf("CONSOLE %s\n", testbed.console().c_str());
  EXPECT_EQ(0u, log.holes);
  EXPECT_EQ(0u, log.missed);
  EXPECT_GE(log.applies, applies);
  EXPECT_GE(applies, count / 10) << "hardly anything was under way when it was killed";
  EXPECT_GE(signals, 1u);
}

}  // namespace
}  // namespace talos::kill
