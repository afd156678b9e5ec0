#include "machined/disk/installer/efi-variables.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/error.h"
#include "common/base/folder.h"

namespace talos::install {
namespace {

constexpr auto kFirmware = "/sys/firmware/efi"_kj, kFileSystem = "efivarfs"_kj;
// EFI_GLOBAL_VARIABLE
constexpr auto kVendor = "-8be4df61-93ca-11d2-aa0d-00e098032b8c"_kj;
constexpr auto kBootOrder = "BootOrder"_kj;
constexpr size_t kAttributes = 4, kMostVariable = 64u << 10, kMostVariables = 16384;
// NON_VOLATILE, BOOTSERVICE_ACCESS and RUNTIME_ACCESS
constexpr kj::byte kKept = 7;

[[noreturn]] void refuseVariable(kj::StringPtr what, kj::StringPtr name) {
  fail(ErrorKind::kUnavailable, kj::str("cannot ", what, " ", name, ": ", strerror(errno)));
}

// Returns nullptr if the variable does not exist, or has no content.
kj::Maybe<kj::Array<kj::byte>> readVariable(int folder, kj::StringPtr name) {
  auto file = kj::str(name, kVendor);
  int raw = openat(folder, file.cStr(), O_RDONLY | O_CLOEXEC);
  if (raw < 0 && errno == ENOENT) return nullptr;
  if (raw < 0) refuseVariable("read", name);
  kj::AutoCloseFd fd(raw);
  auto bytes = kj::heapArray<kj::byte>(kMostVariable);
  ssize_t size;
  while ((size = read(fd.get(), bytes.begin(), bytes.size())) < 0 && errno == EINTR) {
  }
  if (size < 0) refuseVariable("read", name);
  if (size == 0) return nullptr;
  if (size < ssize_t(kAttributes) || size_t(size) == bytes.size()) {
    fail(ErrorKind::kUnavailable, kj::str("cannot read ", name, ": it has ", size, " bytes"));
  }
  return kj::heapArray(bytes.slice(kAttributes, size_t(size)));
}

}  // namespace

kj::Maybe<kj::AutoCloseFd> openEfiVariables() {
  if (access(kFirmware.cStr(), F_OK) != 0) return nullptr;
  int raw = fsopen(kFileSystem.cStr(), FSOPEN_CLOEXEC);
  if (raw < 0) refuseVariable("open", kFileSystem);
  kj::AutoCloseFd context(raw);
  if (fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    refuseVariable("mount", kFileSystem);
  }
  int mount = fsmount(context.get(), FSMOUNT_CLOEXEC,
                      MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
  if (mount < 0) refuseVariable("mount", kFileSystem);
  return kj::AutoCloseFd(mount);
}

BootVariables readBootVariables(int folder) {
  BootVariables found;
  for (auto& file : namesIn(kj::str("/proc/self/fd/", folder, "/"), kMostVariables)) {
    if (!file.endsWith(kVendor)) continue;
    auto name = kj::heapString(file.slice(0, file.size() - kVendor.size()));
    KJ_IF_MAYBE (number, bootOptionNumber(name)) {
      BootVariables::Option option{*number, nullptr};
      // If its content is unreadable, its number is in use nevertheless.
      (void)kj::runCatchingExceptions(
          [&] { option.bytes = readVariable(folder, name).orDefault(kj::Array<kj::byte>()); });
      found.options.add(kj::mv(option));
    }
  }
  // An unreadable order must not be replaced, because the other systems' entries would be lost.
  KJ_IF_MAYBE (order, readVariable(folder, kBootOrder)) found.order = decodeBootOrder(*order);
  return found;
}

void writeEfiVariable(int folder, kj::StringPtr name, kj::ArrayPtr<const kj::byte> value) {
  auto file = kj::str(name, kVendor);
  int raw = openat(folder, file.cStr(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (raw < 0) refuseVariable("write", name);
  kj::AutoCloseFd fd(raw);
  auto bytes = kj::heapArray<kj::byte>(kAttributes + value.size());
  memset(bytes.begin(), 0, kAttributes);
  bytes[0] = kKept;
  std::copy(value.begin(), value.end(), bytes.begin() + kAttributes);
  // The kernel passes one write to the firmware as a whole.
  if (write(fd.get(), bytes.begin(), bytes.size()) != ssize_t(bytes.size()))
    refuseVariable("write", name);
}

bool addBootEntry(int folder, const EfiBootOption& wanted) {
  auto plan = KJ_UNWRAP_OR(planBootEntry(readBootVariables(folder), wanted),
                           fail(ErrorKind::kResourceExhausted, "all numbers are taken"));
  KJ_IF_MAYBE (bytes, plan.option) writeEfiVariable(folder, bootOptionName(plan.number), *bytes);
  KJ_IF_MAYBE (order, plan.order) writeEfiVariable(folder, kBootOrder, encodeBootOrder(*order));
  return plan.option != nullptr || plan.order != nullptr;
}

}  // namespace talos::install
