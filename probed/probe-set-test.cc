// The probes of a node as its store has them: a model of machined's store, reached through a
// socket, and a clock of the test.
#include "probed/probe-set.h"

#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/base/node-layout.h"
#include "tests/models/test-machined.h"

namespace talos::probed {
namespace {

constexpr kj::StringPtr kTarget = "192.0.2.1:22"_kj, kId = "tcp:192.0.2.1:22"_kj;

struct ProbeSetTest : public testing::Test {
  ~ProbeSetTest() noexcept override { stop(); }

  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  kj::TimerImpl clock{kj::origin<kj::TimePoint>()};
  ModelMachined machined{io, kProbedUid};
  ModelKind& specs = machined.kind<rpc::ProbeSpecSpec>();
  ModelKind& statuses = machined.kind<rpc::ProbeStatusSpec>();
  StoreClient store{*io.lowLevelProvider, timer, machined.socket(), kj::str("probed")};
  unsigned asked = 0;
  std::string failure;      // what the host answers; empty: a success
  bool silent = false;      // no answer
  unsigned unanswered = 0;  // number of questions under way
  ProbeSet::Ask asking = [this](const ProbeSettings& settings) -> kj::Promise<void> {
    EXPECT_EQ(settings.target, kTarget);
    ++asked;
    if (silent) {
      ++unanswered;
      return kj::Promise<void>(kj::NEVER_DONE).attach(kj::defer([this] { --unanswered; }));
    }
    if (failure.empty()) return kj::READY_NOW;
    return error(ErrorKind::kUnavailable, failure.c_str());
  };
  kj::Own<ProbeSet> set;
  kj::Promise<void> running = nullptr;

  void start() {
    set = kj::heap<ProbeSet>(clock, store, asking);
    running = set->run().eagerlyEvaluate([](kj::Exception&& e) { FAIL() << messageOf(e).cStr(); });
  }
  void stop() {
    running = nullptr;
    set = nullptr;
  }
  void want(kj::StringPtr interval, unsigned threshold = 0) {
    specs.set<rpc::ProbeSpecSpec>(kId, "machined", [&](auto spec) {
      spec.setInterval(interval);
      spec.setFailureThreshold(threshold);
      spec.initTcp().setEndpoint(kTarget);
    });
  }
  std::string shown() {
    std::string all;
    for (auto resource : statuses.all()) {
      ResourceOf<rpc::ProbeStatusSpec> one(resource);
      all += kj::str(one.id(), one.getSuccess() ? " good" : " bad ", one.getLastError(), "@",
                     one.version(), ";")
                 .cStr();
    }
    return all;
  }
  template <typename F>
  void until(F&& done) {
    auto deadline = timer.now() + 20 * kj::SECONDS;
    while (!done() && timer.now() < deadline) {
      timer.afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
    }
  }
  void await(const char* expected) {
    until([&] { return shown() == expected; });
    EXPECT_EQ(shown(), expected);
  }
  // Lets the clock reach this second since the start, and what is due then happen.
  void at(double second) {
    clock.advanceTo(kj::origin<kj::TimePoint>() +
                    static_cast<int64_t>(second * 1000) * kj::MILLISECONDS);
    for (unsigned i = 0; i < 3; ++i) timer.afterDelay(0 * kj::SECONDS).wait(io.waitScope);
  }
};

// Catches: a probe that waits for its first interval, asks too often, or asks several times at once
// because the clock has jumped.
TEST_F(ProbeSetTest, AskAtEachInterval) {
  want("10s");
  machined.start();
  start();
  await("tcp:192.0.2.1:22 good@1;");
  EXPECT_EQ(asked, 1u);
  at(9.9);
  EXPECT_EQ(asked, 1u);
  at(10);
  EXPECT_EQ(asked, 2u);
  at(47);
  EXPECT_EQ(asked, 3u);
  at(56.9);
  EXPECT_EQ(asked, 3u);
  at(57);
  EXPECT_EQ(asked, 4u);
  EXPECT_EQ(statuses.puts, 1u) << "nothing has changed";
}

// Catches: a failure that is reported one too early or too late; a count that a success does not
// begin again; a success that has to wait as long as a failure.
TEST_F(ProbeSetTest, AFailureIsSeveralBadAnswersInARow) {
  want("1s", 3);
  machined.start();
  start();
  await("tcp:192.0.2.1:22 good@1;");
  failure = "refused";
  at(1);
  at(2);
  failure = "";
  at(3);
  failure = "refused";
  at(4);
  at(5);
  EXPECT_EQ(shown(), "tcp:192.0.2.1:22 good@1;");
  at(6);
  await("tcp:192.0.2.1:22 bad refused@2;");
  failure = "no route";
  at(7);
  await("tcp:192.0.2.1:22 bad no route@3;");
  failure = "";
  at(8);
  await("tcp:192.0.2.1:22 good@4;");
}

// Catches: a host that has never answered and has no status, or is good, before the threshold.
TEST_F(ProbeSetTest, NoStatusBeforeTheFirstResult) {
  want("1s", 2);
  failure = "refused";
  machined.start();
  start();
  until([&] { return asked == 1; });
  at(0.5);
  EXPECT_EQ(shown(), "");
  at(1);
  await("tcp:192.0.2.1:22 bad refused@1;");
}

// Catches: a restarted process that makes a good probe bad, and forgets to remove what is not
// wanted any more.
TEST_F(ProbeSetTest, ContinuesWhatWasWrittenBefore) {
  for (auto id : {kId, "tcp:gone:1"_kj}) {
    statuses.set<rpc::ProbeStatusSpec>(id, "probed", [](auto spec) {
      spec.setSuccess(true);
      spec.setLastError("");
    });
  }
  want("1s", 2);
  silent = true;
  machined.start();
  start();
  await("tcp:192.0.2.1:22 good@1;");
  EXPECT_EQ(asked, 1u);
}

// Catches: a change that waits for the end of a long interval; a state that a change of the times
// makes unknown; a question that is still asked after its probe was removed; a status without its
// probe.
TEST_F(ProbeSetTest, FollowTheSpecs) {
  want("1h");
  machined.start();
  start();
  await("tcp:192.0.2.1:22 good@1;");
  silent = true;
  want("2h");
  until([&] { return asked == 2; });
  EXPECT_EQ(asked, 2u);
  EXPECT_EQ(unanswered, 1u);
  EXPECT_EQ(shown(), "tcp:192.0.2.1:22 good@1;");
  specs.destroy(kId);
  await("");
  EXPECT_EQ(unanswered, 0u);
  at(7200);
  EXPECT_EQ(asked, 2u);
}

// Catches: a setting that is lost between the spec and the question.
TEST(ProbeSettingsTest, AreReadFromTheSpec) {
  capnp::MallocMessageBuilder message;
  auto spec = message.initRoot<rpc::ProbeSpecSpec>();
  spec.setInterval("1m0.5s");
  spec.setFailureThreshold(3);
  auto http = spec.initHttp();
  http.setUrl("http://a/");
  http.setTimeout("250ms");
  auto settings = settingsOf(spec);
  EXPECT_EQ(settings.target, "http://a/"_kj);
  EXPECT_TRUE(settings.http);
  EXPECT_EQ(settings.interval, 60'500 * kj::MILLISECONDS);
  EXPECT_EQ(settings.timeout, 250 * kj::MILLISECONDS);
  EXPECT_EQ(settings.failureThreshold, 3u);
}

}  // namespace
}  // namespace talos::probed
