// Power cuts while the keys of STATE itself are changed. STATE contains the config, which has the
// list of the keys; a boot has the list in META, and the machine's own key.
#include "machined/disk/devices/meta-values.h"
#include "machined/disk/encryption/state-keys-in-meta.h"
#include "tests/cuts/image.h"
#include "tests/cuts/luks-keys.h"
#include "tests/cuts/recording.h"
#include "tests/vm/encrypted-node.h"

namespace talos::vm {
namespace {

constexpr auto kName = "statekeys-master-1";

// Checks that a boot opens the STATE that a cut leaves.
class StateAfterCut {
 public:
  StateAfterCut(std::string image, std::string folder, std::string uuid)
      : keys(image, "STATE", std::move(folder)), image(std::move(image)), uuid(std::move(uuid)) {}

  // The list in META. Throws when neither a key of it nor the machine's own opens STATE.
  std::string look() {
    auto list = cuts::metaValue(image, static_cast<uint32_t>(machined::MetaTag::kStateEncryption));
    auto own = machined::settingsOfMachine("STATE", uuid.c_str());
    if (keys.opensWithOneOf(own)) return list;
    KJ_REQUIRE(
        !list.empty() && keys.opensWithOneOf(machined::readStateKeys(
                             kj::arrayPtr(list.data(), list.size()).asBytes(), uuid.c_str())),
        "no key that a boot has opens STATE", list.c_str());
    return list;
  }
  cuts::LuksKeys keys;

 private:
  std::string image, uuid;
};

struct Change {
  const char *keys, *inMeta;
  bool hasStatic;
};
constexpr Change kChanges[] = {
    {R"([{"nodeID": {}, "slot": 5}, {"static": {"passphrase": "first"}, "slot": 0}])",
     R"("KeySlot":5)", true},
    {R"([{"nodeID": {}, "slot": 2}])", R"("KeySlot":2)", false}};

}  // namespace

// Catches, after a power cut at any write, with any part of the unflushed writes on the disk: a
// STATE that no key of a boot opens: a list in META that changes before its keys exist, or after
// the others are gone; a change that was answered and is lost.
TEST(StateKeys, PowerCutsOfRotations) {
  cuts::VolatileCluster cluster(
      "statekeys",
      {"--masters", "1", "--workers", "0", "--memory", "384", "--no-uplink", "--encrypt-state"},
      kSlow);
  auto isOpen = [&] {
    auto said = cluster.talosctl({"--timeout", "5s", "get", "volumestatus"}, 20).out;
    return std::regex_search(said, std::regex(R"(STATE\s+\d+\s+ready\s)"));
  };
  ASSERT_TRUE(eventually(isOpen, kSlow, 1)) << cluster.console(kName);
  std::vector<cuts::Window> windows;
  cuts::Recording recording(cluster, kName);
  for (auto& change : kChanges) {
    auto begin = recording.position();
    auto patch =
        R"([{"op": "replace", "path": "/machine/systemDiskEncryption/state/keys", "value": )" +
        std::string(change.keys) + "}]";
    auto said =
        cluster.talosctl({"patch", "machineconfig", "--mode=no-reboot", "-p", patch}, 2 * kSlow);
    ASSERT_EQ(said.status, 0) << said.out << said.err;
    windows.push_back({begin, recording.position(), true});
  }
  recording.stop();

  cuts::Scratch folder, kept;
  std::vector<cuts::Sample> samples;
  {
    kj::EventLoop loop;
    kj::WaitScope scope(loop);
    cuts::Replay replay(scope, recording.log(), folder.path());
    auto uuid = EncryptedNode{cluster, kName}.uuid();
    StateAfterCut state(replay.images()[1], folder.path(), uuid);
    cuts::Outcomes outcomes("changes of the keys of STATE");
    samples = cuts::replayCuts(
        replay, cuts::chooseCuts(replay, windows, cuts::cutsToMake(300)), outcomes,
        [&](const cuts::CutAt& cut) {
          auto list = state.look();
          auto& change = kChanges[cut.window];
          bool fresh = contains(list, change.inMeta);
          if (cut.when == cuts::Replay::When::kBefore) {
            KJ_REQUIRE(fresh, "what was answered is not in META", list.c_str());
            KJ_REQUIRE(state.keys.opens("first") == change.hasStatic,
                       "the keys are not those answered");
          }
          return fresh ? "new list in META" : "old list in META";
        },
        cuts::samplesToBoot(), kept.path());
    std::cerr << state.keys.tried() << " pairs of a header and a key were tried\n";
    EXPECT_GT(outcomes.of("old list in META"), 0u);
    EXPECT_GT(outcomes.of("new list in META"), 0u);
  }
  for (auto& sample : samples) {
    SCOPED_TRACE("event " + std::to_string(sample.at.event) + ", " + sample.kind);
    cuts::startWith(cluster, kName, sample);
    ASSERT_TRUE(eventually(isOpen, kSlow, 1)) << cluster.console(kName);
  }
}

}  // namespace talos::vm
