// `talosctl diagnose` on an emulated machine that is made ill in one way after another, as
// tests/kubernetes/diagnose-test.cc does with nodes in containers, for the checks of what only a
// machine has: a clock, disks, cards and a kernel. Emulated, this takes a quarter of an
// hour: it runs with DIAGNOSE=all, or with the names of some rows.
#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "tests/cuts/image.h"
#include "tests/harness/cluster.h"
#include "tests/harness/registry.h"
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

// Keeps the first bytes of EPHEMERAL, and replaces them.
void damageEphemeral(SickMachine& machine) {
  machine.changeDisk([&] {
    auto part = cuts::part(machine.disk(), "EPHEMERAL");
    constexpr size_t kSuperblock = 4096;
    auto kept = cuts::bytesOf(machine.disk(), part.offset, kSuperblock);
    cuts::overwrite(machine.disk(), part.offset, std::string(kSuperblock, '\xff'));
    std::ofstream(machine.file("superblock"), std::ios::binary) << kept;
  });
}

void repairEphemeral(SickMachine& machine) {
  machine.changeDisk([&] {
    cuts::overwrite(machine.disk(), cuts::part(machine.disk(), "EPHEMERAL").offset,
                    harness::slurp(machine.file("superblock")));
  });
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
       nullptr, repairEphemeral},
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

// --- the examination

class DiagnoseMachines : public harness::RegistryHost {
 protected:
  ~DiagnoseMachines() noexcept override {}
  void SetUp() override {
    if (getenv("DIAGNOSE") == nullptr || *getenv("DIAGNOSE") == '\0') {
      GTEST_SKIP() << "an emulated machine, a quarter of an hour: DIAGNOSE=all";
    }
    RegistryHost::SetUp();
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
  return typed.status == 0 && machine.isWell(harness::kBoots);
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
  machine.isWell(harness::kBoots);
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
  for (auto theme : {rowsOfTheClock, rowsOfTheHardware, rowsOfTheKernel}) {
    for (auto& row : chosen(theme())) rows.push_back(row);
  }
  if (rows.empty()) GTEST_SKIP() << "DIAGNOSE chooses none of its rows";
  SickMachine machine;
  if (HasFailure()) return;
  examine(machine, rows);
}

}  // namespace
}  // namespace talos::vm
