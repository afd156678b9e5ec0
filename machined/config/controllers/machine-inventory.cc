#include "machined/config/controllers/machine-inventory.h"

#include <algorithm>

#include "common/base/file.h"
#include "common/base/folder.h"
#include "common/base/lines.h"
#include "common/text/ascii.h"

namespace talos::machined {
namespace {

constexpr size_t kMostText = 4096, kMostDevices = 4096;

// struct boot_params of the x86 kernel: secure_boot, and its value "enabled".
constexpr size_t kSecureBootAt = 0x1ec;
constexpr char kSecureBootEnabled = 3;

// Returns the first line; empty if the file cannot be read, as can be the case with firmware
// attributes.
kj::String attribute(kj::StringPtr folder, kj::StringPtr name) {
  kj::String value = kj::str();
  kj::runCatchingExceptions([&]() {
    KJ_IF_MAYBE (text, tryReadFile(kj::str(folder, "/", name), kMostText)) {
      value = kj::heapString(trimmed(firstLine(*text)));
    }
  });
  return value;
}

}  // namespace

kj::Maybe<SystemInformation> readSystemInformation(kj::StringPtr sys) {
  auto folder = kj::str(sys, "/class/dmi/id");
  if (namesIn(folder).empty()) return nullptr;
  return SystemInformation{.manufacturer = attribute(folder, "sys_vendor"),
                           .productName = attribute(folder, "product_name"),
                           .version = attribute(folder, "product_version"),
                           .serialNumber = attribute(folder, "product_serial"),
                           .uuid = lowerCase(attribute(folder, "product_uuid")),
                           .skuNumber = attribute(folder, "product_sku")};
}

platforms::Firmware readFirmware(kj::StringPtr sys) {
  auto system = KJ_UNWRAP_OR_RETURN(readSystemInformation(sys), platforms::Firmware());
  return {.vendor = kj::mv(system.manufacturer),
          .product = kj::mv(system.productName),
          .serial = kj::mv(system.serialNumber),
          .uuid = kj::mv(system.uuid),
          .chassisTag = attribute(kj::str(sys, "/class/dmi/id"), "chassis_asset_tag")};
}

kj::Vector<ProcessorPackage> processorPackages(kj::ArrayPtr<const char> cpuinfo) {
  kj::Vector<ProcessorPackage> all;
  ProcessorPackage one;
  bool begun = false;
  auto add = [&]() {
    if (!begun) return;
    begun = false;
    auto same =
        std::find_if(all.begin(), all.end(), [&](auto& each) { return each.socket == one.socket; });
    if (same == all.end()) {
      one.threads = 1;
      all.add(kj::mv(one));
    } else {
      ++same->threads;
    }
    one = {};
  };
  for (auto line : Lines(cpuinfo)) {
    auto colon = std::find(line.begin(), line.end(), ':');
    if (colon == line.end()) continue;
    auto key = kj::heapString(trimmed(kj::arrayPtr(line.begin(), colon)));
    auto value = kj::heapString(trimmed(kj::arrayPtr(colon + 1, line.end())));
    if (key == "processor") {
      add();
      begun = true;
    } else if (key == "vendor_id") {
      one.manufacturer = kj::mv(value);
    } else if (key == "model name") {
      one.productName = kj::mv(value);
    } else if (key == "microcode") {
      one.microcode = kj::mv(value);
    } else if (key == "physical id") {
      one.socket = value.tryParseAs<unsigned>().orDefault(0);
    } else if (key == "cpu cores") {
      one.cores = value.tryParseAs<unsigned>().orDefault(0);
    }
  }
  add();
  std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.socket < b.socket; });
  return all;
}

kj::Vector<PciDevice> readPciDevices(kj::StringPtr sys) {
  auto folder = kj::str(sys, "/bus/pci/devices");
  kj::Vector<PciDevice> all;
  for (auto& address : namesIn(folder, kMostDevices)) {
    auto device = kj::str(folder, "/", address);
    PciDevice found{.address = kj::str(address),
                    .classId = kj::str(),
                    .subclassId = kj::str(),
                    .vendorId = attribute(device, "vendor"),
                    .productId = attribute(device, "device")};
    auto kind = attribute(device, "class");  // 0x020000: class, subclass, interface
    if (kind.size() == 8) {
      found.classId = kj::heapString(kind.slice(0, 4));
      found.subclassId = kj::str("0x", kj::heapString(kind.slice(4, 6)));
    }
    all.add(kj::mv(found));
  }
  return all;
}

bool bootedSecurely(kj::StringPtr sys) {
  bool enabled = false;
  kj::runCatchingExceptions([&]() {
    KJ_IF_MAYBE (data, tryReadFile(kj::str(sys, "/kernel/boot_params/data"), kMostText)) {
      enabled = data->size() > kSecureBootAt && (*data)[kSecureBootAt] == kSecureBootEnabled;
    }
  });
  return enabled;
}

}  // namespace talos::machined
