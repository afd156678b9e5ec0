// The node is a virtual machine with a boot loader; the two others are containers.
#include "tests/bad-images/bad-images.h"

namespace talos {
namespace {

// Longer than an emulated boot, shorter than the 30 s for which a duty has to be fulfilled.
const std::string kCrashes = "crash 20 " + SystemImages::original(kBrain);

const Row kRows[] = {
    {.name = "WithoutAFault",
     .mistake = "an image of this test that no node could run, so that the others show nothing",
     .outcome = Outcome::kConfirmed},
    {.name = "InitEnds",
     .mistake = "a machine that stays off when the new process 1 ends and its kernel panics",
     .faults = {{kInit, "exit"}},
     .reason = "\\(v9.9.1\\) did not come up: the boot loader could not load it, or it ended"},
    {.name = "BrainCrashesAgainAndAgain",
     .mistake = "a machined that is healthy between two crashes, and confirms its system there",
     .faults = {{kBrain, kCrashes}},
     .reason = "was not healthy within 150 s: .*service machined failed"},
    {.name = "ApidEnds",
     .mistake = "a system that is kept though nobody can call its API any more",
     .faults = {{kApid, "exit"}},
     .reason = "was given up: it was not healthy within 150 s: .*service apid is not up"},
    {.name = "NothingIsParsed",
     .mistake = "a system that is kept though it understands neither its disks nor its config",
     .faults = {{kParser, "exit"}},
     .reason =
         "was given up: its boot failed: .*task mountStatePartition: .* exited with status 1"},
    {.name = "NetworkdEnds",
     .mistake = "a system that nobody can reach, and that stays",
     .faults = {{kNetworkd, "exit"}},
     .reason = "\\(v9.9.1\\) was given up: .*networkd"},
    {.name = "EtcdEnds",
     .mistake = "a system that is kept though its etcd does not start",
     .faults = {{kEtcd, "exit"}},
     .reason = "was given up: it was not healthy within 150 s: .*service etcd "},
    {.name = "EtcdCannotJoin",
     .mistake = "a member that has left for the upgrade, and does not come back with either system",
     .faults = {{kEtcd, kWithoutPeers}},
     .reason = "was given up: it was not healthy within 150 s: .*voter of etcd: ",
     .preserve = false},
};

class BadImagesInAMachine : public BadImages {
 public:
  static void SetUpTestSuite() {
    begin({.name = "badmachine",
           .flags = {"--use-vip", "--bootstrap=true", "--virtual-machines", "1",
                     "--with-bootloader", "--memory", "1536", "--disk", "4096"},
           .upgraded = 2,
           .machine = true,
           .healthTimeout = 150,
           .comesUp = 1200,
           .isUpgraded = 1200,
           .isWell = 900});
  }
  static void TearDownTestSuite() { end(); }
};

}  // namespace

TEST_P(BadImagesInAMachine, ReturnsToTheSystemFromBefore) {
  returnsToTheSystemFromBefore(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Upgrade, BadImagesInAMachine, testing::ValuesIn(kRows),
                         [](auto& row) { return row.param.name; });

}  // namespace talos
