#include "machined/disk/installer/efi-boot-option.h"

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

constexpr uint32_t kActive = 1;    // LOAD_OPTION_ACTIVE
constexpr size_t kOptionHead = 6;  // attributes, length of the path
constexpr kj::byte kMedia = 4, kHardDrive = 1, kFilePath = 4;
constexpr kj::byte kEnd = 0x7f, kEndOfAll = 0xff;
constexpr size_t kNodeHead = 4, kHardDriveBytes = 42;
constexpr kj::byte kGpt = 2, kGuidSignature = 2;
constexpr unsigned kNumbers = 0x10000;

class ByteWriter {
 public:
  template <typename T>
  void number(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) bytes.add(static_cast<kj::byte>(value >> (8 * i)));
  }
  void text(kj::StringPtr value) {  // UTF-16, with its terminator
    for (char c : value) number(static_cast<uint16_t>(static_cast<unsigned char>(c)));
    number(uint16_t(0));
  }
  void add(kj::ArrayPtr<const kj::byte> more) { bytes.addAll(more); }
  kj::Array<kj::byte> finish() { return bytes.releaseAsArray(); }

 private:
  kj::Vector<kj::byte> bytes;
};

template <typename T>
T numberAt(kj::ArrayPtr<const kj::byte> bytes, size_t offset) {
  T value = 0;
  for (size_t i = sizeof(T); i-- > 0;) value = static_cast<T>(value << 8 | bytes[offset + i]);
  return value;
}

// Returns UTF-16 text up to its terminator; `rest` then begins after it. Returns nullptr if it is
// missing.
kj::Maybe<kj::String> takeText(kj::ArrayPtr<const kj::byte>& rest) {
  kj::Vector<char> text;
  for (size_t i = 0; i + 2 <= rest.size(); i += 2) {
    auto unit = numberAt<uint16_t>(rest, i);
    if (unit == 0) {
      rest = rest.slice(i + 2, rest.size());
      return kj::heapString(text);
    }
    text.add(unit >= ' ' && unit < 0x7f ? static_cast<char>(unit) : '?');
  }
  return nullptr;
}

struct PathNode {
  kj::byte type, subtype;
  kj::ArrayPtr<const kj::byte> data;
};
// Returns nullptr at the end, and for a node that is cut off.
kj::Maybe<PathNode> takeNode(kj::ArrayPtr<const kj::byte>& rest) {
  if (rest.size() < kNodeHead) return nullptr;
  auto size = numberAt<uint16_t>(rest, 2);
  if (size < kNodeHead || size > rest.size()) return nullptr;
  PathNode node{rest[0], rest[1], rest.slice(kNodeHead, size)};
  rest = rest.slice(size, rest.size());
  return node;
}

kj::Maybe<EfiFile> hardDrive(kj::ArrayPtr<const kj::byte> data) {
  if (data.size() != kHardDriveBytes - kNodeHead) return nullptr;
  if (data[36] != kGpt || data[37] != kGuidSignature) return nullptr;
  EfiFile file{.partition = numberAt<uint32_t>(data, 0),
               .firstSector = numberAt<uint64_t>(data, 4),
               .sectors = numberAt<uint64_t>(data, 12),
               .id = {},
               .path = kj::String()};
  memcpy(file.id.bytes, data.begin() + 20, sizeof(file.id.bytes));
  return file;
}

}  // namespace

kj::Array<kj::byte> encode(const EfiBootOption& option) {
  ByteWriter path;
  path.number(kMedia);
  path.number(kHardDrive);
  path.number(static_cast<uint16_t>(kHardDriveBytes));
  path.number(option.file.partition);
  path.number(option.file.firstSector);
  path.number(option.file.sectors);
  path.add(option.file.id.bytes);
  path.number(kGpt);
  path.number(kGuidSignature);
  path.number(kMedia);
  path.number(kFilePath);
  path.number(static_cast<uint16_t>(kNodeHead + 2 * (option.file.path.size() + 1)));
  path.text(option.file.path);
  path.number(kEnd);
  path.number(kEndOfAll);
  path.number(static_cast<uint16_t>(kNodeHead));
  auto list = path.finish();
  ByteWriter all;
  all.number(kActive);
  all.number(static_cast<uint16_t>(list.size()));
  all.text(option.description);
  all.add(list);
  return all.finish();
}

