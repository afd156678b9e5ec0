#include "machined/brain/volume-keys.h"

#include <gtest/gtest.h>

#include "machined/resources/test-store.h"
#include "rpc/types.capnp.h"

namespace talos::machined {
namespace {

// Catches: a change of keys that hides where the volume is, or by which slot it was opened; keys of a
// volume that nobody has looked at yet; a failure that goes on showing keys.
TEST(VolumeStatus, KeysAreAddedToWhatIsKnown) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  Registry registry;
  TestClock clock;
  Store store(registry, clock);
  auto keys = [] {
    KeysReport report;
    report.slots.addAll(std::initializer_list<unsigned>{0u, 5u});
    report.keys = kj::str("0 static, 5 nodeID");
    return report;
  };
  putVolumeKeys(store, "STATE", keys());
  EXPECT_TRUE(store.tryGet<rpc::VolumeStatusSpec>("STATE") == nullptr);

  VolumeReport report;
  report.phase = VolumePhase::kReady;
  report.location = kj::str("/dev/vda5");
  report.mountLocation = kj::str("/dev/mapper/vda5-encrypted");
  report.fileSystem = kj::str("xfs");
  report.encrypted = true;
  report.slot = 5u;
  putVolume(store, "STATE", report);
  putVolumeKeys(store, "STATE", keys());
  auto shown = KJ_ASSERT_NONNULL(store.tryGet<rpc::VolumeStatusSpec>("STATE"));
  EXPECT_EQ(shown.getPhase(), "ready");
  EXPECT_EQ(shown.getLocation(), "/dev/vda5");
  EXPECT_EQ(shown.getMountLocation(), "/dev/mapper/vda5-encrypted");
  EXPECT_EQ(shown.getFilesystem(), "xfs");
  EXPECT_EQ(shown.getEncryptionProvider(), "luks2");
  EXPECT_EQ(shown.getEncryptionSlot(), "5");
  EXPECT_EQ(shown.getEncryptionKeys(), "0 static, 5 nodeID");
  ASSERT_EQ(shown.getEncryptionSlots().size(), 2u);
  EXPECT_EQ(shown.getEncryptionSlots()[1], 5u);

  VolumeReport failed;
  failed.phase = VolumePhase::kFailed;
  failed.error = kj::str("no key of the config opens /dev/vda5");
  putVolume(store, "STATE", failed);
  auto after = KJ_ASSERT_NONNULL(store.tryGet<rpc::VolumeStatusSpec>("STATE"));
  EXPECT_EQ(after.getErrorMessage(), "no key of the config opens /dev/vda5");
  EXPECT_EQ(after.getEncryptionKeys(), "");
}

}  // namespace
}  // namespace talos::machined
