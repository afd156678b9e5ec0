#include "tests/cuts/installed.h"

#include <capnp/message.h>
#include <fcntl.h>
#include <kj/debug.h>

#include "machined/confined/parser-client/parser-messages.h"
#include "machined/confined/parser/disk-probe.h"
#include "machined/disk/installer/locked-disk.h"
#include "tests/harness/process.h"

namespace talos::cuts {
namespace {

constexpr size_t kSectorBytes = 512;

std::string needed(const std::string& image, const char* label, const std::string& path,
                   const std::string& folder) {
  auto found = bootLoaderFile(image, part(image, label).number, path, folder);
  return KJ_REQUIRE_NONNULL(found, "the boot loader does not find", label, path.c_str());
}

System systemIn(const std::string& image, const std::string& slot, const std::string& folder) {
  auto file = [&](const char* name) {
    auto text = needed(image, "BOOT", "/" + slot + "/" + name, folder);
    KJ_REQUIRE(!text.empty(), "the boot loader finds an empty file", slot.c_str(), name);
    return digestOf(text);
  };
  return {file("vmlinuz"), file("initramfs"), file("boot.cfg")};
}

// Leaves out the bytes that a table may change: after the code come the disk's identity and the
// protective partition.
std::string bootCodeOf(const std::string& image) {
  constexpr size_t kCodeEnd = 440;
  auto bios = part(image, "BIOS");
  return digestOf(bytesOf(image, 0, kSectorBytes).substr(0, kCodeEnd) +
                  bytesOf(image, bios.offset, bios.size));
}

// Returns what libblkid finds on a disk, as the parser reports it before an installation.
machined::FoundOnDisk probed(const std::string& device) {
  kj::AutoCloseFd fd(open(device.c_str(), O_RDONLY | O_CLOEXEC));
  KJ_REQUIRE(fd != nullptr, "cannot open the disk", device.c_str());
  capnp::MallocMessageBuilder message;
  auto answer = message.initRoot<rpc::ParseAnswer>();
  parse::probeDisk(fd, answer.initDisk());
  return machined::readFoundOnDisk(answer);
}

}  // namespace

BootView bootView(const std::string& image, const std::string& folder) {
  auto text = needed(image, "BOOT", "/grub/grubenv", folder);
  BootView view;
  auto state = install::readSlots(kj::arrayPtr(text.data(), text.size()));
  view.state = KJ_REQUIRE_NONNULL(state, "grubenv is damaged");
  auto add = [&](install::Slot slot) {
    std::string name = install::nameOf(slot).cStr();
    view.slots[name] = systemIn(image, name, folder);
  };
  add(view.state.confirmed);
  KJ_IF_MAYBE (slot, view.state.attempt) {
    if (view.state.tries > 0) add(*slot);
  }
  return view;
}

namespace {

// Tools of other systems read it, too (libfdisk).
void requireReadableByOthers(const std::string& image) {
  auto dump = harness::run({"/usr/sbin/sfdisk", "--dump", image}, 60);
  for (auto name : {"EFI", "BIOS", "BOOT", "META", "STATE", "EPHEMERAL"}) {
    KJ_REQUIRE(harness::contains(dump.out, std::string("name=\"") + name + "\""),
               "sfdisk does not find a partition", name, dump.out.c_str(), dump.err.c_str());
  }
  KJ_REQUIRE(dump.status == 0, dump.err.c_str());
}

}  // namespace

Installation readInstallation(const std::string& image, const std::string& folder) {
  Installation result;
  requireReadableByOthers(image);
  auto config = fileOfXfs(image, part(image, "STATE"), folder, "config.yaml");
  result.config = KJ_REQUIRE_NONNULL(config, "STATE has no config");
  auto view = bootView(image, folder);
  KJ_REQUIRE(view.state.confirmed == install::Slot::kA && view.state.attempt == nullptr);
  result.system = view.slots.at("A");
  result.menu = digestOf(needed(image, "BOOT", "/grub/grub.cfg", folder));
  result.efi = digestOf(needed(image, "EFI", "/EFI/BOOT/BOOTX64.EFI", folder));
  result.bootCode = bootCodeOf(image);
  metaValue(image, 1);  // it can be read
  return result;
}

std::string stateOfInstallation(const std::string& image, const Installation& whole,
                                const std::string& folder) {
  install::Installed installed;
  bool untouched;
  {
    LoopDevice device(image);
    auto found = install::Disk(device.node().c_str()).look(probed(device.node()));
    installed = found.installed;
    untouched = !found.unknownData && found.table == nullptr;
    if (installed != install::Installed::kYes) {
      KJ_IF_MAYBE (obstacle, install::worthKeeping(found)) {
        KJ_FAIL_REQUIRE("it cannot be installed again", *obstacle);
      }
      return untouched ? "untouched" : "unfinished";
    }
  }
  KJ_REQUIRE(readInstallation(image, folder) == whole, "something of the installation is missing");
  return "installed";
}

}  // namespace talos::cuts
