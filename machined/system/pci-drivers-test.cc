#include "machined/system/pci-drivers.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <map>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/folder.h"
#include "common/kernel/sysfs-attributes.h"
#include "machined/system/setting-files.h"
#include "machined/system/test-system-tree.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Files and links of /sys/bus/pci, which change as the kernel changes them: a write to unbind
// removes the link of a device to its driver, a write to drivers_probe makes one.
class PciModel final : public SysfsWriter {
 public:
  TestSystemTree& tree;
  std::map<std::string, std::string> defaults;  // driver of a device without an override
  std::set<std::string> refusing;               // drivers that refuse each device
  std::vector<std::string> writes;
  kj::Own<SysfsWriter> files;

  explicit PciModel(TestSystemTree& tree) : tree(tree), files(sysfsWriter(tree.path("/sys"))) {
    makeDirectories(tree.path("/sys/bus/pci/devices"));
    tree.put("/sys/bus/pci/drivers_probe", "");
  }
  void driver(kj::StringPtr name) {
    makeDirectories(tree.path(kj::str("/sys/bus/pci/drivers/", name)));
    tree.put(kj::str("/sys/bus/pci/drivers/", name, "/unbind"), "");
  }
  void device(kj::StringPtr id, kj::StringPtr driver, bool iommu = true) {
    auto folder = kj::str("/sys/devices/pci0000:00/", id);
    makeDirectories(tree.path(folder));
    tree.put(kj::str(folder, "/driver_override"), "(null)\n");
    tree.link(kj::str("../../../devices/pci0000:00/", id), kj::str("/sys/bus/pci/devices/", id));
    if (iommu) makeDirectories(tree.path(kj::str(folder, "/iommu_group")));
    defaults[id.cStr()] = driver.cStr();
    bind(id, driver);
  }
  std::string driverOf(kj::StringPtr id) {
    return nameOfTarget(tree.path(kj::str("/sys/bus/pci/devices/", id, "/driver"))).cStr();
  }

  void write(kj::StringPtr path, kj::StringPtr value) override {
    writes.push_back(std::string(path.cStr()) + "=" + value.cStr());
    files->write(path, value);
    if (path.endsWith("/unbind")) {
      unlink(tree.path(kj::str("/sys/bus/pci/devices/", value, "/driver")).cStr());
    } else if (path.endsWith("/driver_override")) {
      // The kernel's file has no rest of a longer value.
      tree.put(kj::str("/sys/", path), value.size() == 0 ? kj::str("(null)\n") : lineOf(value));
    } else if (path == "bus/pci/drivers_probe") {
      auto file = kj::str("/sys/bus/pci/devices/", value, "/driver_override");
      auto override = tree.get(file);
      override.pop_back();
      bind(value, override == "(null)" ? defaults[value.cStr()].c_str() : override.c_str());
    }
  }

 private:
  void bind(kj::StringPtr id, kj::StringPtr driver) {
    if (driver.size() == 0 || refusing.count(driver.cStr()) > 0) return;
    tree.link(kj::str("../../../bus/pci/drivers/", driver),
              kj::str("/sys/bus/pci/devices/", id, "/driver"));
  }
};

class PciDriversTest : public testing::Test {
 public:
  ~PciDriversTest() noexcept override {}

 protected:
  TestSystemTree tree;
  PciModel* model = nullptr;
  kj::Own<PciDrivers> drivers;
  std::vector<std::string> warnings;

  PciDriversTest() {
    restart();
    for (auto name : {"e1000e", "vfio-pci"}) model->driver(name);
    model->device("0000:04:00.0", "e1000e");
    model->writes.clear();
  }
  // Starts the brain again; the kernel's files stay.
  void restart(KernelScope scope = KernelScope::kAll) {
    auto fresh = kj::heap<PciModel>(tree);
    if (model != nullptr) {
      fresh->defaults = model->defaults;
      fresh->refusing = model->refusing;
    }
    model = fresh.get();
    drivers =
        kj::heap<PciDrivers>(tree.path("/sys"), tree.path("/var/drivers"), scope, kj::mv(fresh));
  }
  std::vector<std::string> apply(
      std::initializer_list<std::pair<kj::StringPtr, kj::StringPtr>> wanted) {
    kj::Vector<WantedDriver> list;
    for (auto& [device, driver] : wanted) list.add(WantedDriver{kj::str(device), kj::str(driver)});
    auto result = drivers->apply(list);
    warnings.clear();
    for (auto& warning : result.warnings) warnings.push_back(warning.cStr());
    std::vector<std::string> problems;
    for (auto& problem : result.settings.list) problems.push_back(problem.cStr());
    EXPECT_EQ(!problems.empty(), result.settings.retry);
    return problems;
  }
};

// Catches: a probe before the override, which the old driver wins; a device that is bound again at
// each change of another key, under its user.
TEST_F(PciDriversTest, WantedDriverIsBoundOnce) {
  EXPECT_THAT(apply({{"0000:04:00.0", "vfio-pci"}}), IsEmpty());
  EXPECT_EQ("vfio-pci", model->driverOf("0000:04:00.0"));
  EXPECT_THAT(model->writes, ElementsAre("bus/pci/devices/0000:04:00.0/driver_override=vfio-pci",
                                         "bus/pci/devices/0000:04:00.0/driver/unbind=0000:04:00.0",
                                         "bus/pci/drivers_probe=0000:04:00.0"));
  EXPECT_THAT(warnings, IsEmpty());
  model->writes.clear();
  EXPECT_THAT(apply({{"0000:04:00.0", "vfio-pci"}}), IsEmpty());
  EXPECT_THAT(model->writes, IsEmpty());
}

