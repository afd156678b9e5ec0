// Encrypted partitions: made when they are empty, opened at each boot, given other keys, and read
// by Debian's cryptsetup on this host; and a machine with the disk of another machine.
#include "common/config/config.h"
#include "machined/disk/volumes/system-partitions.h"
#include "tests/cuts/image.h"
#include "tests/cuts/luks-keys.h"
#include "tests/cuts/recording.h"
#include "tests/vm/encrypted-node.h"

namespace talos::vm {
namespace {

using Node = EncryptedNode;

constexpr const char* kKeys =
    R"([{"nodeID": {}, "slot": 5}, {"static": {"passphrase": "rotated"}, "slot": 0}])";
constexpr const char* kRecoverable =
    R"([{"nodeID": {}, "slot": 5}, {"static": {"passphrase": "rotated"}, "slot": 0},
        {"recovery": {}, "slot": 7}])";

}  // namespace

// Catches: a STATE that is not encrypted, or by another key, cipher or derivation than documented;
// a config that can be read on the disk; a STATE that is formatted again or cannot be opened after
// a reboot; keys that follow the config only at the next boot, or not at all; a command that ends
// before the keys follow; a disk of another machine that is opened, formatted, written to, or read
// as empty, with maintenance mode, in which every client could give this machine a config.
TEST(Encryption, OfState) {
  Cluster cluster("vmluks",
                  {"--masters", "1", "--workers", "0", "--memory", kMemory, "--encrypt-state"},
                  kCreated);
  Node node{cluster, "vmluks-master-1"};
  node.expectOpen("STATE", "0");
  auto text = node.dump("state", "STATE");
  for (auto words : {"cipher: aes-xts-plain64", "Key:        512 bits", "PBKDF:      argon2id",
                     "Time cost:  4"}) {
    EXPECT_TRUE(contains(text, words)) << words << " is not in:\n" << text;
  }
  EXPECT_FALSE(contains(text, "talos-fresh")) << "it has no file system: " << text;
  auto own = node.uuid();
  EXPECT_TRUE(node.opens("state", "STATE", own + "STATE", 0));
  EXPECT_FALSE(node.opens("state", "STATE", own + "EPHEMERAL", 0));
  auto config = slurp(node.file("yaml"));
  std::smatch token;
  ASSERT_TRUE(
      std::regex_search(config, token, std::regex("token: \"?([a-z0-9]{6}\\.[a-z0-9]{16})")));
  EXPECT_FALSE(contains(slurp(node.file("state")), token[1].str().c_str()))
      << "the disk has the config in plain text";

  node.replaceKeys("no-reboot", "state", kKeys);
  auto changed = [&] {
    return node.opens("state", "STATE", "rotated", 0) &&
           node.opens("state", "STATE", own + "STATE", 5) &&
           !node.opens("state", "STATE", own + "STATE", 0);
  };
  EXPECT_TRUE(changed()) << node.dump("state", "STATE") << cluster.console(node.name);
  node.expectKeys("STATE", "0 static, 5 nodeID");
  cluster.ok({"reboot"}, kSlow);
  node.expectOpen("STATE", "5");
  node.expectKeys("STATE", "0 static, 5 nodeID");
  EXPECT_TRUE(changed()) << node.dump("state", "STATE");
  auto boots = cluster.ok({"get", "bootrecords"});
  EXPECT_GE(harness::lines(boots).size(), 3u) << "what the first boot kept is gone:\n" << boots;

  auto other = (own[0] == 'a' ? "b" : "a") + own.substr(1);
  std::string before;
  size_t seen = 0;
  node.powerCycle([&] {
    before = slurp(node.header("state", "STATE"));
    ASSERT_GT(before.size(), 1u << 20);
    seen = cluster.console(node.name).size();
    node.replaceUuid(own, other);
  });
  auto since = [&] { return cluster.console(node.name).substr(seen); };
  EXPECT_TRUE(eventually([&] { return contains(since(), "no key of the config opens /dev/vdb1"); },
                         kSlow, 1))
      << since();
  EXPECT_FALSE(contains(since(), "maintenance: ")) << since();
  EXPECT_TRUE(slurp(node.header("state", "STATE")) == before) << "its header was written to";
}

