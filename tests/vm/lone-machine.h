// A virtual machine outside of any cluster: QEMU with a separate network, whose DHCP gives the
// machine its address. It starts from its drives, as a bought machine does; its port 50000 is also
// that of a loopback address of the host.
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
    bool uefi = false;       // always, for arm64
    std::string cd = "";     // image in its CD drive; empty if the machine has no drive
    std::string stick = "";  // image on USB, from which the machine starts
    std::string disk = "";   // image, which the machine takes over; empty: a new disk of 2 GiB
    std::vector<std::string> controller = {"virtio-blk-pci"};  // its devices; the last has the disk
    std::string card = "virtio-net-pci";
    std::string network = "";  // further options of QEMU's user network
    bool networkBoot = false;  // from its card first, by the card's ROM
    std::vector<std::string> more = {};
    // Is called before the start, for things that need the machine's configs and must exist by
    // then.
    std::function<void(LoneMachine& machine, Hardware& hardware)> beforeItStarts = nullptr;
  };
  explicit LoneMachine(Hardware hardware);
  ~LoneMachine();
  LoneMachine(const LoneMachine&) = delete;

  // Returns the path of an image that `make image` or `make iso` made.
  static std::string image(const std::string& name);

  std::string path(const std::string& name) const { return folder + "/" + name; }
  std::string console() const { return harness::slurp(path("console")); }
  harness::Result talosctl(std::vector<std::string> arguments) const;
  harness::Result unproven(std::vector<std::string> arguments) const;  // --insecure
  // Runs talosctl with the talosconfig of generate().
  harness::Result at(std::vector<std::string> arguments) const;
  // Generates the configs of a cluster in the machine's folder; returns the config of a
  // control-plane node, whose certificate has the address by which this host calls the machine.
  std::string generate(const std::string& installDisk = "/dev/vda") const;

  // Makes a disk for a machine from the image in this folder beside the programs, with further
  // arguments of the kernel.
  static std::string writtenDisk(const std::string& image,
                                 const std::vector<std::string>& arguments = {});
  // Gives a waiting machine a config, and waits until its disk is mounted; each within `seconds`.
  // `flags`: more of apply-config.
  void configure(const std::string& config, double seconds = 480,
                 const std::vector<std::string>& flags = {}) const;

  // Makes a disc for the machine's drive, with one file; returns the path of its image.
  std::string disc(const std::string& label, const std::string& name,
                   const std::string& content) const;
  // Returns the exit status of QEMU when the machine turns itself off; -1 at the deadline.
  int turnsOff(double deadlineSeconds) { return qemu->finish(deadlineSeconds); }
  // Turns the machine off, as a power cut does.
  void turnOff() { qemu.reset(); }
  // Turns a machine on that is off, after a change of its hardware.
  void turnOn(const std::function<void(Hardware& hardware)>& change);
  // Turns the machine off, and on again with its disk alone.
  void startFromDisk();

  std::string address;

 private:
  Hardware hardware;
  std::string folder;
  std::optional<harness::Background> qemu;

  std::vector<std::string> command() const;
};

}  // namespace talos::vm
