#include "machined/disk/devices/system-disk.h"

#include <fnmatch.h>

#include "common/base/error.h"
#include "common/net/text-values.h"

namespace talos::machined {
namespace {

kj::String described(const DiskFacts& disk) {
  return kj::str("/dev/", disk.name, " (", disk.bytes >> 20, " MiB",
                 disk.model.size() > 0 ? ", " : "", disk.model, ")");
}

kj::String listOf(kj::ArrayPtr<const DiskFacts> disks) {
  if (disks.size() == 0) return kj::str("the machine has no disk");
  auto names = KJ_MAP(disk, disks) {
    return described(disk);
  };
  return kj::str("the machine has ", kj::strArray(names, ", "));
}

bool matches(kj::StringPtr pattern, kj::StringPtr text) {
  return pattern.size() == 0 || fnmatch(pattern.cStr(), text.cStr(), 0) == 0;
}

// Talos knows only the name that the device itself reports, as an SD card does ("SD64G").
bool isNamed(kj::StringPtr pattern, const DiskFacts& disk) {
  return matches(pattern, disk.name) || matches(pattern, disk.ownName);
}

kj::String above(kj::StringPtr path) {
  return kj::str(path.slice(0, path.findLast('/').orDefault(0)));
}

// Versions of Talos differ in the final /, and for NVMe disks in the disk's two names.
bool isAt(kj::StringPtr pattern, kj::StringPtr busPath) {
  if (pattern.size() == 0) return true;
  auto wanted = config::withoutLastSlash(pattern);
  if (wanted.size() == 0) return false;
  return matches(wanted, config::withoutLastSlash(busPath)) ||
         (!busPath.endsWith("/") && matches(wanted, above(above(busPath))));
}

bool isOfType(config::DiskType wanted, rpc::Disk::Type type) {
  switch (wanted) {
    case config::DiskType::SSD:
      return type == rpc::Disk::Type::SSD;
    case config::DiskType::HDD:
      return type == rpc::Disk::Type::HDD;
    case config::DiskType::NVME:
      return type == rpc::Disk::Type::NVME;
    case config::DiskType::SD:
      return type == rpc::Disk::Type::SD;
    default:
      return true;
  }
}

bool admits(config::DiskSelector::Reader selector, const DiskFacts& disk) {
  KJ_IF_MAYBE (rule, config::parseSizeRule(selector.getSize())) {
    if (!rule->admits(disk.bytes)) return false;
  }
  return isNamed(selector.getName(), disk) && matches(selector.getModel(), disk.model) &&
         matches(selector.getSerial(), disk.serial) &&
         matches(selector.getModalias(), disk.modalias) && matches(selector.getUuid(), disk.uuid) &&
         matches(selector.getWwid(), disk.wwid) && isAt(selector.getBusPath(), disk.busPath) &&
         isOfType(selector.getType(), disk.type);
}

// The disk that machine.install, or a document in its place, describes.
class WantedDisk {
 public:
  explicit WantedDisk(config::Install::Reader install) : install(install) {
    if (install.getDiskMatch().size() == 0) return;
    auto compiled = cel::compileDiskSelector(install.getDiskMatch());
    KJ_IF_MAYBE (mistake, compiled.mistake) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str(kDocument, ": ", cel::render(install.getDiskMatch(), *mistake)));
    }
    match = kj::mv(compiled.program);
  }
  bool is(const DiskFacts& disk, kj::StringPtr path) const {
    KJ_IF_MAYBE (program, match) {
      return !disk.readOnly && cel::selects(*program, propertiesOf(disk, path));
    }
    if (install.hasDiskSelector()) return admits(install.getDiskSelector(), disk);
    return path == install.getDisk();
  }
  // Returns what no disk fulfils.
  kj::String problem() const {
    if (match != nullptr) return kj::str(kDocument, ": no disk matches");
    if (install.hasDiskSelector()) return kj::str("machine.install.diskSelector: no disk matches");
    return kj::str("machine.install.disk: there is no disk ", install.getDisk());
  }

 private:
  static constexpr auto kDocument = "UnattendedInstallConfig.provisioning.diskSelector"_kj;
  config::Install::Reader install;
  kj::Maybe<cel::Program> match;
};

}  // namespace

cel::DiskProperties propertiesOf(const DiskFacts& facts, kj::StringPtr path) {
  return {.size = facts.bytes,
          .ioSize = facts.ioSize,
          .sectorSize = facts.sectorSize,
          .readOnly = facts.readOnly,
          .rotational = facts.type == rpc::Disk::Type::HDD,
          .model = facts.model,
          .serial = facts.serial,
          .modalias = facts.modalias,
          .wwid = facts.wwid,
          .uuid = facts.uuid,
          .busPath = facts.busPath,
          .subSystem = "/sys/class/block"_kj,
          .transport = facts.transport(),
          .devPath = path};
}

SystemDisk chooseSystemDisk(kj::ArrayPtr<const DiskFacts> disks, config::Install::Reader install) {
  WantedDisk wanted(install);
  kj::Maybe<SystemDisk> chosen;
  for (auto& disk : disks) {
    auto path = kj::str("/dev/", disk.name);
    if (!wanted.is(disk, path)) continue;
    KJ_IF_MAYBE (first, chosen) {
      first->others.add(kj::mv(path));
    } else {
      chosen = SystemDisk{kj::mv(path), {}};
    }
  }
  KJ_IF_MAYBE (disk, chosen) return kj::mv(*disk);
  fail(ErrorKind::kFailedPrecondition, kj::str(wanted.problem(), "; ", listOf(disks)));
}

}  // namespace talos::machined
