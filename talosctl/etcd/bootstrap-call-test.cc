#include "talosctl/etcd/bootstrap-call.h"

#include <gtest/gtest.h>

namespace talos::talosctl {
namespace {

// Catches: twenty lines about one snapshot in a log.
TEST(EtcdProgress, ASnapshotIsOneLineWhereNothingIsRewritten) {
  EXPECT_EQ(sendingText(1 << 20, 3 << 20, true), "sending the snapshot: 30 % of 3 MiB"_kj);
  EXPECT_EQ(sendingText(1 << 20, 3 << 20, false), sendingText(3 << 20, 3 << 20, false));
  EXPECT_EQ(sendingText(0, 0, true), "sending the snapshot: 0 % of 0 MiB"_kj);
}

}  // namespace
}  // namespace talos::talosctl
