// Tests cluster recover up to its first call to a node.
#include "talosctl/recover/recovery-command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <string.h>
#include <unistd.h>

#include "talosctl/commands/test-cluster.h"

namespace talos::talosctl {
namespace {

using RecoveryCommand = ClusterTest;

// Catches: Ctrl-C that has no effect until a large snapshot has been read.
TEST_F(RecoveryCommand, ASnapshotThatIsReadIsInterrupted) {
  addRecoverCommand(c.root->add("cluster", "Clusters"));
  constexpr uint64_t kSize = (256u << 20) + 32;  // with the space of a hash
  auto path = kj::str(c.folder, "/etcd.snapshot");
  char begin[20] = {};
  memcpy(begin + 16, "\xed\xda\x0c\xed", 4);  // magic of a database
  writeFileAtomically(path, kj::ArrayPtr<const char>(begin, sizeof begin), 0600);
  KJ_SYSCALL(truncate(path.cStr(), kSize));
  auto before = bytesRead();
  EXPECT_EQ(c.finish(c.start({"-n", "10.0.0.2", "cluster", "recover", path, "--yes", "--unsigned"},
                             kj::READY_NOW)),
            130);
  EXPECT_EQ(err(), kj::str("interrupted\ncontinue with: talosctl cluster recover ", path,
                           " --nodes=10.0.0.2 --unsigned --yes\n")
                       .cStr());
  EXPECT_LT(bytesRead() - before, kSize / 4);
}

// Catches: a snapshot of unknown origin that is accepted without a flag.
TEST_F(RecoveryCommand, WithoutASignatureItIsRefused) {
  addRecoverCommand(c.root->add("cluster", "Clusters"));
  auto path = kj::str(c.folder, "/etcd.snapshot");
  writeFileAtomically(path, "x"_kj, 0600);
  auto refused = [&](std::initializer_list<kj::StringPtr> flags, const char* error) {
    kj::Vector<kj::StringPtr> arguments;
    for (auto text : {"-n"_kj, "10.0.0.2"_kj, "cluster"_kj, "recover"_kj, path.asPtr(), "--yes"_kj})
      arguments.add(text);
    arguments.addAll(flags);
    EXPECT_EQ(1, c.finish(c.start(arguments)));
    EXPECT_THAT(err(), testing::HasSubstr(error));
  };
  refused({}, "/etcd.snapshot.sig\": No such file or directory; use --signature");
  refused({"--signature", "/nowhere"}, "cannot read the signature of the snapshot, \"/nowhere\"");
  refused({"--unsigned", "--signature", path}, "use one of them");
  refused({"--recover-skip-hash-check"}, "needs --unsigned");
  refused({"--unsigned"}, "the snapshot has 1 bytes, which is too short");
}

}  // namespace
}  // namespace talos::talosctl
