#include "machined/config/apply-decision.h"

#include <capnp/message.h>
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

// Two configs with the volume u-data.
struct VolumeDecision : testing::Test {
  ~VolumeDecision() noexcept override {}
  capnp::MallocMessageBuilder first, second;
  config::Config::Builder running = first.initRoot<config::Config>(),
                          wanted = second.initRoot<config::Config>();
  Situation now;

  VolumeDecision() {
    for (auto config : {running, wanted}) {
      config.setPersist(true);
      auto volume = config.getMachine().initVolumes(1)[0];
      volume.setId("u-data");
      setKey(volume, "a");
    }
    now.running = running.asReader();
  }
  static void setKey(config::StorageVolume::Builder volume, kj::StringPtr passphrase) {
    volume.initEncryption().initKeys(1)[0].initStatic().setPassphrase(passphrase);
  }
  config::StorageVolume::Builder volume() { return wanted.getMachine().getVolumes()[0]; }
  std::string refusal(rpc::ApplyMode mode) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { decide(mode, wanted.asReader(), now); })) {
      return messageOf(*e).cStr();
    }
    return "";
  }
};

// Catches: a trial after which the disk has a new partition.
TEST_F(VolumeDecision, TrialWritesNothingToDisks) {
  EXPECT_EQ("", refusal(rpc::ApplyMode::TRY));
  volume().initSize().setMost(1);
  EXPECT_NE(std::string::npos,
            refusal(rpc::ApplyMode::TRY).find("volumes cannot be tried: UserVolumeConfig[data]"));
  EXPECT_EQ("", refusal(rpc::ApplyMode::NO_REBOOT));
}

// Catches: keys that the config of the next boot does not have.
TEST_F(VolumeDecision, KeysNeedAConfigThatIsKept) {
  wanted.setPersist(false);
  running.setPersist(false);
  EXPECT_EQ("", refusal(rpc::ApplyMode::NO_REBOOT));
  setKey(volume(), "b");
  EXPECT_NE(std::string::npos,
            refusal(rpc::ApplyMode::NO_REBOOT)
                .find("the next boot would not have these keys: UserVolumeConfig[data]"));
  wanted.setPersist(true);
  running.setPersist(true);
  EXPECT_EQ("", refusal(rpc::ApplyMode::NO_REBOOT));
  now.notDurable = kj::str("there is no STATE");
  EXPECT_NE("", refusal(rpc::ApplyMode::NO_REBOOT));
}

// Catches: a reboot that changes nothing.
TEST_F(VolumeDecision, SmallerSizeOfEphemeralNeedsNoReboot) {
  auto modeFor = [&](uint64_t most) {
    wanted.getMachine().initEphemeralSize().setMost(most);
    wanted.getMachine().getEphemeralSize().setGrows(true);
    return decide(rpc::ApplyMode::AUTO, wanted.asReader(), now).mode;
  };
  EXPECT_EQ(rpc::ApplyMode::REBOOT, modeFor(uint64_t{5} << 30)) << "its size is not known";
  now.ephemeralBytes = uint64_t{10} << 30;
  EXPECT_EQ(rpc::ApplyMode::NO_REBOOT, modeFor(uint64_t{5} << 30));
  EXPECT_EQ(rpc::ApplyMode::REBOOT, modeFor(uint64_t{20} << 30));
}

}  // namespace
}  // namespace talos::machined
