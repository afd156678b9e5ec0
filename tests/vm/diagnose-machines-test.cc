// `talosctl diagnose` on an emulated machine that is made ill in one way after another, as
// tests/kubernetes/diagnose-test.cc does with nodes in containers, for the checks of what only a
// machine has: a clock, disks, cards, a boot loader and a kernel. Emulated, this takes most of an
// hour: it runs with DIAGNOSE=all, or with the names of some rows.
#include <gmock/gmock.h>

#include <string.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <thread>

#include "tests/cuts/image.h"
#include "tests/vm/sick-machine.h"

namespace talos::vm {
namespace {

using harness::contains;
using harness::eventually;
namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr double kNamed = 120;  // s, once the machine answers

struct Row {
  const char* name;
  std::function<void(SickMachine&)> make;
  const char* check;  // of the first cause
  const char* words;  // in it
  Words shownBy;      // a talosctl command; `shown` is a part of its output
  const char* shown;
  Cure cure = Cure::kUndone;
  std::function<Answers(SickMachine&)> answers = nullptr;  // before the remedy is typed
  std::function<void(SickMachine&)> restore = nullptr;     // takes back what is left of the fault
};

Answers nothing(SickMachine&) {
  return {};
}

std::function<Answers(SickMachine&)> filledIn(const std::string& placeholder,
                                              const std::string& value) {
  return [placeholder, value](SickMachine&) {
    return Answers{.placeholders = {{placeholder, value}}};
  };
}

void restoreConfig(SickMachine& machine) {
  machine.restoreConfig();
}

void startAsBefore(SickMachine& machine) {
  machine.startWithArguments("");
}

// --- the clock

void useTimeServer(const SickMachine& machine, const std::string& server) {
  machine.patch(R"([{"op": "add", "path": "/machine/time/servers", "value": [")" + server +
                R"("]}])");
}

std::vector<Row> rowsOfTheClock() {
  return {
      {"no time server answers",
       [](SickMachine& m) { useTimeServer(m, SickMachine::kNoHost); },
       "time-sync",
       "the clock is not synchronised",
       {"get", "timestatus", "-o", "yaml"},
       "synced: false",
       Cure::kFilledIn,
       filledIn("address", SickMachine::kHost),
       restoreConfig},
      {"the time server is two minutes ahead",
       [](SickMachine& m) { useTimeServer(m, SickMachine::kWrongTime); },
       "clock",
       "ahead of that of this host; it follows the time server 192.0.2.7",
       {"get", "timestatus", "-o", "yaml"},
       SickMachine::kWrongTime,
       Cure::kFilledIn,
       filledIn("address", SickMachine::kHost),
       restoreConfig},
      {"the hardware clock is wrong, and nothing sets the clock",
       [](SickMachine& m) {
         m.patch(R"([{"op": "add", "path": "/machine/time/disabled", "value": true}])");
         m.startWithClock(SickMachine::kAheadSeconds);
       },
       "clock",
       "ahead of that of this host",
       {"get", "timestatus", "-o", "yaml"},
       "syncDisabled: true",
       Cure::kTyped,
       nothing,
       [](SickMachine& m) {
         m.restoreConfig();
         m.startWithClock(0);
       }},
  };
}

// --- disks and cards

void damageEphemeral(SickMachine& machine) {
  constexpr size_t kSuperblock = 4096;
  machine.changeDisk([&] {
    cuts::overwrite(machine.disk(), cuts::part(machine.disk(), "EPHEMERAL").offset,
                    std::string(kSuperblock, '\xff'));
  });
}

// Does what the remedy leaves to the operator, who needs nothing that is on the partition.
void eraseEphemeral(SickMachine& machine) {
  auto result =
      machine.type("talosctl -n " + machine.address() +
                       " reset --graceful=false --reboot --system-labels-to-wipe=EPHEMERAL",
                   "");
  EXPECT_EQ(result.status, 0) << result.out << result.err << machine.console();
}

