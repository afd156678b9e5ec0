// cluster recover, as far as it goes before it asks a node.
#include "talosctl/recover/recovery-command.h"

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <string.h>
#include <unistd.h>

#include "talosctl/commands/test-cluster.h"

namespace talos::talosctl {
namespace {

using RecoveryCommand = ClusterTest;

// Catches: Ctrl-C that is heard when a large snapshot has been read.
TEST_F(RecoveryCommand, ASnapshotThatIsReadIsInterrupted) {
  addRecoverCommand(c.root->add("cluster", "Clusters"));
  constexpr uint64_t kSize = (256u << 20) + 32;  // with the place of a hash
  auto path = kj::str(c.folder, "/etcd.snapshot");
  char begin[20] = {};
  memcpy(begin + 16, "\xed\xda\x0c\xed", 4);  // of a database
  writeFileAtomically(path, kj::ArrayPtr<const char>(begin, sizeof begin), 0600);
  KJ_SYSCALL(truncate(path.cStr(), kSize));
  auto before = bytesRead();
  EXPECT_EQ(
      c.finish(c.start({"-n", "10.0.0.2", "cluster", "recover", path, "--yes"}, kj::READY_NOW)),
      130);
  EXPECT_LT(bytesRead() - before, kSize / 4);
}

}  // namespace
}  // namespace talos::talosctl
