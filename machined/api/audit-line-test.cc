#include "machined/api/audit-line.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "machined/api/node-server.h"
#include "machined/logs/log-ring.h"

namespace talos::machined {
namespace {

const kj::Date kNow = kj::UNIX_EPOCH + 1'795'176'455'042 * kj::MILLISECONDS;

TEST(AuditLine, HasCallerCallAndOutcome) {
  capnp::MallocMessageBuilder message;
  auto record = message.initRoot<rpc::AuditRecord>();
  record.setClient("admin");
  record.setAddress("10.0.0.9");
  record.initRoles(1).set(0, "os:admin");
  record.setCall("Services.restart(id: \"apid\")");
  record.setOutcome("ok");
  record.setDurationUs(1250);
  EXPECT_EQ(auditLine(record, kNow),
            "time=2026-11-20T12:07:35.042Z client=admin address=10.0.0.9 roles=os:admin "
            "call=\"Services.restart(id: \\\"apid\\\")\" outcome=ok duration=1.2ms\n"_kj);
  record.setVia("10.0.0.2");
  EXPECT_NE(std::string(auditLine(record, kNow).cStr()).find("address=10.0.0.9 via=10.0.0.2 roles"),
            std::string::npos);
  record.setRequest("a b");
  EXPECT_EQ(std::string(auditLine(record, kNow).cStr()).find("request="), std::string::npos);
  record.setRequest("3f2a91c0-17");
  EXPECT_NE(std::string(auditLine(record, kNow).cStr()).find("via=10.0.0.2 request=3f2a91c0-17 r"),
            std::string::npos);
}

// Catches: a record that makes two lines, or a line that the log cuts.
TEST(AuditLine, IsOneShortLine) {
  capnp::MallocMessageBuilder message;
  auto record = message.initRoot<rpc::AuditRecord>();
  auto evil = kj::str(kj::repeat('\x01', 100'000));
  evil[5] = '\n';
  record.setClient(evil);
  record.setAddress(evil);
  record.setVia(evil);
  record.setCall(evil);
  record.setOutcome(evil);
  auto roles = record.initRoles(1000);
  for (unsigned i = 0; i < 1000; ++i) roles.set(i, kj::str(kj::repeat('\x01', 50)));
  auto line = auditLine(record, kNow);
  EXPECT_EQ(KJ_ASSERT_NONNULL(line.findFirst('\n')), line.size() - 1);
  EXPECT_LT(line.size(), kLongestLine);
}

// Catches: another daemon of the machine that records calls which were never made.
TEST(AuditLine, OnlyApidMayWriteAuditLines) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  unsigned kept = 0;
  for (unsigned uid : {0u, 50u, 51u, 1000u}) {
    auto broken = KJ_EXCEPTION(FAILED, "not asked here");
    auto machined = serveMachined(
        UnixPeer{1, uid, uid}, rpc::Node::Client(kj::cp(broken)), rpc::Node::Client(kj::cp(broken)),
        rpc::Store::Client(kj::cp(broken)), [&](rpc::AuditRecord::Reader) { ++kept; });
    auto failure = kj::runCatchingExceptions(
        [&] { machined.auditRequest().send().ignoreResult().wait(scope); });
    if (uid == 50) {
      EXPECT_TRUE(failure == nullptr);
    } else {
      EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(failure)), ErrorKind::kPermissionDenied) << uid;
    }
  }
  EXPECT_EQ(kept, 1u);
}

}  // namespace
}  // namespace talos::machined
