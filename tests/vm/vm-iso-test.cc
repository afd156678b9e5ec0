// A machine that has only our CD: it waits for a config, installs itself with it, and starts from
// its disk then, though the CD is still in its drive.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>

#include "tests/harness/process.h"

namespace talos::vm {
namespace {

using harness::contains;
using harness::eventually;
using harness::Result;
using harness::slurp;
namespace fs = std::filesystem;

constexpr double kUp = 480;  // emulated, beside whatever else runs
const std::string kOvmf = "/usr/share/OVMF/OVMF_";

// QEMU with user-mode networking, whose DHCP gives the machine its address; its port 50000 is also
// that of a loopback address.
class Machine {
 public:
  explicit Machine(bool uefi) {
    auto made = fs::temp_directory_path() / "talos-iso-XXXXXX";
    folder = mkdtemp(made.string().data());
    std::ofstream(path("disk"));
    fs::resize_file(path("disk"), 2ull << 30);
    auto number = getpid() % 64000;
    address = "127.78." + std::to_string(number / 250) + "." + std::to_string(number % 250 + 2);
    std::vector<std::string> argv = {
        "qemu-system-x86_64",
        "-nodefaults",
        "-no-user-config",
        "-nographic",
        "-M",
        "q35,sata=off",
        "-accel",
        "tcg,thread=multi",
        "-cpu",
        "max",
        "-smp",
        "1",
        "-m",
        "1024",
        "-serial",
        "file:" + path("console"),
        "-device",
        "virtio-scsi-pci",
        "-drive",
        "if=none,id=cd,media=cdrom,readonly=on,format=raw,file=" + iso(),
        "-device",
        "scsi-cd,drive=cd,bootindex=2",
        "-drive",
        "if=none,id=disk,format=raw,file=" + path("disk"),
        "-device",
        "virtio-blk-pci,drive=disk,bootindex=1",
        "-netdev",
        "user,id=net,hostfwd=tcp:" + address + ":50000-:50000",
        "-device",
        "virtio-net-pci,netdev=net,romfile=",
        "-device",
        "virtio-rng-pci"};
    if (uefi) {
      fs::copy_file(kOvmf + "VARS_4M.fd", path("vars"));
      for (auto& drive :
           {"unit=0,readonly=on,file=" + kOvmf + "CODE_4M.fd", "unit=1,file=" + path("vars")}) {
        argv.insert(argv.end(), {"-drive", "if=pflash,format=raw," + drive});
      }
    }
    qemu.emplace(argv);
  }
  ~Machine() {
    qemu.reset();
    fs::remove_all(folder);
  }
  Machine(const Machine&) = delete;

  static std::string iso() {
    return fs::absolute(fs::path(getenv("TALOSCTL")).parent_path() / "../image/talos.iso")
        .lexically_normal();
  }
  std::string path(const char* name) const { return folder + "/" + name; }
  std::string console() const { return slurp(path("console")); }
  Result talosctl(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {getenv("TALOSCTL"), "--talosconfig", path("talosconfig"),
                                         "--timeout", "20s"});
    return harness::run(arguments, 60);
  }
  Result unproven(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--insecure", "--nodes", address});
    return talosctl(arguments);
  }
  bool waits() const {
    return eventually([&] { return contains(unproven({"disks"}).out, "vda"); }, kUp, 1);
  }

  std::string address;

 private:
  std::string folder;
  std::optional<harness::Background> qemu;
};

// Catches: a CD that UEFI does not start, or that starts something that does not wait for a config.
TEST(Iso, UefiStartsItAndItWaitsForAConfig) {
  ASSERT_TRUE(fs::exists(Machine::iso())) << "make iso first";
  Machine machine(true);
  EXPECT_TRUE(machine.waits()) << machine.console();
  EXPECT_TRUE(contains(machine.console(), "talosctl apply-config --insecure"));
}

// Catches: a system from a CD that cannot install itself, or that starts from the CD for ever.
TEST(Iso, ABiosStartsItAndItInstallsItself) {
  ASSERT_TRUE(fs::exists(Machine::iso())) << "make iso first";
  Machine machine(false);
  ASSERT_TRUE(machine.waits()) << machine.console();
  auto made = machine.talosctl({"gen", "config", "iso", "https://10.0.2.15:6443", "--install-disk",
                                "/dev/vda", "--output-dir", machine.path("")});
  ASSERT_EQ(made.status, 0) << made.err;
  // Without the console of a screen: nobody looks at it.
  auto config = machine.path("controlplane.yaml");
  auto text = slurp(config);
  text = std::regex_replace(text, std::regex("( *)disk: /dev/vda.*\n"),
                            "$&$1extraKernelArgs: [console=ttyS0]\n");
  text = std::regex_replace(text, std::regex("\nmachine:\n"),
                            "$&    certSANs: [" + machine.address + "]\n");
  ASSERT_TRUE(contains(text, "extraKernelArgs: [console=ttyS0]") &&
              contains(text, "\n    certSANs: ["))
      << text;
  std::ofstream(config) << text;
  auto applied = machine.unproven({"apply-config", "--file", config});
  ASSERT_EQ(applied.status, 0) << applied.out << applied.err << machine.console();
  auto cmdline = [&] {
    return machine.talosctl(
        {"-e", machine.address, "-n", machine.address, "read", "/proc/cmdline"});
  };
  EXPECT_TRUE(eventually([&] { return contains(cmdline().out, "talos.slot=A"); }, kUp, 1))
      << cmdline().out << cmdline().err << machine.console();
}

}  // namespace
}  // namespace talos::vm
