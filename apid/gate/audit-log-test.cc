// Delivery of audit records to machined, with a virtual clock.
#include "apid/gate/audit-log.h"

#include <gtest/gtest.h>

#include "common/base/error.h"

namespace talos::apid {
namespace {

struct AuditBench {
  kj::Vector<kj::String> got;
  unsigned away = 0;  // number of deliveries that fail as if machined were not running
  bool refuses = false, hangs = false;
};

class FakeMachined final : public rpc::Machined::Server {
 public:
  explicit FakeMachined(AuditBench& bench) : bench(bench) {}

 protected:
  kj::Promise<void> audit(AuditContext context) override {
    if (bench.hangs) return kj::NEVER_DONE;
    if (bench.refuses) fail(ErrorKind::kPermissionDenied, "not you");
    if (bench.away > 0) {
      --bench.away;
      return KJ_EXCEPTION(DISCONNECTED, "gone");
    }
    auto record = context.getParams().getRecord();
    bench.got.add(kj::str(record.getClient(), " ", record.getCall(), " ", record.getOutcome(), " ",
                          record.getDurationUs()));
    return kj::READY_NOW;
  }

 private:
  AuditBench& bench;
};

struct AuditLogTest : ::testing::Test {
  ~AuditLogTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  AuditBench bench;
  AuditLog log{timer, kj::heap<FakeMachined>(bench), {.refusals = 3, .names = 2, .pending = 4}};

  kj::Promise<void> record(kj::StringPtr name, bool refused = false) {
    auto trail = log.trail({kj::str(name), kj::str("10.0.0.9"), kj::str(), kj::str()}, nullptr);
    return trail->record({.text = kj::str("Machine.reboot()"),
                          .outcome = kj::str(refused ? "denied" : "ok"),
                          .refused = refused,
                          .duration = 3 * kj::MILLISECONDS});
  }
  void pass(kj::Duration duration) {
    for (auto end = timer.now() + duration; timer.now() < end;) {
      timer.advanceTo(kj::min(end, timer.now() + 50 * kj::MILLISECONDS));
      scope.poll();
    }
  }
};

TEST_F(AuditLogTest, ARecordIsThereBeforeItsPromiseIs) {
  record("someone").wait(scope);
  ASSERT_EQ(bench.got.size(), 1u);
  EXPECT_EQ(bench.got[0], "someone Machine.reboot() ok 3000"_kj);
}

// Catches: a record that is lost because machined's brain was unreachable for a moment.
TEST_F(AuditLogTest, RecordIsSentAgainAfterMachinedWasUnreachable) {
  bench.away = 3;
  auto sending = record("someone");
  EXPECT_FALSE(sending.poll(scope));
  pass(1 * kj::SECONDS);
  sending.wait(scope);
  EXPECT_EQ(bench.got.size(), 1u);
}

// Catches: a record that ends up in no log, and a call that waits for it for ever.
TEST_F(AuditLogTest, UndeliveredRecordsAreInOurOwnLog) {
  for (int way = 0; way < 3; ++way) {
    bench = AuditBench();
    (way == 0 ? bench.refuses : bench.hangs) = way < 2;
    if (way == 2) bench.away = 1000;
    ::testing::internal::CaptureStderr();
    auto sending = record("someone");
    pass(6 * kj::SECONDS);
    sending.wait(scope);
    auto line = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(line.find("cannot deliver an audit record"), std::string::npos) << way << line;
    EXPECT_NE(line.find("client=someone address=10.0.0.9"), std::string::npos) << line;
    EXPECT_NE(line.find("call=Machine.reboot()"), std::string::npos) << line;
  }
}

// Catches: a caller that goes away and takes its record with it.
TEST_F(AuditLogTest, RecordIsSentThoughItsPromiseIsDropped) {
  (void)record("someone");
  scope.poll();
  EXPECT_EQ(bench.got.size(), 1u);
}

// Catches: a caller that overwrites the log with its denied calls, so that other records are lost;
// refusals that are not even counted.
TEST_F(AuditLogTest, AFloodOfRefusalsIsCounted) {
  for (int i = 0; i < 100; ++i) record("reader", true).wait(scope);
  record("admin").wait(scope);
  record("other", true).wait(scope);
  EXPECT_EQ(bench.got.size(), 5u);
  pass(61 * kj::SECONDS);
  ASSERT_EQ(bench.got.size(), 6u);
  EXPECT_EQ(bench.got[5], "reader 97 more calls refused 60000000"_kj);
  for (int i = 0; i < 3; ++i) record("reader", true).wait(scope);  // a new window
  EXPECT_EQ(bench.got.size(), 9u);
  // Names beyond the limit are counted together.
  for (int i = 0; i < 100; ++i) record(kj::str("name", i), true).wait(scope);
  EXPECT_EQ(bench.got.size(), 9u + 1 + 3);  // name0 has a separate count
}

// Catches: memory that grows with calls while machined hangs.
TEST_F(AuditLogTest, RecordsUnderWayAreBounded) {
  bench.hangs = true;
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 10; ++i) (void)record("someone");
  scope.poll();
  auto lines = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 6) << lines;
  EXPECT_NE(lines.find("4 other records are pending, which is the limit"), std::string::npos);
  pass(6 * kj::SECONDS);
  bench.hangs = false;
  record("someone").wait(scope);
  EXPECT_EQ(bench.got.size(), 1u);
}

}  // namespace
}  // namespace talos::apid
