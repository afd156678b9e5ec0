#include "machined/config/apply-decision.h"

#include <gtest/gtest.h>

#include <string>

#include "common/base/error.h"

namespace talos::machined {
namespace {

// Returns the error of `check`; empty without one.
template <typename F>
std::string conflictOf(F&& check) {
  std::string text;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions(check)) {
    EXPECT_EQ(ErrorKind::kConflict, kindOf(*e));
    text = messageOf(*e).cStr();
  }
  return text;
}

// Catches: two applies at once, a config that a running sequence does not see, and a repair of a
// boot that waits for a service and is refused.
TEST(ApplyDecision, AConfigIsTakenWhenNothingElseRuns) {
  using Mode = rpc::ApplyMode;
  constexpr const char *kOther = "another config is being applied (mode reboot)",
                       *kSequence = "the sequence boot is running", *kStage = "use --on-reboot";
  struct {
    Activity now;
    Mode requested;
    const char* error;  // a part of it; nullptr: taken
  } rows[] = {
      {{}, Mode::AUTO, nullptr},
      {{.applying = "mode reboot"_kj}, Mode::AUTO, kOther},
      {{.applying = "mode reboot"_kj, .maintenance = true}, Mode::AUTO, kOther},
      {{.sequence = "boot"}, Mode::AUTO, kSequence},
      {{.sequence = "boot"}, Mode::STAGED, kSequence},
      {{.maintenance = true, .sequence = "boot"}, Mode::AUTO, nullptr},
      {{.sequence = "boot", .bootHasSaved = true}, Mode::STAGED, nullptr},
      {{.sequence = "boot", .bootHasSaved = true}, Mode::NO_REBOOT, kStage},
  };
  for (auto& row : rows) {
    SCOPED_TRACE(testing::Message() << "row " << &row - rows);
    auto error = conflictOf([&]() { requireFree(row.now, row.requested); });
    if (row.error == nullptr) {
      EXPECT_EQ("", error);
    } else {
      EXPECT_NE(std::string::npos, error.find(row.error)) << error;
    }
  }
}

// Catches: a change that overwrites one which its author has not seen, and a refusal that does not
// name both versions.
TEST(ApplyDecision, AChangeOfAnotherVersionIsAConflict) {
  EXPECT_EQ("", conflictOf([]() { requireVersion(0, 7); }));
  EXPECT_EQ("", conflictOf([]() { requireVersion(7, 7); }));
  for (uint64_t based : {6, 8}) {
    auto error = conflictOf([&]() { requireVersion(based, 7); });
    EXPECT_NE(std::string::npos, error.find(kj::str("version ", based, ",").cStr())) << error;
    EXPECT_NE(std::string::npos, error.find("version 7 is active")) << error;
  }
}

}  // namespace
}  // namespace talos::machined
