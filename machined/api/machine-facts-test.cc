#include "machined/api/machine-facts.h"

#include <gtest/gtest.h>
#include <kj/debug.h>

#include "common/base/error.h"
#include "common/testing/test-tree.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kStatTail =
    " S 2 0 0 0 -1 0 0 0 0 0 1 2 0 0 20 0 1 0 1 4096 2 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0\n"_kj;

// Catches: kernel threads left out, vanished processes shown empty or failing the call, text order
// of PIDs.
TEST(Facts, ProcessesOfAModelTree) {
  TestTree tree;
  for (kj::StringPtr pid : {"10"_kj, "9"_kj, "33"_kj, "self-link"_kj}) tree.directory(pid);
  tree.file("10/stat", kj::str("10 (apid)", kStatTail));
  tree.file("10/cmdline", kj::StringPtr("/usr/bin/apid\0-v\0"_kj));
  tree.link("10/exe", "/usr/bin/apid");
  tree.file("9/stat", kj::str("9 (kworker/0:1)", kStatTail));
  tree.file("9/cmdline", "");
  auto processes = readProcesses(tree.root);
  ASSERT_EQ(processes.size(), 2u);
  EXPECT_EQ(processes[0].stat.pid, 9);
  EXPECT_EQ(processes[0].stat.command, "kworker/0:1");
  EXPECT_EQ(processes[0].executable, "");
  EXPECT_EQ(processes[0].args, "");
  EXPECT_EQ(processes[1].stat.pid, 10);
  EXPECT_EQ(processes[1].executable, "/usr/bin/apid");
  EXPECT_EQ(processes[1].args, "/usr/bin/apid -v");
}

// Catches: a real /proc that is read differently from its model.
TEST(Facts, ProcessesOfThisMachineIncludeThisOne) {
  auto processes = readProcesses("/proc");
  bool found = false;
  for (auto& process : processes) {
    if (process.stat.pid != getpid()) continue;
    found = true;
    EXPECT_EQ(process.stat.ppid, getppid());
    EXPECT_GT(process.stat.residentPages, 0u);
    EXPECT_GE(process.stat.threads, 1u);
    EXPECT_NE(process.executable.size(), 0u);
    EXPECT_NE(process.args.size(), 0u);
  }
  EXPECT_TRUE(found);
}

// Catches: mounts on files listed, a vanished mount failing the call, a broken mount skipped in
// silence.
TEST(Facts, MountsAreDirectoriesAndFailuresAreNamed) {
  TestTree tree;
  tree.directory("with blank");
  tree.file("plain", "x");
  tree.file("mounts", kj::str("tmpfs ", tree.root, "/with\\040blank tmpfs rw 0 0\n", "x ",
                              tree.root, "/plain x rw 0 0\n", "y ", tree.root, "/gone y rw 0 0\n"));
  auto mounts = readMounts(tree.root);
  ASSERT_EQ(mounts.size(), 1u);
  EXPECT_EQ(mounts[0].mount.filesystem, "tmpfs");
  EXPECT_EQ(mounts[0].mount.path, tree.at("with blank"));
  EXPECT_GT(mounts[0].size, 0u);
  EXPECT_LE(mounts[0].available, mounts[0].free);
  EXPECT_LE(mounts[0].free, mounts[0].size);
  EXPECT_LE(mounts[0].filesFree, mounts[0].files);
  EXPECT_EQ(mounts[0].mount.type, "tmpfs");

  tree.file("mounts", kj::str("x ", tree.root, "/plain/below x rw 0 0\n"));
  auto failure = kj::runCatchingExceptions([&] { readMounts(tree.root); });
  auto message = messageOf(KJ_ASSERT_NONNULL(failure));
  EXPECT_NE(strstr(message.cStr(), "/plain/below: Not a directory"), nullptr) << message.cStr();
}

// Catches: a server that is away and prevents all mounts of the node from being listed.
TEST(Facts, MountsOfServersAreNotAsked) {
  TestTree tree;
  tree.directory("local");
  tree.file("mounts", kj::str("10.0.0.9:/data ", tree.root, "/away nfs4 rw 0 0\n", "tmpfs ",
                              tree.root, "/local tmpfs rw 0 0\n"));
  auto mounts = readMounts(tree.root);
  ASSERT_EQ(mounts.size(), 2u);
  EXPECT_EQ(mounts[0].mount.filesystem, "10.0.0.9:/data");
  EXPECT_EQ(mounts[0].size, 0u);
  EXPECT_GT(mounts[1].size, 0u);
}

// Expects the running service among several requested ones.
void expectOnlyApid(kj::StringPtr cgroups, kj::ArrayPtr<const kj::StringPtr> ids, uint64_t memory) {
  auto services = KJ_MAP(id, ids) {
    return ServiceCgroup{kj::str(id), kj::str("system/", id)};
  };
  auto stats = readStats(cgroups, services);
  ASSERT_EQ(stats.size(), 1u);
  EXPECT_EQ(stats[0].id, "apid");
  EXPECT_EQ(stats[0].memoryBytes, memory);
  EXPECT_EQ(stats[0].cpuNanoseconds, 250000u);
}

// Catches: microseconds shown as nanoseconds, page cache counted as use, stopped services shown as
// zeros.
TEST(Facts, StatsComeFromTheServicesCgroups) {
  TestTree tree;
  tree.directory("system/apid");
  tree.directory("system/networkd");
  tree.file("system/apid/memory.current", "5000000\n");
  tree.file("system/apid/memory.stat", "anon 1\ninactive_file 1000000\n");
  tree.file("system/apid/cpu.stat", "usage_usec 250\nuser_usec 100\n");
  tree.file("system/networkd/memory.current", "7\n");  // between two calls of rmdir: no cpu.stat
  kj::StringPtr ids[] = {"apid", "networkd", "trustd"};
  expectOnlyApid(tree.root, ids, 4000000);
}

// Catches: a node without figures for its services on a host that also has version 1.
TEST(Facts, StatsOnAHybridHost) {
  TestTree tree;
  tree.directory("unified/system/apid");
  tree.directory("memory/system/apid");
  tree.file("memory/system/apid/memory.usage_in_bytes", "5000000\n");
  tree.file("memory/system/apid/memory.stat", "inactive_file 9\ntotal_inactive_file 2000000\n");
  tree.file("unified/system/apid/cpu.stat", "usage_usec 250\n");
  kj::StringPtr ids[] = {"apid", "trustd"};
  expectOnlyApid(tree.root, ids, 3000000);
}

// Catches: another field that is read as the start, in another unit.
TEST(Facts, WhenAProcessStarted) {
  TestTree tree;
  tree.directory("1");
  tree.file("1/stat", "1 (init) S 0 1 1 0 -1 0 0 0 0 0 1 2 0 0 20 0 1 0 12345 4096 2 0 0\n");
  EXPECT_EQ(processStartMs(tree.root, 1).orDefault(0),
            12345u * 1000 / static_cast<uint64_t>(sysconf(_SC_CLK_TCK)));
  EXPECT_TRUE(processStartMs(tree.root, 2) == nullptr);
}

}  // namespace
}  // namespace talos::machined
