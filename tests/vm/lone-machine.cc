#include "tests/vm/lone-machine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <regex>

namespace talos::vm {

namespace fs = std::filesystem;
using harness::Result;
using harness::slurp;

namespace {

struct Emulator {
  std::vector<std::string> command;
  std::string firmware, variables;
};
const Emulator kAmd64 = {{"qemu-system-x86_64", "-M", "q35,sata=off", "-cpu", "max"},
                         "/usr/share/OVMF/OVMF_CODE_4M.fd",
                         "/usr/share/OVMF/OVMF_VARS_4M.fd"};
// From rootfs/sysroot.sh. This processor has no authentication of pointers, which takes an emulator
// most of its time.
const std::string kTools = "/build/root-arm64/opt/emulators/usr/";
const Emulator kArm64 = {{kTools + "bin/qemu-system-aarch64", "-M", "virt", "-cpu", "neoverse-n1"},
                         kTools + "share/AAVMF/AAVMF_CODE.no-secboot.fd",
                         kTools + "share/AAVMF/AAVMF_VARS.fd"};
const Emulator& emulatorOf(const LoneMachine::Hardware& hardware) {
  return hardware.architecture == LoneMachine::Architecture::kArm64 ? kArm64 : kAmd64;
}

constexpr uintmax_t kNewDisk = 2ull << 30;
std::atomic<int> machines;

// Returns an address that only this process uses: two tests run side by side.
std::string freeAddress() {
  auto number = (getpid() * 8 + machines++ % 8) % 64000;
  return "127.78." + std::to_string(number / 250) + "." + std::to_string(number % 250 + 2);
}

}  // namespace

LoneMachine::LoneMachine(Hardware h) : address(freeAddress()), hardware(std::move(h)) {
  auto made = fs::temp_directory_path() / "talos-machine-XXXXXX";
  folder = mkdtemp(made.string().data());
  if (hardware.disk.empty()) {
    std::ofstream(path("disk"));
    fs::resize_file(path("disk"), kNewDisk);
  } else {
    fs::rename(hardware.disk, path("disk"));
  }
  if (hardware.beforeItStarts) hardware.beforeItStarts(*this, hardware);
  qemu.emplace(command());
}

LoneMachine::~LoneMachine() {
  qemu.reset();
  fs::remove_all(folder);
}

std::string LoneMachine::disc(const std::string& label, const std::string& name,
                              const std::string& content) const {
  fs::create_directory(path("disc"));
  std::ofstream(path("disc/") + name) << content;
  auto made = harness::run(
      {"xorriso", "-as", "mkisofs", "-V", label, "-r", "-J", "-o", path("disc.iso"), path("disc")});
  EXPECT_EQ(made.status, 0) << made.err;
  return path("disc.iso");
}

void LoneMachine::turnOn(const std::function<void(Hardware& hardware)>& change) {
  change(hardware);
  qemu.emplace(command());
}

void LoneMachine::startFromDisk() {
  turnOff();
  turnOn([](Hardware& changed) {
    changed.cd.clear();
    changed.stick.clear();
    changed.networkBoot = false;
  });
}

std::vector<std::string> LoneMachine::command() const {
  auto& emulator = emulatorOf(hardware);
  std::vector<std::string> argv = emulator.command;
  // A card on USB has no ROM.
  std::string card = hardware.card + ",netdev=net";
  if (hardware.networkBoot)
    card += ",bootindex=0";
  else if (!hardware.card.starts_with("usb-"))
    card += ",romfile=";
  argv.insert(argv.end(),
              {"-nodefaults", "-no-user-config", "-nographic", "-accel", "tcg,thread=multi", "-smp",
               "1", "-m", "1024", "-serial", "file:" + path("console"), "-drive",
               "if=none,id=disk,format=raw,file=" + path("disk"), "-netdev",
               "user,id=net,hostfwd=tcp:" + address + ":50000-:50000" +
                   (hardware.network.empty() ? "" : "," + hardware.network),
               "-device", card, "-device", "virtio-rng-pci"});
  for (auto& device : hardware.controller) {
    bool last = &device == &hardware.controller.back();
    // QEMU gives an SD card no place in the boot order; the card comes last.
    std::string order = device == "sd-card" ? "" : ",bootindex=1";
    argv.insert(argv.end(), {"-device", device + (last ? ",drive=disk" + order : "")});
  }
  if (!hardware.stick.empty()) {
    argv.insert(argv.end(), {"-device", "qemu-xhci,id=ports", "-drive",
                             "if=none,id=stick,readonly=on,format=raw,file=" + hardware.stick,
                             "-device", "usb-storage,bus=ports.0,drive=stick,bootindex=0"});
  }
  if (!hardware.cd.empty()) {
    argv.insert(argv.end(), {"-device", "virtio-scsi-pci,id=drives", "-drive",
                             "if=none,id=cd,media=cdrom,readonly=on,format=raw,file=" + hardware.cd,
                             "-device", "scsi-cd,bus=drives.0,drive=cd,bootindex=2"});
  }
  if (hardware.uefi || hardware.architecture == Architecture::kArm64) {
    fs::copy_file(emulator.variables, path("vars"), fs::copy_options::skip_existing);
    for (auto& drive :
         {"unit=0,readonly=on,file=" + emulator.firmware, "unit=1,file=" + path("vars")}) {
      argv.insert(argv.end(), {"-drive", "if=pflash,format=raw," + drive});
    }
  }
  argv.insert(argv.end(), hardware.more.begin(), hardware.more.end());
  return argv;
}

std::string LoneMachine::image(const std::string& name) {
  return fs::absolute(fs::path(getenv("TALOSCTL")).parent_path() / "../image" / name)
      .lexically_normal();
}

std::string LoneMachine::writtenDisk(const std::string& image,
                                     const std::vector<std::string>& arguments) {
  auto programs = fs::path(getenv("TALOSCTL")).parent_path();
  auto folder = (programs / image).string();
  auto disk = (fs::temp_directory_path() / ("talos-disk-" + std::to_string(machines++))).string();
  std::vector<std::string> command = {
      programs / "disk-image", "metal", "2048", folder + "/parts/tree/usr/install",
      folder + "/rootfs.sqsh", disk};
  command.insert(command.end(), arguments.begin(), arguments.end());
  auto made = harness::run(command, 300);
  EXPECT_EQ(made.status, 0) << made.err;
  return disk;
}

void LoneMachine::configure(const std::string& config, double seconds,
                            const std::vector<std::string>& flags) const {
  ASSERT_TRUE(harness::eventually(
      [&] { return harness::contains(unproven({"disks"}).out, "2.1 GB"); }, seconds, 1))
      << console().substr(0, 6000);
  std::ofstream(path("config.yaml")) << config;
  std::vector<std::string> command = {"apply-config", "--file", path("config.yaml")};
  command.insert(command.end(), flags.begin(), flags.end());
  auto applied = unproven(command);
  ASSERT_EQ(applied.status, 0) << applied.out << applied.err;
  ASSERT_TRUE(harness::eventually(
      [&] { return harness::contains(at({"mounts"}).out, "/system/state"); }, seconds, 1))
      << console();
  // The config is saved some seconds later, and a machine that is ended before has no config.
  ASSERT_TRUE(harness::eventually(
      [&] { return harness::contains(console(), "task saveConfig (1/1): done"); }, seconds, 1))
      << console();
}

Result LoneMachine::talosctl(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(),
                   {getenv("TALOSCTL"), "--talosconfig", path("talosconfig"), "--timeout", "20s"});
  return harness::run(arguments, 60);
}

Result LoneMachine::unproven(std::vector<std::string> arguments) const {
  arguments.insert(arguments.end(), {"--insecure", "--nodes", address});
  return talosctl(arguments);
}

Result LoneMachine::at(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), {"-e", address, "-n", address});
  return talosctl(arguments);
}

std::string LoneMachine::generate(const std::string& installDisk) const {
  auto made = talosctl({"gen", "config", "lone", "https://10.0.2.15:6443", "--install-disk",
                        installDisk, "--output-dir", path("")});
  EXPECT_EQ(made.status, 0) << made.err;
  auto text = slurp(path("controlplane.yaml"));
  text =
      std::regex_replace(text, std::regex("\nmachine:\n"), "$&    certSANs: [" + address + "]\n");
  EXPECT_TRUE(harness::contains(text, "\n    certSANs: [")) << text;
  return text;
}

}  // namespace talos::vm
