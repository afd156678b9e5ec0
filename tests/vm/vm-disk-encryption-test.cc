// The chapters "Disk Encryption" and "Resetting a Machine" of the users' documents, their commands
// as they are printed; and rare states of machines: keys of STATE that only META knows, a damaged
// header, a key in each slot.
#include <fcntl.h>
#include <unistd.h>

#include "tests/cuts/image.h"
#include "tests/vm/encrypted-node.h"

namespace talos::vm {
namespace {

constexpr double kLong = 1800;  // each of 32 keys is derived at a boot

// Prints the output, to be compared with that in the chapter.
void show(const std::vector<std::string>& words, const harness::Result& said) {
  std::string line = "$ talosctl";
  for (auto& word : words) line += " " + word;
  std::cerr << line << "\n" << said.out << said.err << std::flush;
}

class Installed : public ::testing::Test {
 protected:
  explicit Installed(const char* name, std::vector<std::string> more = {})
      : cluster(name, flags(std::move(more)), kLong),
        node{cluster, std::string(name) + "-master-1"} {}
  ~Installed() noexcept override {}

  Cluster cluster;
  EncryptedNode node;
  std::string config = cluster.folder() + "/config.yaml", plain;

  // No source has its config: it was applied.
  static std::vector<std::string> flags(std::vector<std::string> more) {
    std::vector<std::string> all = {"--masters",
                                    "1",
                                    "--workers",
                                    "0",
                                    "--memory",
                                    kMemory,
                                    "--disk",
                                    "2048",
                                    "--no-uplink",
                                    "--with-bootloader",
                                    "--with-apply-config",
                                    "--wait-timeout",
                                    "30m"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  void SetUp() override {
    plain = cluster.ok({"read", "/system/state/config.yaml"});
    ASSERT_TRUE(contains(cluster.ok({"read", "/proc/cmdline"}), "talos.config=none "));
  }
  // Runs the command as it is printed, but with a longer timeout, because the processor is
  // emulated.
  harness::Result run(const std::vector<std::string>& words, double within = kSlow) {
    std::vector<std::string> all = {"--timeout", "10m"};
    all.insert(all.end(), words.begin(), words.end());
    auto said = cluster.talosctl(all, within);
    show(words, said);
    return said;
  }
  void runs(const std::vector<std::string>& words, double within = kSlow) {
    auto said = run(words, within);
    ASSERT_EQ(said.status, 0) << cluster.console(node.name);
  }
  // vim config.yaml
  void edit(const std::string& encryption) {
    auto text = plain, top = std::string("machine:\n");
    auto at = text.find(top);
    ASSERT_NE(at, std::string::npos) << text;
    if (!encryption.empty()) {
      text.insert(at + top.size(), "    systemDiskEncryption:\n" + encryption);
    }
    std::ofstream(config, std::ios::binary) << text;
  }
  // Returns the ID of the boot; empty while the node does not answer.
  std::string bootIdNow() {
    return cluster.talosctl({"--timeout", "5s", "read", "/proc/sys/kernel/random/boot_id"}, 20).out;
  }
  std::string bootId() {
    std::string id;
    EXPECT_TRUE(eventually(
        [&] {
          id = bootIdNow();
          return !id.empty();
        },
        kSlow, 1));
    return id;
  }
  bool isOverSince(const std::string& boot) {
    return eventually(
        [&] {
          auto now = bootIdNow();
          return !now.empty() && now != boot &&
                 contains(cluster.talosctl({"--timeout", "5s", "logs", "machined"}, 20).out,
                          "sequence boot: done");
        },
        3 * kSlow, 1);
  }
  bool hasRow(const char* type, const std::string& row) {
    std::string last;
    bool has = eventually(
        [&] {
          last = cluster.talosctl({"get", type}, 20).out;
          return std::regex_search(last, std::regex(row));
        },
        kSlow, 1);
    show({"get", type}, {0, last, "", 0});
    return has;
  }
  bool hasKeys(const char* label, const std::string& keys) {
    return eventually(
        [&] {
          auto shown = cluster.talosctl({"get", "volumestatus", label, "-o", "yaml"}, 20).out;
          return contains(shown, "encryptionKeys: " + keys + "\n");
        },
        kSlow, 1);
  }
};

struct DiskEncryption : Installed {
  DiskEncryption() : Installed("diskencryption") {}
  ~DiskEncryption() noexcept override {}

  // The steps of the chapter, one after the other.
  void encryptEphemeral();
  void rotateKeys();
  void encryptState();
  void decryptEphemeral();
  void resetMachine();
};

struct EncryptedDisk : Installed {
  EncryptedDisk() : Installed("encrypteddisk", {"--encrypt-state", "--encrypt-ephemeral"}) {}
  ~EncryptedDisk() noexcept override {}
  // Writes over the beginning of a partition.
  void damage(const std::string& label) {
    auto image = node.file("disk");
    auto part = cuts::part(image, label);
    int raw;
    KJ_SYSCALL(raw = open(image.c_str(), O_WRONLY | O_CLOEXEC));
    kj::AutoCloseFd fd(raw);
    std::string noise(40u << 10, 'x');
    KJ_SYSCALL(pwrite(fd, noise.data(), noise.size(), static_cast<off_t>(part.offset)));
  }
};

struct AllSlots : Installed {
  AllSlots() : Installed("allslots", {"--config-patch", wholeList()}) {}
  ~AllSlots() noexcept override {}
  static std::string keyAt(unsigned slot) { return "key" + std::to_string(slot); }
  static std::string wholeList() {
    std::string keys;
    for (unsigned i = 0; i < 32; ++i) {
      keys += (i == 0 ? "" : ", ") + (R"({"static": {"passphrase": ")" + keyAt(i) +
                                      R"("}, "slot": )" + std::to_string(i) + "}");
    }
    return R"([{"op": "add", "path": "/machine/systemDiskEncryption", "value":
        {"ephemeral": {"keys": [)" +
           keys + "]}}}]";
  }
};

const std::string kOldKey =
    "        ephemeral:\n"
    "            keys:\n"
    "                - static:\n"
    "                    passphrase: oldkey\n"
    "                  keySlot: 0\n";
const std::string kNewKey =
    "                - static:\n"
    "                    passphrase: newkey\n"
    "                  keySlot: 1\n";
const std::string kNewKeyOnly =
    "        ephemeral:\n"
    "            keys:\n" +
    kNewKey;
const std::string kState =
    "        state:\n"
    "            keys:\n"
    "                - nodeID: {}\n"
    "                  slot: 0\n";

}  // namespace

// "Ephemeral Partition"
void DiskEncryption::encryptEphemeral() {
  edit(kOldKey);
  auto boot = bootId();
  runs({"apply-config", "-f", config, "-n", "10.5.0.2", "--on-reboot"});
  EXPECT_EQ(bootId(), boot);
  runs({"reset", "--system-labels-to-wipe", "EPHEMERAL", "-n", "10.5.0.2", "--reboot=true"}, 900);
  ASSERT_TRUE(isOverSince(boot)) << cluster.console(node.name);
  node.expectOpen("EPHEMERAL", "0");
  EXPECT_TRUE(hasRow("discoveredvolumes", R"(dm-0 +\d+ +disk +\S+ \S+ +xfs +EPHEMERAL)"));
  auto dump = node.dump("disk", "EPHEMERAL");
  std::cerr << "$ cryptsetup luksDump EPHEMERAL\n" << dump;
  EXPECT_TRUE(contains(dump, "  0: luks2")) << dump;
  EXPECT_TRUE(node.opens("disk", "EPHEMERAL", "oldkey", 0));
  EXPECT_EQ(node.header("disk", "STATE"), "");
}

// "Key Rotation"
void DiskEncryption::rotateKeys() {
  edit(kOldKey + kNewKey);
  auto boot = bootId();
  runs({"apply-config", "-n", "10.5.0.2", "-f", config});
  ASSERT_TRUE(isOverSince(boot)) << cluster.console(node.name);
  EXPECT_TRUE(hasKeys("EPHEMERAL", "0 static, 1 static"));
  EXPECT_TRUE(node.opens("disk", "EPHEMERAL", "oldkey", 0) &&
              node.opens("disk", "EPHEMERAL", "newkey", 1));
  edit(kNewKeyOnly);
  boot = bootId();
  runs({"apply-config", "-n", "10.5.0.2", "-f", config});
  ASSERT_TRUE(isOverSince(boot)) << cluster.console(node.name);
  EXPECT_TRUE(hasKeys("EPHEMERAL", "1 static"));
  EXPECT_TRUE(node.opens("disk", "EPHEMERAL", "newkey", 1));
  EXPECT_FALSE(node.opens("disk", "EPHEMERAL", "oldkey", 0));
}

// "State Partition"
void DiskEncryption::encryptState() {
  auto own = node.uuid();
  edit(kNewKeyOnly + kState);
  runs({"reset", "--system-labels-to-wipe", "STATE", "-n", "10.5.0.2", "--reboot=true"}, 900);
  std::string disks;
  ASSERT_TRUE(eventually(
      [&] {
        disks = cluster.talosctl({"-n", cluster.endpoint(), "disks", "--insecure"}, 20).out;
        return contains(disks, "/dev/vda");
      },
      3 * kSlow, 1))
      << cluster.console(node.name);
  show({"disks", "--insecure"}, {0, disks, "", 0});
  EXPECT_TRUE(std::regex_search(disks, std::regex("MODALIAS +NAME +SIZE\n"))) << disks;
  runs({"apply-config", "--insecure", "-n", cluster.endpoint(), "-f", config});
  node.expectOpen("STATE", "0", 3 * kSlow);
  node.expectOpen("EPHEMERAL", "1", 3 * kSlow);
  EXPECT_TRUE(node.opens("disk", "STATE", own + "STATE", 0));
  EXPECT_TRUE(hasRow("volumestatus", R"(STATE +\d+ +ready +)"));
  EXPECT_TRUE(contains(run({"meta", "read", "9"}).out, R"("KeyNodeID":{})"));
}

// "and Vice Versa"
void DiskEncryption::decryptEphemeral() {
  ASSERT_TRUE(isOverSince("")) << cluster.console(node.name);
  edit(kState);
  auto boot = bootId();
  runs({"apply-config", "-f", config, "-n", "10.5.0.2", "--on-reboot"});
  runs({"reset", "--system-labels-to-wipe", "EPHEMERAL", "-n", "10.5.0.2", "--reboot=true"}, 900);
  ASSERT_TRUE(isOverSince(boot)) << cluster.console(node.name);
  EXPECT_TRUE(hasRow("volumestatus", R"(EPHEMERAL +\d+ +ready +/dev/vda6 +)"));
  EXPECT_EQ(node.header("disk", "EPHEMERAL"), "");
}

// The chapter "Resetting a Machine".
void DiskEncryption::resetMachine() {
  runs({"reset", "--help"});
  runs({"reset", "-n", "10.5.0.2", "--graceful=false"}, 900);
  EXPECT_TRUE(eventually(
      [&] { return contains(cluster.talosctl({"cluster", "show"}, 20).out, "off"); }, kSlow, 1));
  EXPECT_TRUE(cuts::tableOf(node.file("disk")) == nullptr) << "the disk is not empty";
  EXPECT_EQ(node.header("disk", "STATE"), "");
}

// Catches: a command of the chapter that is unknown, or does something else than the chapter says;
// a partition that stays plain, keys that cryptsetup does not find where the config has them, a
// config that is lost with a partition that does not hold it.
TEST_F(DiskEncryption, AsTheChapterSays) {
  ASSERT_TRUE(hasRow("volumestatus", R"(EPHEMERAL +\d+ +ready +/dev/vda6 +)"));
  ASSERT_NO_FATAL_FAILURE(encryptEphemeral());
  ASSERT_NO_FATAL_FAILURE(rotateKeys());
  ASSERT_NO_FATAL_FAILURE(encryptState());
  ASSERT_NO_FATAL_FAILURE(decryptEphemeral());
  resetMachine();
}

// Catches: a STATE that is opened by the config of a source or by the machine's own key only; a
// damaged header that ends the boot although there is a backup, or is lost; slots that are given
// twice.
TEST_F(EncryptedDisk, KeysThatOnlyMetaHasAndADamagedHeader) {
  node.expectOpen("STATE", "0");
  node.expectOpen("EPHEMERAL", "0");

  auto before = cluster.ok({"read", "/system/state/config.yaml"});
  auto patch = [&](const char* mode, const char* volume, const std::string& value) {
    return cluster.talosctl(
        {"--timeout", "10m", "patch", "machineconfig", std::string("--mode=") + mode, "-p",
         R"([{"op": "replace", "path": "/machine/systemDiskEncryption/)" + std::string(volume) +
             R"(", "value": )" + value + "}]"},
        3 * kSlow);
  };
  auto twice = patch("no-reboot", "ephemeral",
                     R"({"keys": [{"nodeID": {}, "slot": 4},
                         {"static": {"passphrase": "x"}, "slot": 4}]})");
  EXPECT_EQ(twice.status, 1);
  EXPECT_TRUE(contains(twice.err, "slot 4 is a duplicate")) << twice.err;
  EXPECT_EQ(cluster.ok({"read", "/system/state/config.yaml"}), before);

  auto boot = bootId();
  auto inMeta =
      patch("reboot", "state", R"({"keys": [{"static": {"passphrase": "readable"}, "slot": 3}]})");
  ASSERT_EQ(inMeta.status, 0) << inMeta.out << inMeta.err;
  EXPECT_TRUE(contains(inMeta.err, "this passphrase is stored in META too")) << inMeta.err;
  ASSERT_TRUE(isOverSince(boot)) << cluster.console(node.name);
  node.expectOpen("STATE", "3");
  auto meta = cluster.ok({"meta", "read", "9"});
  EXPECT_TRUE(contains(meta, "{\"KeyData\":\"readable\"}")) << meta;
  EXPECT_TRUE(node.opens("disk", "STATE", "readable", 3));
  EXPECT_FALSE(node.opens("disk", "STATE", node.uuid() + "STATE", 0));

  auto seen = cluster.console(node.name).size();
  node.powerCycle([&] { damage("EPHEMERAL"); });
  node.expectOpen("STATE", "3");
  node.expectOpen("EPHEMERAL", "0", 3 * kSlow);
  auto since = cluster.console(node.name).substr(seen);
  std::cerr << since;
  EXPECT_TRUE(
      contains(since, "the LUKS2 header of /dev/vda6 was damaged; it was replaced by its backup"));
  EXPECT_FALSE(contains(since, "maintenance: "));
  auto shown = cluster.ok({"get", "volumestatus", "EPHEMERAL", "-o", "yaml"});
  EXPECT_TRUE(contains(shown, "was damaged; it was replaced by its backup")) << shown;
  auto backups = cluster.ok({"list", "/system/state/luks"});
  EXPECT_TRUE(contains(backups, "EPHEMERAL.refused")) << backups;
}

// Catches: a list that is too long for the program or its deadline; a key that is made and not
// where the config has it.
TEST_F(AllSlots, AreMadeAndOpenIt) {
  node.expectOpen("EPHEMERAL", "0", kLong);
  auto dump = node.dump("disk", "EPHEMERAL");
  EXPECT_TRUE(contains(dump, "  0: luks2") && contains(dump, "  31: luks2")) << dump;
  for (unsigned i : {0u, 17u, 31u}) {
    EXPECT_TRUE(node.opens("disk", "EPHEMERAL", keyAt(i), i)) << i;
  }
  cluster.ok({"reboot"}, kLong);
  node.expectOpen("EPHEMERAL", "0", kLong);
}

}  // namespace talos::vm
