#include "machined/system/pci-drivers.h"

#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/lines.h"
#include "common/kernel/sysfs-attributes.h"
#include "machined/system/setting-files.h"

namespace talos::machined {
namespace {

class KernelSysfs final : public SysfsWriter {
 public:
  explicit KernelSysfs(kj::StringPtr sys) : sys(kj::str(sys)) {}
  void write(kj::StringPtr path, kj::StringPtr value) override {
    SettingFiles(sys, Links::kBeneath, "there is no such file").write(path, value);
  }

 private:
  kj::String sys;
};

bool pathExists(kj::StringPtr path) {
  return access(path.cStr(), F_OK) == 0;
}

}  // namespace

kj::Vector<WantedDriver> wantedDrivers(config::Machine::Reader machine) {
  kj::Vector<WantedDriver> result;
  for (auto driver : machine.getPciDrivers()) {
    result.add(WantedDriver{kj::str(driver.getDevice()), kj::str(driver.getDriver())});
  }
  return result;
}

kj::Own<SysfsWriter> sysfsWriter(kj::StringPtr sys) {
  return kj::heap<KernelSysfs>(sys);
}

PciDrivers::Problems PciDrivers::apply(kj::ArrayPtr<const WantedDriver> wanted) {
  std::lock_guard lock(mutex);
  Problems result;
  kj::Vector<kj::String> problems;
  if (scope != KernelScope::kAll) {
    if (wanted.size() > 0) {
      problems.add(
          kj::str("PCIDriverRebindConfig: no driver is bound, because this node is a container and "
                  "the kernel is its host's"));
    }
    result.settings = last.report(kj::mv(problems), false);
    return result;
  }
  auto before = readNoted(), noted = before;
  std::set<std::string> kept;
  for (auto& w : wanted) kept.emplace(w.device.cStr());
  auto attempt = [&](kj::StringPtr device, kj::StringPtr what, auto work) {
    auto failed = kj::runCatchingExceptions(work);
    KJ_IF_MAYBE (e, failed) {
      problems.add(
          kj::str("PCIDriverRebindConfig[", device, "]: cannot ", what, ": ", messageOf(*e)));
    }
    return failed == nullptr;
  };
  for (auto& entry : before) {
    auto& device = entry.first;
    if (kept.count(device) > 0) continue;
    attempt(device.c_str(), "restore the default driver", [&] {
      restore(device.c_str(), entry.second.c_str());
      noted.erase(device);
      writeNoted(noted);
    });
  }
  for (auto& w : wanted) {
    auto what = kj::str("bind the driver ", w.driver);
    bool bound = attempt(w.device, what, [&] { bind(w, noted); });
    if (!bound || pathExists(kj::str(folderOf(w.device), "/iommu_group"))) continue;
    if (!warned.insert(w.device.cStr()).second) continue;
    result.warnings.add(kj::str("the device ", w.device,
                                " has no IOMMU group, so its driver and programs that use the "
                                "device can reach all memory"));
  }
  result.settings = last.report(kj::mv(problems), true);
  return result;
}

kj::String PciDrivers::folderOf(kj::StringPtr device) const {
  return kj::str(sys, "/bus/pci/devices/", device);
}

kj::String PciDrivers::driverOf(kj::StringPtr device) const {
  return nameOfTarget(kj::str(folderOf(device), "/driver"));
}

PciDrivers::Noted PciDrivers::readNoted() const {
  Noted noted;
  auto text = tryReadFile(notes).orDefault(nullptr);
  for (auto line : Lines(text)) {
    std::string entry(line.begin(), line.size());
    auto blank = kj::min(entry.find(' '), entry.size());
    noted.emplace(entry.substr(0, blank), entry.substr(kj::min(blank + 1, entry.size())));
  }
  return noted;
}

void PciDrivers::writeNoted(const Noted& noted) const {
  std::string text;
  for (auto& [device, driver] : noted) text += device + " " + driver + "\n";
  writeFileAtomically(notes, kj::arrayPtr(text.data(), text.size()), 0600);
}

void PciDrivers::bind(const WantedDriver& wanted, Noted& noted) {
  auto folder = folderOf(wanted.device);
  if (!pathExists(folder)) fail(ErrorKind::kNotFound, "there is no such device");
  if (!pathExists(kj::str(sys, "/bus/pci/drivers/", wanted.driver))) {
    fail(ErrorKind::kNotFound,
         "the driver is not loaded; name its module in machine.kernel.modules");
  }
  auto override = readAttributeLine(folder, "driver_override").orDefault(nullptr);
  auto present = driverOf(wanted.device);
  if (override == wanted.driver && present == wanted.driver) return;
  if (noted.emplace(wanted.device.cStr(), present.cStr()).second) writeNoted(noted);
  writer->write(kj::str("bus/pci/devices/", wanted.device, "/driver_override"), wanted.driver);
  if (present != wanted.driver) probe(wanted.device);
  auto now = driverOf(wanted.device);
  if (now == wanted.driver) return;
  fail(ErrorKind::kFailedPrecondition,
       now.size() == 0 ? kj::str("the driver refused the device; talosctl dmesg may say why")
                       : kj::str("it still has the driver ", now));
}

void PciDrivers::restore(kj::StringPtr device, kj::StringPtr driver) {
  // A device that was unplugged has no driver to restore.
  if (!pathExists(folderOf(device))) return;
  writer->write(kj::str("bus/pci/devices/", device, "/driver_override"), "");
  if (driver.size() == 0 || driverOf(device) != driver) probe(device);
}

void PciDrivers::probe(kj::StringPtr device) {
  auto present = driverOf(device);
  if (present.size() > 0) {
    writer->write(kj::str("bus/pci/devices/", device, "/driver/unbind"), device);
  }
  writer->write("bus/pci/drivers_probe", device);
}

}  // namespace talos::machined
