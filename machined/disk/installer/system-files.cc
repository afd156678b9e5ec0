#include "machined/disk/installer/system-files.h"

#include "common/base/version.h"
#include "machined/disk/installer/boot-files.h"
#include "machined/disk/installer/synced-file.h"

namespace talos::install {

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
  copyFile(top, "EFI/BOOT/BOOTX64.EFI", kj::str(system.folder, "/BOOTX64.EFI"));
  syncAll(top);
}

}  // namespace talos::install
