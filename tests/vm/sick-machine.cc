#include "tests/vm/sick-machine.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <time.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/vm/qemu-control.h"

namespace talos::vm {
namespace {

using harness::contains;
using harness::eventually;
using harness::Result;
namespace fs = std::filesystem;

constexpr double kTyped = 2 * kComesUp;  // s: an upgrade waits for two boots
constexpr in_addr_t kWrongTimeAddress = 192u << 24 | 2 << 8 | 7;

const std::string kConfig = R"(
machine:
  time: {servers: [10.0.2.2]}
  registries: {mirrors: {"*": {endpoints: ["http://10.0.2.2:6000"]}}}
  network:
    interfaces:
      - {interface: eth0, dhcp: true}
      - {interface: eth1, addresses: [10.7.0.9/24]}
)";
// The arguments of a machine that is started without a boot loader (talosctl cluster create).
const std::string kArguments =
    "console=ttyS0 quiet panic=1 no_timer_check cryptomgr.notests slab_nomerge init_on_alloc=1";

// Layers of which a machine that is well has no cause.
const std::set<std::string> kOfTheMachine = {"machine", "link", "address", "route",
                                             "name",    "time", "trust"};

LoneMachine::Hardware hardwareOf(const SickMachine::Options& options) {
  LoneMachine::Hardware hardware{.disk = LoneMachine::writtenDisk(options.image)};
  hardware.beforeItStarts = [&options](LoneMachine& self, LoneMachine::Hardware& made) {
    made.more = {
        "-netdev", std::string("user,restrict=on,net=10.7.0.0/24,id=") + SickMachine::kNetwork,
        "-device", options.secondCard + ",romfile=,netdev=" + SickMachine::kNetwork,
        "-qmp",    "unix:" + self.path("monitor") + ",server=on,wait=off"};
  };
  return hardware;
}

std::string endOf(const std::string& text) {
  constexpr size_t kShown = 3000;
  return text.size() < kShown ? text : text.substr(text.size() - kShown);
}

// Removes an option with its value.
void remove(std::vector<std::string>& words, const std::string& option) {
  auto at = std::find(words.begin(), words.end(), option);
  if (at != words.end()) words.erase(at, at + 2);
}

std::string timeAfter(int64_t seconds) {
  auto now = time(nullptr) + seconds;
  struct tm utc;
  char text[32];
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", gmtime_r(&now, &utc));
  return text;
}

}  // namespace

SickMachine::SickMachine(Images& images, const Options& options)
    : images(images),
      alwaysNamed(options.alwaysNamed),
      right(0, INADDR_LOOPBACK),
      wrong(kAheadSeconds,
            [] {
              auto added = harness::run({"ip", "address", "add", "192.0.2.7/32", "dev", "lo"});
              EXPECT_EQ(added.status, 0) << added.err;
              return kWrongTimeAddress;
            }()),
      machine(hardwareOf(options)) {
  std::vector<std::string> flags = {"--config-patch", kConfig};
  if (!options.patch.empty()) flags.insert(flags.end(), {"--config-patch", options.patch});
  machine.configure(machine.generate(), kComesUp, flags);
  auto endpoint = machine.talosctl({"config", "endpoint", machine.address});
  EXPECT_EQ(endpoint.status, 0) << endpoint.err;
  EXPECT_TRUE(isWell(kComesUp)) << console();
  std::ofstream(originalConfig()) << talosctl({"read", "/system/state/config.yaml"}).out;
}

Result SickMachine::talosctl(std::vector<std::string> arguments) const {
  return machine.at(std::move(arguments));
}

Result SickMachine::diagnose() const {
  return talosctl({"diagnose", "-o", "json"});
}

Result SickMachine::type(const std::string& line, const std::string& editor) const {
  auto programs = machine.path("programs");
  fs::create_directories(programs);
  fs::remove(programs + "/talosctl");
  fs::create_symlink(fs::absolute(harness::talosctlPath()), programs + "/talosctl");
  auto path = getenv("PATH");
  return harness::run(
      {"env", "PATH=" + programs + ":" + (path == nullptr ? "/usr/bin:/bin" : path),
       "TALOSCONFIG=" + machine.path("talosconfig"), "TALOS_EDITOR=" + editor, "sh", "-c", line},
      kTyped);
}

bool SickMachine::isWell(double seconds) const {
  Result last;
  bool well = eventually(
      [&] {
        last = diagnose();
        auto first = firstOf(last);
        bool ill = kOfTheMachine.count(first.layer) > 0 && first.check != alwaysNamed;
        // Without an answer there is no diagnosis.
        return !last.out.empty() && !ill &&
               contains(talosctl({"logs", "machined"}).out, "sequence boot: done");
      },
      seconds, 1);
  EXPECT_TRUE(well) << last.out << last.err;
  return well;
}

std::string SickMachine::console() const {
  return endOf(machine.console());
}

void SickMachine::awaitAnswer() const {
  Result last;
  auto answers = [&] {
    last = talosctl({"version"});
    return last.status == 0;
  };
  EXPECT_TRUE(eventually(answers, kComesUp, 1)) << last.err << console();
}

void SickMachine::patch(const std::string& patch) const {
  // Otherwise the illness ends by itself.
  auto result = talosctl({"patch", "mc", "--mode=no-reboot", "--no-trial", "-p", patch});
  EXPECT_EQ(result.status, 0) << patch << "\n" << result.out << result.err;
}

void SickMachine::configureAnew(const std::string& config) const {
  auto reset = type(
      "talosctl -n " + address() + " reset --graceful=false --reboot --system-labels-to-wipe=STATE",
      "");
  EXPECT_EQ(reset.status, 0) << reset.out << reset.err << console();
  machine.configure(config, kComesUp);
}

// A boot that has not ended yet refuses the config.
void SickMachine::restoreConfig() const {
  Result last;
  auto isApplied = [&] {
    last = talosctl({"apply-config", "--mode=no-reboot", "-f", originalConfig()});
    return last.status == 0;
  };
  EXPECT_TRUE(eventually(isApplied, kComesUp, 1)) << last.out << last.err << console();
}

void SickMachine::setCarrier(bool on) const {
  QemuControl(machine.path("monitor"))
      .command("set_link", std::string(R"({"name": ")") + kNetwork + R"(", "up": )" +
                               (on ? "true}" : "false}"));
}

void SickMachine::changeDisk(const std::function<void()>& change) {
  machine.turnOff();
  change();
  machine.turnOn([](LoneMachine::Hardware&) {});
  awaitAnswer();
}

void SickMachine::startWithClock(int64_t aheadSeconds) {
  machine.turnOff();
  machine.turnOn([&](LoneMachine::Hardware& changed) {
    remove(changed.more, "-rtc");
    if (aheadSeconds == 0) return;
    changed.more.insert(changed.more.end(), {"-rtc", "base=" + timeAfter(aheadSeconds)});
  });
  awaitAnswer();
}

void SickMachine::startWithArguments(const std::string& arguments) {
  machine.turnOff();
  machine.turnOn([&](LoneMachine::Hardware& changed) {
    for (auto option : {"-kernel", "-initrd", "-append"}) remove(changed.more, option);
    if (arguments.empty()) return;
    changed.more.insert(changed.more.end(),
                        {"-kernel", LoneMachine::image("vmlinux"), "-initrd",
                         LoneMachine::image("initramfs"), "-append", kArguments + " " + arguments});
  });
  awaitAnswer();
}

}  // namespace talos::vm