// Catches: an unbind of a device that has no driver, which fails.
TEST_F(PciDriversTest, DeviceWithoutADriverIsNotUnbound) {
  model->device("0000:05:00.0", "");
  EXPECT_THAT(apply({{"0000:05:00.0", "vfio-pci"}}), IsEmpty());
  EXPECT_EQ("vfio-pci", model->driverOf("0000:05:00.0"));
}

// Catches: an override that stays after its document; a brain that forgets in a crash what it has
// to restore.
TEST_F(PciDriversTest, RemovedDeviceGetsItsDefaultDriverAlsoAfterACrash) {
  apply({{"0000:04:00.0", "vfio-pci"}});
  restart();
  EXPECT_THAT(apply({}), IsEmpty());
  EXPECT_EQ("e1000e", model->driverOf("0000:04:00.0"));
  EXPECT_EQ("(null)\n", tree.get("/sys/bus/pci/devices/0000:04:00.0/driver_override"));
  model->writes.clear();
  EXPECT_THAT(apply({}), IsEmpty());
  EXPECT_THAT(model->writes, IsEmpty()) << "another program may set the override";
}

// Catches: a device that loses the driver that works because the wanted one is not loaded; a first
// failure that stops the others.
TEST_F(PciDriversTest, DeviceKeepsItsDriverUntilTheOtherIsLoaded) {
  auto problems = apply({{"0000:09:00.0", "vfio-pci"}, {"0000:04:00.0", "nvme"}});
  EXPECT_THAT(problems,
              ElementsAre("PCIDriverRebindConfig[0000:09:00.0]: cannot bind the driver vfio-pci: "
                          "there is no such device",
                          HasSubstr("[0000:04:00.0]: cannot bind the driver nvme: the driver is "
                                    "not loaded; name its module")));
  EXPECT_EQ("e1000e", model->driverOf("0000:04:00.0"));
  model->driver("nvme");
  EXPECT_THAT(apply({{"0000:04:00.0", "nvme"}}), IsEmpty());
  EXPECT_EQ("nvme", model->driverOf("0000:04:00.0"));
}

// Catches: a disk in use that is unbound because a document is removed that never had an effect.
TEST_F(PciDriversTest, RemovedDeviceThatWasNeverBoundIsNotTouched) {
  EXPECT_EQ(1u, apply({{"0000:04:00.0", "nvme"}}).size());
  restart();
  EXPECT_THAT(apply({}), IsEmpty());
  EXPECT_THAT(model->writes, IsEmpty());
  EXPECT_EQ("e1000e", model->driverOf("0000:04:00.0"));
}

// Catches: a device that is unbound although its document named the driver that it had anyway.
TEST_F(PciDriversTest, RemovedDeviceThatHadTheDriverBeforeIsNotUnbound) {
  EXPECT_THAT(apply({{"0000:04:00.0", "e1000e"}}), IsEmpty());
  model->writes.clear();
  EXPECT_THAT(apply({}), IsEmpty());
  EXPECT_THAT(model->writes, ElementsAre("bus/pci/devices/0000:04:00.0/driver_override="));
}

// Catches: a device that a driver has refused and that stays without one after its document.
TEST_F(PciDriversTest, RemovedDeviceWithoutADriverGetsItsDefaultDriver) {
  model->refusing.insert("vfio-pci");
  EXPECT_EQ(1u, apply({{"0000:04:00.0", "vfio-pci"}}).size());
  EXPECT_EQ("", model->driverOf("0000:04:00.0"));
  EXPECT_THAT(apply({}), IsEmpty());
  EXPECT_EQ("e1000e", model->driverOf("0000:04:00.0"));
}

// Catches: "in effect" for a device that the driver refused.
TEST_F(PciDriversTest, RefusalOfTheDriverIsAProblem) {
  model->refusing.insert("vfio-pci");
  EXPECT_THAT(apply({{"0000:04:00.0", "vfio-pci"}}),
              ElementsAre(HasSubstr("the driver refused the device")));
}

// Catches: a device with access to all memory without a word; the same warning at each change.
TEST_F(PciDriversTest, DeviceWithoutAnIommuGroupIsAWarningOnce) {
  model->device("0000:06:00.0", "e1000e", false);
  EXPECT_THAT(apply({{"0000:06:00.0", "vfio-pci"}}), IsEmpty());
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("0000:06:00.0 has no IOMMU group")));
  apply({{"0000:06:00.0", "vfio-pci"}});
  EXPECT_THAT(warnings, IsEmpty());
}

// Catches: a device of the host that a container takes from it.
TEST_F(PciDriversTest, ContainerWritesNothing) {
  restart(KernelScope::kNetwork);
  kj::Vector<WantedDriver> list;
  list.add(WantedDriver{kj::str("0000:04:00.0"), kj::str("vfio-pci")});
  auto result = drivers->apply(list);
  ASSERT_EQ(1u, result.settings.list.size());
  EXPECT_THAT(result.settings.list[0].cStr(), HasSubstr("this node is a container"));
  EXPECT_FALSE(result.settings.retry);
  EXPECT_THAT(model->writes, IsEmpty());
}

}  // namespace
}  // namespace talos::machined
