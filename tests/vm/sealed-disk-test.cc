// A machine whose disk is sealed with its TPM, which is a process beside QEMU: another one is the
// TPM of another machine.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>

#include "tests/vm/lone-machine.h"

namespace talos::vm {
namespace {

using harness::contains;
using harness::eventually;
namespace fs = std::filesystem;

constexpr double kUp = 600;  // emulated, beside whatever else runs
// MiB. Deriving a key takes a quarter of it, and each boot derives several.
constexpr const char* kMemory = "384";
constexpr const char* kUuid = "5d2f8c1e-7b94-4a36-9e0d-c8b1f3a72604";

class Chip {
 public:
  explicit Chip(const std::string& name)
      : folder((fs::temp_directory_path() / ("talos-chip-" + name + std::to_string(getpid())))) {
    fs::create_directory(folder);
  }
  ~Chip() {
    process.reset();
    fs::remove_all(folder);
  }
  Chip(const Chip&) = delete;

  // Turns it on; it ends with its machine. Returns the arguments of QEMU.
  std::vector<std::string> on() {
    auto socket = folder + "/socket";
    process.reset();
    fs::remove(socket);
    process.emplace(std::vector<std::string>{"swtpm", "socket", "--tpm2", "--tpmstate",
                                             "dir=" + folder, "--ctrl",
                                             "type=unixio,path=" + socket});
    EXPECT_TRUE(eventually([&] { return fs::exists(socket); }, 60)) << process->err();
    return {"-chardev", "socket,id=chip,path=" + socket,
            "-tpmdev",  "emulator,id=tpm,chardev=chip",
            "-device",  "tpm-crb,tpmdev=tpm",
            "-m",       kMemory,
            "-uuid",    kUuid};
  }

 private:
  std::string folder;
  std::optional<harness::Background> process;
};

// The config of a machine whose volumes have these keys.
std::string withKeys(const std::string& config, const std::string& state) {
  return std::regex_replace(
      config, std::regex("\nmachine:\n"),
      "$&    systemDiskEncryption:\n        state: {provider: luks2, keys: [" + state +
          "]}\n        ephemeral: {provider: luks2, keys: [{tpm: {options: {}}, slot: 0}, "
          "{nodeID: {}, slot: 1}]}\n");
}

struct SealedMachine {
  LoneMachine& machine;

  void expectOpen(const std::string& label, const std::string& slot) const {
    std::string last;
    std::regex row(label + R"(\s+\d+\s+ready\s.*\sluks2\s+)" + slot + R"(\s)");
    EXPECT_TRUE(eventually(
        [&] {
          auto said = machine.at({"get", "volumestatus"});
          last = said.out + said.err;
          return std::regex_search(last, row);
        },
        kUp, 1))
        << label << " is not open by slot " << slot << ":\n"
        << last << machine.console();
  }
  void expectConsole(const char* text) const {
    EXPECT_TRUE(eventually([&] { return contains(machine.console(), text); }, kUp, 1))
        << "without: " << text << "\n"
        << machine.console();
  }
};

}  // namespace

// Catches: a kernel without the driver of the TPM, or a helper that may not use it; a volume that
// is not sealed, or that its own machine does not open after a restart; a disk that another machine
// opens, or formats; a message that does not name the TPM; a recovery key that opens nothing; a
// second key that is not tried.
TEST(SealedDisk, OpensInItsMachineAndElsewhereWithItsOtherKeys) {
  Chip own("own"), other("other");
  std::string config;
  LoneMachine machine({.disk = LoneMachine::writtenDisk("../image", {"talos.config=metal-iso"}),
                       .beforeItStarts = [&](LoneMachine& self, LoneMachine::Hardware& hardware) {
                         config = self.generate();
                         hardware.more = own.on();
                         hardware.cd = self.disc(
                             "metal-iso", "config.yaml",
                             withKeys(config, "{tpm: {}, slot: 0}, {recovery: {}, slot: 7}"));
                       }});
  SealedMachine node{machine};
  node.expectOpen("STATE", "0");
  node.expectOpen("EPHEMERAL", "0");
  // It derives several keys, which takes longer than LoneMachine lets a call take.
  auto table = harness::run(
      {getenv("TALOSCTL"), "--talosconfig", machine.path("talosconfig"), "--timeout", "5m", "-e",
       machine.address, "-n", machine.address, "encryption", "recovery-key", "STATE", "7"},
      kUp);
  std::smatch recovery;
  ASSERT_TRUE(std::regex_search(table.out, recovery, std::regex("([a-z2-9]{5}-){7}[a-z2-9]{5}")))
      << table.out << table.err;
  ASSERT_TRUE(eventually([&] { return contains(machine.console(), "task saveConfig (1/1): done"); },
                         kUp, 1))
      << machine.console();

  auto startWith = [&](Chip& chip, const std::string& disc) {
    machine.turnOff();  // the file of the console begins again
    machine.turnOn([&](LoneMachine::Hardware& hardware) {
      hardware.more = chip.on();
      hardware.cd = disc;
    });
  };
  startWith(own, "");
  node.expectOpen("STATE", "0");
  node.expectOpen("EPHEMERAL", "0");

  startWith(other, "");
  node.expectConsole("the TPM of another machine has sealed the key");
  node.expectConsole("STATE is encrypted, and no config says how to open it");

  startWith(other, machine.disc("metal-iso", "config.yaml",
                                withKeys(config, "{static: {passphrase: " + recovery[0].str() +
                                                     "}, slot: 7}")));
  node.expectOpen("STATE", "7");
  node.expectOpen("EPHEMERAL", "1");

  startWith(own, "");
  node.expectOpen("STATE", "0");
  node.expectOpen("EPHEMERAL", "0");
}

}  // namespace talos::vm
