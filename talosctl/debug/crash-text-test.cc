#include "talosctl/debug/crash-text.h"

#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace talos::talosctl {
namespace {

using testing::HasSubstr;
using testing::Not;

crash::SymbolTable smallTable() {
  constexpr kj::StringPtr kText = "talos-symbols 1 0a16\n401000 talos::vipd::elect()\n401200 \n"_kj;
  return crash::SymbolTable(kj::heapArray<char>(kText.begin(), kText.size()));
}

struct CrashTextTest : testing::Test {
  capnp::MallocMessageBuilder message;
  rpc::CrashReportSpec::Builder report = message.initRoot<rpc::CrashReportSpec>();
  ~CrashTextTest() noexcept override {}
  CrashTextTest() {
    report.setService("vipd");
    report.setSignal("SIGSEGV");
    report.setTime("2026-11-26T22:16:47Z");
    report.setUptime(812);
    report.setVersion("v1");
    report.setProgram("vipd");
    report.setBuildId("0a16");
    report.setPid(77);
    report.setAddress("0x8");
    auto stack = report.initStack(2);
    stack.set(0, "0x401010");
    stack.set(1, "0x401234");
    report.initLog(1).set(0, "level=info message=listening");
  }
  NodeCrash crash() { return {"10.5.0.2", "vipd-20261126T221647Z", report}; }
  std::string whole(kj::Maybe<const crash::SymbolTable&> symbols) {
    return renderCrash(crash(), symbols).cStr();
  }
};

// Catches: a function's name at an address of another function.
TEST_F(CrashTextTest, NamesWhatTheTableKnows) {
  auto table = smallTable();
  auto text = whole(table);
  EXPECT_THAT(text, HasSubstr("Stack:\n  0x401010 talos::vipd::elect()+0x10\n  0x401234\n"));
  EXPECT_THAT(text, HasSubstr("Cause:     SIGSEGV at address 0x8\n"));
  EXPECT_THAT(text, HasSubstr("Log:\n  level=info message=listening\n"));
  EXPECT_THAT(whole(nullptr), Not(HasSubstr("elect")));
}

// Catches: a signal sent by a process that counts as a fault.
TEST_F(CrashTextTest, SaysWhoSentTheSignal) {
  report.setAddress("");
  report.setSender(1);
  EXPECT_THAT(whole(nullptr), HasSubstr("Cause:     SIGSEGV, sent by process 1\n"));
  report.setSender(77);
  EXPECT_THAT(whole(nullptr), HasSubstr("Cause:     SIGSEGV, by itself\n"));
}

TEST_F(CrashTextTest, ListsOneLineForEach) {
  NodeCrash crashes[] = {crash()};
  EXPECT_THAT(renderCrashes(crashes).cStr(),
              testing::MatchesRegex("NODE +NAME +SERVICE +SIGNAL +TIME +VERSION\n10.5.0.2 "
                                    "+vipd-20261126T221647Z +vipd +SIGSEGV "
                                    "+2026-11-26T22:16:47Z +v1 *\n"));
}

}  // namespace
}  // namespace talos::talosctl
