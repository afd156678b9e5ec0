// Programs that measure, called with wrong words. BENCHES is the folder that they are in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <string>

namespace talos::bench {
namespace {

using ::testing::HasSubstr;

// Catches: a figure of nothing at all, a crash instead of an answer, a word that is passed over.
TEST(BenchArguments, WrongOnesAreRefusedWithWhatIsWrong) {
  struct Row {
    const char *call, *said;
  };
  const Row rows[] = {
      {"trust-bench 0 5", "trust-bench: SECONDS is a number from 1 to 3600, not \"0\""},
      {"trust-bench 5 0", "trust-bench: NODES is a number from 1 to 50000, not \"0\""},
      {"trust-bench 5 50001", "NODES is"},
      {"trust-bench 5 -1", "NODES is"},
      {"trust-bench 5s 10", "SECONDS is"},
      {"trust-bench", "trust-bench: 0 arguments; usage: trust-bench SECONDS NODES | --authority"},
      {"trust-bench 5", "1 arguments"},
      {"trust-bench --authority", "1 arguments"},
      {"trust-bench --peer 70000 1 5 .", "PORT is a number from 1 to 65535"},
      {"trust-bench --peer 18888 0 5 .", "SERVER is"},
      {"trust-bench --peer 18888 1 0 .", "SECONDS is"},
      {"apid-bench 0", "apid-bench: CALLS is"},
      {"apid-bench 1000 1000", "apid-bench: 2 arguments; usage: apid-bench [CALLS]"},
      {"clients-bench", "clients-bench: 0 arguments; usage: clients-bench PROGRAM [CALLS]"},
      {"clients-bench /bin/true 99", "clients-bench: CALLS is"},
      {"config-bench 0", "config-bench: RUNS is"},
      {"containerd-bench /run/x",
       "containerd-bench: 1 arguments; usage: containerd-bench SOCKET CALLS"},
      {"container-bench a b",
       "container-bench: 2 arguments; usage: container-bench BASE-FILE SAMPLE RUNS"},
      {"container-bench a b 0", "container-bench: RUNS is"},
      {"containerd-bench /run/x 0", "containerd-bench: CALLS is"},
      {"dhcp-bench none", "dhcp-bench: RUNS is"},
      {"etcd-bench 0", "etcd-bench: CALLS is"},
      {"kubernetes-bench 0", "kubernetes-bench: RUNS is"},
      {"metrics-bench 0", "metrics-bench: RUNS is"},
      {"luks-bench 0", "luks-bench: RUNS is"},
      {"meta-bench", "meta-bench: 0 arguments; usage: meta-bench FOLDER [RUNS]"},
      {"meta-bench /tmp 0", "meta-bench: RUNS is"},
      {"network-bench 0", "network-bench: RUNS is"},
      {"network-bench 1 bridgs", "network-bench: KIND is bridges, routes, resync or memory"},
      {"network-bench 1 memory 0", "network-bench: LINKS is"},
      {"node-bench frist talosconfig", "node-bench: \"frist\""},
      {"node-bench away talosconfig 5", "node-bench: 3 arguments"},
      {"node-bench calls talosconfig 0", "node-bench: COUNT is"},
      {"restart-bench 0", "restart-bench: KILLS is"},
      {"restart-bench watch name 0 5", "restart-bench: KILLS is"},
      {"restart-bench wacth name 1 5", "restart-bench: 4 arguments"},
      {"rpc-bench 0", "rpc-bench: CALLS is"},
      {"uplink-bench 61", "uplink-bench: SECONDS is"},
  };
  auto* folder = getenv("BENCHES");
  ASSERT_NE(folder, nullptr);
  for (auto& row : rows) {
    auto* pipe = popen((std::string(folder) + "/" + row.call + " 2>&1 >/dev/null").c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    std::string said;
    for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) said += static_cast<char>(c);
    auto status = pclose(pipe);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << row.call << ": " << status;
    EXPECT_THAT(said, HasSubstr(row.said)) << row.call;
  }
}

}  // namespace
}  // namespace talos::bench
