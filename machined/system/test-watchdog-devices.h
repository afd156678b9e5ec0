// A model of watchdog devices: each is a file in memory, with the timeout of its driver.
#pragma once

#include <sys/mman.h>
#include <sys/stat.h>

#include <map>
#include <string>

#include "common/base/error.h"
#include "machined/system/watchdog.h"

namespace talos::machined {

class TestWatchdogs final : public WatchdogDevices {
 public:
  struct Device {
    unsigned seconds = 30, most = 600;
    bool endless = false;
    unsigned opened = 0;
  };
  std::map<std::string, Device> devices;

  kj::AutoCloseFd open(kj::StringPtr device) override {
    auto found = devices.find(device.cStr());
    if (found == devices.end()) fail(ErrorKind::kNotFound, kj::str("there is no ", device));
    ++found->second.opened;
    int fd = memfd_create(device.cStr(), MFD_CLOEXEC);
    KJ_REQUIRE(fd >= 0);
    return kj::AutoCloseFd(fd);
  }
  kj::String deviceOf(int fd) override {  // "/memfd:NAME (deleted)"
    auto link = KernelWatchdogs().deviceOf(fd);
    std::string name = link.cStr();
    name = name.substr(name.find(':') + 1);
    return kj::str(name.substr(0, name.find(' ')).c_str());
  }
  void setTimeout(int fd, unsigned seconds) override {
    auto& device = devices[deviceOf(fd).cStr()];
    if (seconds > device.most) fail(ErrorKind::kFailedPrecondition, "refused");
    device.seconds = seconds;
  }
  unsigned timeout(int fd) override { return devices[deviceOf(fd).cStr()].seconds; }
  bool endless(kj::StringPtr device) override { return devices[device.cStr()].endless; }
};

}  // namespace talos::machined