// Catches: an installed node that does not find its encrypted STATE without a config, an EPHEMERAL
// that is not encrypted; keys that are changed only with a reboot, or that lock it; a recovery key
// that does not open it, that a boot removes, or that the node writes down.
TEST(Encryption, OfAnInstalledNode) {
  Cluster cluster("vmluksdisk",
                  {"--masters", "1", "--workers", "0", "--memory", kMemory, "--disk", "2048",
                   "--no-uplink", "--with-bootloader", "--encrypt-state", "--encrypt-ephemeral"},
                  kCreated);
  Node node{cluster, "vmluksdisk-master-1"};
  node.expectOpen("STATE", "0");
  node.expectOpen("EPHEMERAL", "0");
  auto own = node.uuid();
  EXPECT_TRUE(node.opens("disk", "STATE", own + "STATE", 0));
  EXPECT_TRUE(node.opens("disk", "EPHEMERAL", own + "EPHEMERAL", 0));

  node.replaceKeys("no-reboot", "ephemeral", kRecoverable);
  EXPECT_TRUE(node.opens("disk", "EPHEMERAL", "rotated", 0)) << node.dump("disk", "EPHEMERAL");
  EXPECT_TRUE(node.opens("disk", "EPHEMERAL", own + "EPHEMERAL", 5));
  EXPECT_FALSE(node.opens("disk", "EPHEMERAL", own + "EPHEMERAL", 0));
  auto table = cluster.ok({"encryption", "recovery-key", "EPHEMERAL", "7"}, kSlow);
  std::smatch recovery;
  ASSERT_TRUE(std::regex_search(table, recovery, std::regex("([a-z2-9]{5}-){7}[a-z2-9]{5}")))
      << table;
  EXPECT_TRUE(node.opens("disk", "EPHEMERAL", recovery[0].str(), 7))
      << node.dump("disk", "EPHEMERAL");
  auto logs = cluster.ok({"logs", "audit"}) + cluster.ok({"logs", "machined"});
  EXPECT_TRUE(contains(logs, "Storage.newRecoveryKey")) << logs;
  EXPECT_FALSE(contains(logs, recovery[0].str().c_str())) << "the node keeps it";
  auto refused = cluster.talosctl({"encryption", "recovery-key", "EPHEMERAL", "5"}, kSlow);
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(contains(refused.err, "the config has no recovery key at slot 5")) << refused.err;
  cluster.ok({"reboot"}, kSlow);
  node.expectOpen("EPHEMERAL", "0");
  node.expectKeys("EPHEMERAL", "0 static, 5 nodeID, 7 recovery");
  EXPECT_TRUE(node.opens("disk", "EPHEMERAL", recovery[0].str(), 7))
      << node.dump("disk", "EPHEMERAL");
  auto console = cluster.console(node.name);
  EXPECT_FALSE(contains(console, "cannot close")) << console;
}

// A look at the header of EPHEMERAL after a cut: at least one key of the stored config must open
// it.
class LockedAfterCut {
 public:
  LockedAfterCut(std::string image, std::string folder, std::string uuid)
      : image(image), folder(folder), uuid(std::move(uuid)), keys(image, "EPHEMERAL", folder) {}

  // The config that is stored.
  std::string look() {
    auto found = cuts::fileOfXfs(image, cuts::part(image, "STATE"), folder, "config.yaml");
    auto text = KJ_REQUIRE_NONNULL(found, "STATE has no config");
    auto config = config::parse(kj::arrayPtr(text.data(), text.size()));
    auto encryption = machined::encryptionOfEphemeral(config.get().getMachine());
    auto settings = machined::settingsOf(KJ_REQUIRE_NONNULL(encryption), "EPHEMERAL", uuid.c_str());
    KJ_REQUIRE(keys.opensWithOneOf(settings), "no key of the stored config opens EPHEMERAL");
    return text;
  }
  size_t headers() const { return keys.tried(); }

 private:
  std::string image, folder, uuid;
  cuts::LuksKeys keys;
};

// Catches, after a power cut at any write, with any part of the unflushed writes on the disk: a
// volume that no key of the booted node opens: keys that are removed before the config without them
// is stored, or a config that is stored before its keys exist.
TEST(Encryption, PowerCutsOfRotations) {
  cuts::VolatileCluster cluster("vmlukscut",
                                {"--masters", "1", "--workers", "0", "--memory", "512", "--disk",
                                 "2048", "--no-uplink", "--with-bootloader", "--encrypt-ephemeral"},
                                kCreated);
  Node node{cluster, "vmlukscut-master-1"};
  node.expectOpen("EPHEMERAL", "0");
  auto config = [&] { return cluster.ok({"read", "/system/state/config.yaml"}); };
  std::vector<std::string> configs = {config()};
  std::vector<cuts::Window> windows;
  cuts::Recording recording(cluster, node.name);
  for (auto keys : {kKeys, R"([{"static": {"passphrase": "second"}, "slot": 5}])"}) {
    auto begin = recording.position();
    node.replaceKeys("no-reboot", "ephemeral", keys);
    windows.push_back({begin, recording.position(), true});
    configs.push_back(config());
    ASSERT_NE(configs.back(), configs[configs.size() - 2]);
  }
  recording.stop();

  cuts::Scratch folder, kept;
  std::vector<cuts::Sample> samples;
  {
    kj::EventLoop loop;
    kj::WaitScope scope(loop);
    cuts::Replay replay(scope, recording.log(), folder.path());
    LockedAfterCut locked(replay.images()[0], folder.path(), node.uuid());
    cuts::Outcomes outcomes("changes of keys");
    samples = cuts::replayCuts(
        replay, cuts::chooseCuts(replay, windows, cuts::cutsToMake(300)), outcomes,
        [&](const cuts::CutAt& cut) {
          auto text = locked.look();
          bool fresh = text == configs[cut.window + 1];
          KJ_REQUIRE(fresh || text == configs[cut.window], "the config is neither");
          KJ_REQUIRE(fresh || cut.when == cuts::Replay::When::kAt, "what was answered is lost");
          return fresh ? "new" : "old";
        },
        cuts::samplesToBoot(), kept.path());
    std::cerr << locked.headers() << " pairs of a header and a key were tried\n";
    EXPECT_GT(outcomes.of("old"), 0u);
    EXPECT_GT(outcomes.of("new"), 0u);
  }
  for (auto& sample : samples) {
    SCOPED_TRACE("event " + std::to_string(sample.at.event) + ", " + sample.kind);
    cuts::startWith(cluster, node.name, sample);
    // It first finishes the change: each key takes the machine half a minute, when others are busy
    // too.
    node.expectOpen("EPHEMERAL", "[0-9]+", 3 * kSlow);
  }
}

}  // namespace talos::vm
