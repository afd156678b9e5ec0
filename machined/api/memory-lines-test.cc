#include "machined/api/memory-lines.h"

#include <gtest/gtest.h>

#include "common/testing/test-tree.h"

namespace talos::machined {
namespace {

// Returns "MemTotal 2097152, …".
kj::String read(TestTree& tree) {
  auto lines = readMemory(tree.at("proc"), tree.at("cgroup"), tree.at("limit"));
  return kj::strArray(KJ_MAP(line, lines) { return kj::str(line.name, " ", line.value); }, ", ");
}

// Catches: a node in a container with 2 GiB that shows its host's 24, or the host's use, or a limit
// although none is set; memory that the kernel can reclaim at once, counted as used.
TEST(MemoryOfTheNode, IsThatOfItsLimit) {
  TestTree tree;
  tree.directory("proc");
  tree.directory("cgroup/memory");
  tree.file("proc/meminfo", "MemTotal: 24000000 kB\nMemFree: 20000000 kB\nHugePages_Total: 0\n");
  EXPECT_EQ(read(tree), "MemTotal 24000000, MemFree 20000000, HugePages_Total 0"_kj);
  tree.file("limit", "MemTotal: 2097152 kB\nSwapTotal: 0 kB\n");
  tree.file("cgroup/memory/memory.usage_in_bytes", "1073741824\n");
  tree.file("cgroup/memory/memory.stat",
            "cache 1\nshmem 2\ninactive_file 3\ntotal_cache 536870912\ntotal_shmem 1048576\n"
            "total_inactive_file 268435456\n");
  EXPECT_EQ(read(tree),
            "MemTotal 2097152, MemFree 1048576, MemAvailable 1310720, Buffers 0, Cached 524288, "
            "Shmem 1024, SwapTotal 0, SwapFree 0"_kj);
  tree.file("cgroup/memory.current", "4194304000\n");
  tree.file("cgroup/memory.stat", "file 1048576\nshmem 0\ninactive_file 0\n");
  EXPECT_EQ(read(tree),
            "MemTotal 2097152, MemFree 0, MemAvailable 0, Buffers 0, Cached 1024, Shmem 0, "
            "SwapTotal 0, SwapFree 0"_kj)
      << "what is over the limit for a moment is not less than nothing";
  tree.file("limit", "MemTotal: 99000000 kB\n");
  EXPECT_EQ(read(tree).slice(0, 18), "MemTotal 24000000,"_kj) << "the machine has no more";
}

}  // namespace
}  // namespace talos::machined
