// A virtual machine that no cluster has: QEMU with a network of its own, whose DHCP gives the
// machine its address. It starts from what its drives hold, as a bought machine does; its port
// 50000 is also that of a loopback address of the host.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/harness/process.h"

namespace talos::vm {

class LoneMachine {
 public:
  enum class Architecture { kAmd64, kArm64 };
  struct Hardware {
    Architecture architecture = Architecture::kAmd64;
    bool uefi = false;       // always, of arm64
    std::string cd = "";     // an image in its drive; empty: it has none
    std::string stick = "";  // the same on USB, from which the machine starts
    std::string disk = "";   // an image, which the machine takes over; empty: a new disk of 2 GiB
    std::vector<std::string> controller = {"virtio-blk-pci"};  // its devices; the last has the disk
    std::string card = "virtio-net-pci";
    std::string network = "";  // further options of QEMU's user network
    bool networkBoot = false;  // from its card first, by the ROM on that
    std::vector<std::string> more = {};
    // For what needs the machine's configs and has to be there when it starts.
    std::function<void(LoneMachine& machine, Hardware& hardware)> beforeItStarts = nullptr;
  };
  explicit LoneMachine(Hardware hardware);
  ~LoneMachine();
  LoneMachine(const LoneMachine&) = delete;

  // Of what `make image` and `make iso` made.
  static std::string image(const std::string& name);

  std::string path(const std::string& name) const { return folder + "/" + name; }
  std::string console() const { return harness::slurp(path("console")); }
  harness::Result talosctl(std::vector<std::string> arguments) const;
  harness::Result unproven(std::vector<std::string> arguments) const;  // --insecure
  // With the talosconfig of generate().
  harness::Result at(std::vector<std::string> arguments) const;
  // Generates the configs of a cluster in the machine's folder; returns that of a control plane, in
  // whose certificate is the address by which this host calls the machine.
  std::string generate(const std::string& installDisk = "/dev/vda") const;

  // A disk for a machine, made of the image in this folder beside the programs, with further
  // arguments of the kernel.
  static std::string writtenDisk(const std::string& image,
                                 const std::vector<std::string>& arguments = {});
  // Gives a waiting machine a config, and waits until its disk for it is mounted; each within
  // `seconds`.
  void configure(const std::string& config, double seconds = 480) const;

  // A disc for its drive, with one file; returns the path of its image.
  std::string disc(const std::string& label, const std::string& name,
                   const std::string& content) const;
  // Its exit status when it turns itself off; -1 at the deadline.
  int turnsOff(double deadlineSeconds) { return qemu->finish(deadlineSeconds); }
  // Off, and on again with its disk alone.
  void startFromDisk();

  std::string address;

 private:
  Hardware hardware;
  std::string folder;
  std::optional<harness::Background> qemu;

  std::vector<std::string> command() const;
};

}  // namespace talos::vm