std::vector<Row> rowsOfTheHardware() {
  return {
      {"a card has no carrier",
       [](SickMachine& m) { m.setCarrier(false); },
       "link-carrier",
       "the link eth1 has no carrier",
       {"get", "netstatus", "-o", "yaml"},
       "eth1: no carrier",
       Cure::kUndone,
       nullptr,
       [](SickMachine& m) { m.setCarrier(true); }},
      {"the data disk is full",
       [](SickMachine& m) {
         m.changeDisk(
             [&] { cuts::fillXfs(m.disk(), cuts::part(m.disk(), "EPHEMERAL"), m.file("mount")); });
       },
       "disk-full",
       "the data disk (EPHEMERAL) is full",
       {"usage", "/var", "--all", "--depth", "3", "--threshold", "100000000"},
       "filler",
       Cure::kUndone,
       nullptr,
       // The remedy names this one, too: /var grows.
       [](SickMachine& m) {
         m.changeDisk([&] { fs::resize_file(m.disk(), fs::file_size(m.disk()) + (1u << 30)); });
       }},
      {"the file system of the data disk is damaged", damageEphemeral, "volume",
       "the partition EPHEMERAL cannot be used: it is not empty",
       Words{"get", "volumestatus", "-o", "yaml"}, "no readable file system", Cure::kUndone,
       nullptr, eraseEphemeral},
  };
}

// --- the kernel

// Its rule permits what the rows of this test do.
constexpr const char* kFirewall = R"(
apiVersion: v1alpha1
kind: NetworkRuleConfig
name: api
portSelector: {ports: [50000], protocol: tcp}
ingress: [{subnet: 10.0.2.0/24}]
)";
// The kernel refuses to load this module.
const std::string kNoNfTables = " module_blacklist=nf_tables";

std::vector<Row> rowsOfTheKernel() {
  return {
      {"the kernel has no Landlock",
       [](SickMachine& m) {
         m.startWithArguments("talos.platform=metal lsm=lockdown,yama,integrity");
       },
       "landlock",
       "the kernel has no Landlock",
       {"get", "securitystate", "-o", "yaml"},
       "landlock: 0",
       Cure::kUndone,
       nullptr,
       startAsBefore},
      {"the kernel has no nf_tables, and the config a firewall",
       [](SickMachine& m) {
         m.patch(kFirewall);
         m.startWithArguments("talos.platform=metal" + kNoNfTables);
       },
       "firewall",
       "the kernel does not have the rules of the node's firewall",
       {"get", "firewall", "-o", "yaml"},
       "the kernel has no nf_tables",
       Cure::kUndone,
       nullptr,
       [](SickMachine& m) {
         m.restoreConfig();
         m.startWithArguments("");
       }},
      {"the kernel of a cloud's machine has no nf_tables",
       [](SickMachine& m) { m.startWithArguments("talos.platform=aws" + kNoNfTables); },
       "metadata-service",
       "pods can reach the metadata service of the platform",
       {"get", "metadatablockstatus", "-o", "yaml"},
       "the kernel has no nf_tables",
       Cure::kUndone,
       nullptr,
       startAsBefore},
  };
}

// --- upgrades

constexpr const char *kGood = "v9.9.1", *kOther = "v9.9.2", *kEnding = "v9.9.3";

std::string installer(const std::string& version) {
  return "ghcr.io/talos/installer:" + version;
}

void upgradeInVain(const SickMachine& machine, const std::string& version) {
  auto result = machine.type(
      "talosctl -n " + machine.address() + " upgrade --image " + installer(version), "");
  EXPECT_NE(result.status, 0) << result.out << result.err;
}

// The command of the upgrade ends without the node's answer.
void cutDuringUpgrade(SickMachine& machine) {
  machine.images.inRegistry(kGood);
  std::thread upgrade(upgradeInVain, std::cref(machine), kGood);
  auto writes = [&] { return contains(machine.console(), "upgrade: writing"); };
  EXPECT_TRUE(eventually(writes, kComesUp, 0.05)) << machine.console();
  machine.changeDisk([] {});
  upgrade.join();
}