kj::Maybe<EfiBootOption> decodeBootOption(kj::ArrayPtr<const kj::byte> bytes) {
  if (bytes.size() < kOptionHead || (numberAt<uint32_t>(bytes, 0) & kActive) == 0) return nullptr;
  size_t pathBytes = numberAt<uint16_t>(bytes, 4);
  auto rest = bytes.slice(kOptionHead, bytes.size());
  auto description = KJ_UNWRAP_OR_RETURN(takeText(rest), nullptr);
  if (rest.size() < pathBytes) return nullptr;
  rest = rest.slice(0, pathBytes);
  auto drive = KJ_UNWRAP_OR_RETURN(takeNode(rest), nullptr);
  if (drive.type != kMedia || drive.subtype != kHardDrive) return nullptr;
  auto file = KJ_UNWRAP_OR_RETURN(hardDrive(drive.data), nullptr);
  auto name = KJ_UNWRAP_OR_RETURN(takeNode(rest), nullptr);
  if (name.type != kMedia || name.subtype != kFilePath) return nullptr;
  file.path = KJ_UNWRAP_OR_RETURN(takeText(name.data), nullptr);
  auto end = KJ_UNWRAP_OR_RETURN(takeNode(rest), nullptr);
  if (end.type != kEnd || end.subtype != kEndOfAll) return nullptr;
  return EfiBootOption{kj::mv(description), kj::mv(file)};
}

kj::Vector<uint16_t> decodeBootOrder(kj::ArrayPtr<const kj::byte> bytes) {
  kj::Vector<uint16_t> order;
  for (size_t i = 0; i + 2 <= bytes.size(); i += 2) order.add(numberAt<uint16_t>(bytes, i));
  return order;
}

kj::Array<kj::byte> encodeBootOrder(kj::ArrayPtr<const uint16_t> order) {
  ByteWriter bytes;
  for (auto number : order) bytes.number(number);
  return bytes.finish();
}

kj::String bootOptionName(uint16_t number) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  auto name = kj::str("Boot0000");
  for (size_t i = 0; i < 4; ++i) name[4 + i] = kDigits[number >> (12 - 4 * i) & 0xf];
  return name;
}

kj::Maybe<uint16_t> bootOptionNumber(kj::StringPtr name) {
  if (name.size() != 8 || !name.startsWith("Boot")) return nullptr;
  unsigned number = 0;
  for (char c : name.slice(4)) {
    if (c >= '0' && c <= '9') {
      number = number << 4 | static_cast<unsigned>(c - '0');
    } else if (c >= 'A' && c <= 'F') {
      number = number << 4 | static_cast<unsigned>(c - 'A' + 10);
    } else {
      return nullptr;
    }
  }
  return static_cast<uint16_t>(number);
}

kj::Maybe<BootEntryPlan> planBootEntry(const BootVariables& found, const EfiBootOption& wanted) {
  auto bytes = encode(wanted);
  BootEntryPlan plan{};
  bool exists = false;
  for (auto& option : found.options) {
    if (exists || option.bytes.asPtr() != bytes.asPtr()) continue;
    plan.number = option.number;
    exists = true;
  }
  if (!exists) {
    auto taken = [&](unsigned number) {
      return std::any_of(found.options.begin(), found.options.end(),
                         [&](auto& option) { return option.number == number; }) ||
             std::find(found.order.begin(), found.order.end(), number) != found.order.end();
    };
    unsigned number = 0;
    while (number < kNumbers && taken(number)) ++number;
    if (number == kNumbers) return nullptr;
    plan.number = static_cast<uint16_t>(number);
    plan.option = kj::mv(bytes);
  }
  if (!found.order.empty() && found.order.front() == plan.number) return plan;
  kj::Vector<uint16_t> order;
  order.add(plan.number);
  for (auto number : found.order) {
    if (number != plan.number) order.add(number);
  }
  plan.order = kj::mv(order);
  return plan;
}

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
  if (::write(fd.get(), bytes.begin(), bytes.size()) != ssize_t(bytes.size()))
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
