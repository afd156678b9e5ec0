#include "machined/disk/installer/system-files.h"

#include "machined/disk/installer/boot-files.h"
#include "machined/disk/installer/synced-file.h"

namespace talos::install {

BootPrograms bootProgramsOf(kj::StringPtr arch) {
  if (arch == "arm64") return {.efi = "BOOTAA64.EFI", .bios = false};
  return {.efi = "BOOTX64.EFI", .bios = true};
}

void putBootFiles(int top, kj::StringPtr arguments, const System& system) {
  makeFolder(top, "grub");
  makeFolder(top, "A");
  copyFile(top, "A/vmlinuz", kj::str(system.folder, "/vmlinuz"));
  auto early = openFile(kj::str(system.folder, "/initramfs")), image = openFile(system.image);
  writeInitramfs(top, "A/initramfs", wholeOf(early), wholeOf(image));
  putFile(top, "A/version", kj::str(buildVersion().tag, "\n"), 0600);
  putFile(top, "A/boot.cfg", bootEntry(Slot::kA, arguments), 0600);
  putFile(top, "grub/grubenv", writeSlots({}), 0600);
  putFile(top, "grub/grub.cfg", grubConfig(), 0600);
  syncAll(top);
}

void putEfiFiles(int top, const System& system) {
  makeFolder(top, "EFI");
  makeFolder(top, "EFI/BOOT");
  auto program = bootProgramsOf(system.arch).efi;
  copyFile(top, kj::str("EFI/BOOT/", program), kj::str(system.folder, "/", program));
  syncAll(top);
}

}  // namespace talos::install
