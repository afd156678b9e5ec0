// A virtual machine that a test makes ill in one way after another: a control plane without etcd
// and Kubernetes, for whose images it has a registry without them. What diagnose finds below the
// images is an illness.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/harness/time-server.h"
#include "tests/kubernetes/first-cause.h"
#include "tests/vm/lone-machine.h"
#include "tests/vm/upgrades.h"

namespace talos::vm {

class SickMachine {
 public:
  // Addresses of this host, which the machine reaches. At the first are a right time server and the
  // registry, at the second is a time server that is two minutes ahead; no host has the third.
  static constexpr const char *kHost = "10.0.2.2", *kWrongTime = "192.0.2.7",
                              *kNoHost = "192.0.2.9";
  static constexpr int64_t kAheadSeconds = 120;

  static constexpr const char* kNetwork = "second";  // of its second card, eth1

  struct Options {
    std::string image = "../image";             // folder beside the programs
    std::string secondCard = "virtio-net-pci";  // QEMU's device
    std::string patch = "";                     // more of its config
    std::string alwaysNamed = "";               // check whose cause its hardware is
  };
  // Starts the machine, and waits until it is well. The caller is in a network that only the test
  // uses.
  SickMachine(Images& images, const Options& options);

  Images& images;

  harness::Result talosctl(std::vector<std::string> arguments) const;
  harness::Result diagnose() const;
  // Runs a command line in a shell of an operator with talosctl and the machine's talosconfig.
  // `editor` is the program that an `edit` runs.
  harness::Result type(const std::string& line, const std::string& editor) const;
  // Returns false at the deadline: nothing is wrong below the images, and the boot is over.
  bool isWell(double seconds) const;
  // Returns the path of a file with the config that the machine had when it was well.
  std::string originalConfig() const { return machine.path("original.yaml"); }
  const std::string& address() const { return machine.address; }
  std::string disk() const { return machine.path("disk"); }
  std::string file(const std::string& name) const { return machine.path(name); }
  std::string console() const;  // the end of its output

  // --- changes
  void patch(const std::string& patch) const;  // of its config, at once
  // Wipes STATE, and gives the waiting machine another config.
  void configureAnew(const std::string& config) const;
  void restoreConfig() const;
  void setCarrier(bool on) const;
  // Turns the machine off, changes its disk, and turns it on.
  void changeDisk(const std::function<void()>& change);
  // Turns the machine off, and on with a clock that is so many seconds ahead.
  void startWithClock(int64_t aheadSeconds);
  // Turns the machine off, and on with these further arguments of the kernel; without any, it
  // starts as before, by its boot loader.
  void startWithArguments(const std::string& arguments);
  // Waits until the machine answers. After a change of its hardware it may have nothing but the
  // API.
  void awaitAnswer() const;

 private:
  std::string alwaysNamed;
  harness::TimeServer right, wrong;
  LoneMachine machine;
};

}  // namespace talos::vm