std::vector<Row> rowsOfUpgrades() {
  return {
      {"the power is cut while an upgrade writes the system",
       cutDuringUpgrade,
       "upgrade",
       "the newest upgrade has failed; the node runs",
       {"get", "upgradestatus", "-o", "yaml"},
       "it was interrupted",
       Cure::kTyped},
      {"the system of an upgrade does not come up",
       [](SickMachine& m) {
         m.images.inRegistry(kEnding);
         upgradeInVain(m, kEnding);
       },
       "upgrade",
       "the new system did not come up",
       {"get", "upgradestatus", "-o", "yaml"},
       "did not come up",
       Cure::kFilledIn,
       [](SickMachine& m) {
         m.images.inRegistry(kOther);
         return Answers{.placeholders = {{"another image", installer(kOther)}}};
       }},
  };
}

// --- machines for one row

constexpr const char* kPassphrase = "passphrase-of-this-disk";
constexpr const char* kEncrypted = R"(
machine:
  systemDiskEncryption:
    ephemeral: {keys: [{static: {passphrase: passphrase-of-this-disk}, slot: 0}]}
)";

Row rowOfTheKey() {
  return {"the config of a node without STATE lacks the key of its data disk",
          [](SickMachine& m) {
            auto config = harness::slurp(m.originalConfig());
            auto at = config.find(kPassphrase);
            ASSERT_NE(at, std::string::npos);
            m.configureAnew(config.replace(at, strlen(kPassphrase), "another"));
          },
          "volume",
          "the partition EPHEMERAL cannot be used: no key of the config opens it",
          {"get", "volumestatus", "-o", "yaml"},
          "no key of the config opens",
          Cure::kFilledIn,
          [](SickMachine& m) {
            return Answers{.placeholders = {}, .editor = "cp " + m.originalConfig()};
          }};
}

// Its driver requests a file, and works without it.
constexpr const char* kCardWithFirmware = "i82559er";
constexpr const char* kImageOfMachines = "../image-metal";

Row rowOfTheFirmware() {
  return {"the driver of a card finds no firmware",      [](SickMachine&) {}, "firmware",
          "Debian's package firmware-intel-misc has it", {"dmesg"},           "e100/"};
}

// --- the examination

class DiagnoseMachines : public Upgrade {
 protected:
  ~DiagnoseMachines() noexcept override {}
  void SetUp() override {
    if (getenv("DIAGNOSE") == nullptr || *getenv("DIAGNOSE") == '\0') {
      GTEST_SKIP() << "emulated machines, most of an hour: DIAGNOSE=all";
    }
    Upgrade::SetUp();
  }
  static std::vector<Row> chosen(std::vector<Row> rows) {
    std::erase_if(rows, [](const Row& row) { return !isChosen(row.name, false); });
    return rows;
  }
  void examine(SickMachine& machine, const std::vector<Row>& rows);

 private:
  void one(SickMachine& machine, const Row& row);
  static FirstCause named(const SickMachine& machine, const Row& row, double within);
  static void isShown(const SickMachine& machine, const Row& row);
  static bool isCured(SickMachine& machine, const Row& row, const std::string& remedy);
  std::string table;
};

FirstCause DiagnoseMachines::named(const SickMachine& machine, const Row& row, double within) {
  harness::Result last;
  FirstCause first;
  auto isRight = [&] {
    last = machine.diagnose();
    first = firstOf(last);
    return first.check == row.check && contains(first.text, row.words);
  };
  EXPECT_TRUE(eventually(isRight, within, 1)) << last.out << last.err << machine.console();
  return first;
}

void DiagnoseMachines::isShown(const SickMachine& machine, const Row& row) {
  harness::Result shown;
  auto shows = [&] {
    shown = machine.talosctl(row.shownBy);
    return contains(shown.out + shown.err, row.shown);
  };
  EXPECT_TRUE(eventually(shows, kNamed, 1)) << row.shown << "\n" << shown.out << shown.err;
}

// Types the remedy, and waits until the machine is well without any other change. A remedy that
// only shows more is typed, too, if it is a command.
bool DiagnoseMachines::isCured(SickMachine& machine, const Row& row, const std::string& remedy) {
  bool isCommand = remedy.starts_with("talosctl ");
  if (row.cure == Cure::kUndone && !isCommand) return false;
  auto answers = row.answers == nullptr ? Answers() : row.answers(machine);
  auto line = lineOf(remedy, answers);
  SCOPED_TRACE(line);
  auto typed = machine.type(line, answers.editor);
  EXPECT_EQ(typed.status, 0) << typed.out << typed.err << machine.console();
  if (row.cure == Cure::kUndone) return false;
  return typed.status == 0 && machine.isWell(kComesUp);
}

