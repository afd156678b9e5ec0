// The node is a container.
#include "tests/bad-images/bad-images.h"

namespace talos {
namespace {

// Longer than the 5 s for which a system must be healthy, shorter than a boot and these 5 s.
const std::string kCrashes = "crash 6 " + SystemImages::original(kBrain);

const Row kRows[] = {
    {.name = "WithoutAFault",
     .mistake = "an image of this test that no node could run, so that the others show nothing",
     .outcome = Outcome::kConfirmed},
    {.name = "InitEnds",
     .mistake = "a node that is off, or that starts it for ever, when the new process 1 ends",
     .faults = {{kInit, "exit"}},
     .reason = "\\(v9.9.1\\) did not come up: the boot loader could not load it, or it ended"},
    {.name = "BrainEnds",
     .mistake = "a node that stays on a system whose machined ends whenever it is started",
     .faults = {{kBrain, "exit"}},
     .reason = "\\(v9.9.1\\) did not come up: the boot loader could not load it, or it ended"},
    {.name = "BrainCrashesAgainAndAgain",
     .mistake = "a machined that is healthy between two crashes, and confirms its system there",
     .faults = {{kBrain, kCrashes}},
     .reason = "was not healthy within 30 s: .*service machined failed"},
    {.name = "ConfigIsNotUnderstood",
     .mistake = "a system that is kept though it cannot read the config of its node",
     .faults = {{kParser, "exit"}},
     .reason = "was given up: its boot failed: .*task loadConfig: .* cannot be read"},
    {.name = "NetworkdEnds",
     .mistake = "a system that nobody can reach, and that stays",
     .faults = {{kNetworkd, "exit"}},
     .reason = "\\(v9.9.1\\) was given up: .*networkd"},
    {.name = "NetworkdHangs",
     .mistake = "a boot that waits for its network for ever",
     .faults = {{kNetworkd, "hang"}},
     .reason = "\\(v9.9.1\\) was given up: .*networkd"},
    {.name = "ApidEnds",
     .mistake = "a system that is kept though nobody can call its API any more",
     .faults = {{kApid, "exit"}},
     .reason = "was given up: it was not healthy within 30 s: .*service apid is not up"},
    {.name = "ContainerdEnds",
     .mistake = "a system that is kept though it runs no containers",
     .faults = {{"usr/bin/containerd", "exit"}},
     .reason = "was given up: .*service cri is not up"},
    {.name = "EtcdEnds",
     .mistake = "a system that is kept though its etcd does not start",
     .faults = {{kEtcd, "exit"}},
     .reason = "was given up: it was not healthy within 30 s: .*service etcd "},
    {.name = "EtcdIsWithoutPeers",
     .mistake = "a system that is kept though its etcd runs alone, as no other member hears it",
     .faults = {{kEtcd, kWithoutPeers}},
     .reason = "was given up: it was not healthy within 30 s: .*voter of etcd: "},
    {.name = "EtcdCannotJoin",
     .mistake = "a member that has left for the upgrade, and does not come back with either system",
     .faults = {{kEtcd, kWithoutPeers}},
     .reason = "was given up: it was not healthy within 30 s: .*voter of etcd: ",
     .preserve = false},
    {.name = "EtcdNeverCatchesUp",
     .mistake = "a system that is kept though its member has joined and gets no entry of the log",
     .faults = {{kEtcd, kWithoutLog}},
     .reason = "was given up: it was not healthy within 30 s: .*voter of etcd: ",
     .preserve = false},
    {.name = "VipdEnds",
     .mistake = "a system that is kept though its vipd ends, as one does that cannot bind",
     .faults = {{kVipd, "exit"}},
     .reason = "was given up: it was not healthy within 30 s: .*service vipd "},
    {.name = "VipdTakesNoPart",
     .mistake = "a system that is kept though no shared address would ever come to it",
     .faults = {{kVipd, "hang"}},
     .reason = "was given up: it was not healthy within 30 s: .*shared address 10\\.5\\.0\\.50: "},
    {.name = "RootWithoutItsEnd",
     .mistake = "a root image that is mounted and fails where its end is needed",
     .damage = &SystemImages::withoutItsEnd,
     .reason = "\\(v9.9.1\\) did not come up: the boot loader could not load it"},
    {.name = "ArchiveWithoutItsEnd",
     .mistake = "half of a system, written over the one that could be returned to",
     .damage = &SystemImages::cut,
     .outcome = Outcome::kRefused,
     .reason = "not an installer image: .* is cut off"},
    {.name = "DoesNotKnowTheConfig",
     .mistake = "a system that refuses the config of its node, and that is written all the same",
     .damage = &SystemImages::withoutAKey,
     .outcome = Outcome::kRefused,
     .reason =
         "v9.9.1 does not know a key of this node's config: machine.token; nothing was written"},
    {.name = "DamagedArchive",
     .mistake = "a file that is not the one that the image promises, and is started",
     .damage = &SystemImages::damaged,
     .outcome = Outcome::kNotWritten,
     .reason = "rootfs\\.sqsh is damaged or cut off: its SHA-256 is "},
    {.name = "Unsigned",
     .mistake = "an image that nobody has signed, on a node that requires a signature",
     .outcome = Outcome::kRefused,
     .reason = "has no signature by the key of machine.install.imageKey",
     .signature = Signature::kNone},
    {.name = "SignedByAnother",
     .mistake = "a signature by a key that is not the one of the config",
     .outcome = Outcome::kRefused,
     .reason = "is not signed by the key of machine.install.imageKey: the signature does not fit",
     .signature = Signature::kOfAnother},
    {.name = "SignedByTheKey",
     .mistake = "signatures of this test that never fit, so that the two above show nothing",
     .outcome = Outcome::kConfirmed,
     .signature = Signature::kRight},
};

class BadImagesInAContainer : public BadImages {
 public:
  static void SetUpTestSuite() {
    begin({.name = "badimages",
           .flags = {"--use-vip", "--bootstrap=true"},
           .upgraded = 1,
           .machine = false,
           .healthTimeout = 30,
           .comesUp = 600,
           .isUpgraded = 600,
           .isWell = 240});
  }
  static void TearDownTestSuite() { end(); }
};

}  // namespace

TEST_P(BadImagesInAContainer, ReturnsToTheSystemFromBefore) {
  returnsToTheSystemFromBefore(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Upgrade, BadImagesInAContainer, testing::ValuesIn(kRows),
                         [](auto& row) { return row.param.name; });

}  // namespace talos