void DiagnoseMachines::one(SickMachine& machine, const Row& row) {
  SCOPED_TRACE(row.name);
  auto began = std::chrono::steady_clock::now();
  auto seconds = [&] {
    return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(
                              std::chrono::steady_clock::now() - began)
                              .count()) +
           " s";
  };
  row.make(machine);
  auto first = named(machine, row, kNamed);
  auto namedAfter = seconds();
  isShown(machine, row);
  auto shownAfter = seconds();
  fprintf(stderr, "%s\n", machine.talosctl({"diagnose"}).out.c_str());
  bool cured = first.check == row.check && isCured(machine, row, first.remedy);
  auto well = seconds();
  if (row.restore != nullptr) row.restore(machine);
  machine.isWell(kComesUp);
  if (!cured) well = seconds();
  auto text = std::string("| ") + row.name + " | " + first.check + " | " + first.confidence +
              " | " + namedAfter + " | " + textOf(row.shownBy) + " | " + shownAfter + " | " +
              nameOf(cured ? row.cure : Cure::kUndone) + " | " + well + " |\n";
  EXPECT_EQ(cured, row.cure != Cure::kUndone) << text;
  fprintf(stderr, "%s", text.c_str());
  table += text;
}

void DiagnoseMachines::examine(SickMachine& machine, const std::vector<Row>& rows) {
  for (auto& row : rows) one(machine, row);
  fprintf(stderr,
          "| made wrong | named first | | after | shown by | after | remedy | well again |\n"
          "|---|---|---|---|---|---|---|---|\n%s",
          table.c_str());
}

// Catches: a cause of the machine that is not named, or not first; a remedy that is not a command,
// or does not make the machine well; a cause that is still named after it was mended.
TEST_F(DiagnoseMachines, NamesWhatIsBroken) {
  std::vector<Row> rows;
  for (auto theme : {rowsOfTheClock, rowsOfTheHardware, rowsOfTheKernel, rowsOfUpgrades}) {
    for (auto& row : chosen(theme())) rows.push_back(row);
  }
  if (rows.empty()) GTEST_SKIP() << "DIAGNOSE chooses none of its rows";
  Images images(folder);
  if (std::any_of(rows.begin(), rows.end(),
                  [](const Row& row) { return std::string(row.check) == "upgrade"; })) {
    for (auto version : {kGood, kOther}) images.make(version, {});
    images.make(kEnding, {"TREE=" + ending("usr/sbin/init")});
  }
  SickMachine machine(images, {});
  if (HasFailure()) return;
  examine(machine, rows);
}

// Catches: a disk without its key that counts as damaged; a remedy after which it stays closed.
TEST_F(DiagnoseMachines, NamesTheKeyOfADisk) {
  auto rows = chosen({rowOfTheKey()});
  if (rows.empty()) GTEST_SKIP() << "DIAGNOSE does not choose its row";
  Images images(folder);
  SickMachine machine(images, {.patch = kEncrypted});
  if (HasFailure()) return;
  examine(machine, rows);
}

// Catches: a line of a driver of this kernel that is not recognised.
TEST_F(DiagnoseMachines, NamesTheFirmwareOfADriver) {
  auto rows = chosen({rowOfTheFirmware()});
  if (rows.empty()) GTEST_SKIP() << "DIAGNOSE does not choose its row";
  if (!fs::exists(LoneMachine::image(kImageOfMachines))) {
    GTEST_SKIP() << "make image FLAVOUR=metal first";
  }
  Images images(folder);
  SickMachine machine(
      images,
      {.image = kImageOfMachines, .secondCard = kCardWithFirmware, .alwaysNamed = "firmware"});
  if (HasFailure()) return;
  examine(machine, rows);
}

}  // namespace
}  // namespace talos::vm
