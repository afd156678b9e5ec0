#include "talosctl/cluster/containers/node-slots.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"

namespace talos::cluster {
namespace {

using install::kRecordFile;
using install::nameOf;
using install::Slot;
using install::SlotState;

constexpr size_t kMostRecord = 4096;

// Fields of a squashfs: its first bytes, and the length of its used part.
constexpr char kSquashfsMagic[] = {'h', 's', 'q', 's'};
constexpr size_t kSquashfsHead = 96, kSquashfsLengthAt = 40;

kj::AutoCloseFd openFolder(kj::StringPtr path) {
  int raw = open(path.cStr(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (raw < 0) {
    fail(ErrorKind::kFailedPrecondition, kj::str("cannot open ", path, ": ", strerror(errno)));
  }
  return kj::AutoCloseFd(raw);
}

kj::AutoCloseFd openFileOf(int folder, kj::StringPtr path, int access) {
  struct open_how how = {};
  how.flags = static_cast<uint64_t>(access) | O_CLOEXEC | O_NONBLOCK;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  long raw = syscall(SYS_openat2, folder, path.cStr(), &how, sizeof how);
  if (raw < 0) {
    fail(ErrorKind::kFailedPrecondition, kj::str("cannot open ", path, ": ", strerror(errno)));
  }
  kj::AutoCloseFd file(static_cast<int>(raw));
  struct stat info;
  KJ_SYSCALL(fstat(file, &info), path);
  if (!S_ISREG(info.st_mode)) {
    fail(ErrorKind::kFailedPrecondition, kj::str(path, " is not a file"));
  }
  return file;
}

kj::Maybe<SlotState> readRecord(int folder) {
  kj::Maybe<SlotState> state;
  kj::runCatchingExceptions([&]() {
    auto file = openFileOf(folder, kRecordFile, O_RDONLY);
    char text[kMostRecord];
    ssize_t n;
    KJ_SYSCALL(n = pread(file, text, sizeof text, 0));
    state = install::readSlots(kj::arrayPtr(text, static_cast<size_t>(n)));
  });
  return state;
}

// Writes the record in place, as GRUB does: one sector.
void saveRecord(int folder, const SlotState& state) {
  auto file = openFileOf(folder, kRecordFile, O_WRONLY);
  auto text = install::writeSlots(state);
  ssize_t n;
  KJ_SYSCALL(n = pwrite(file, text.begin(), text.size(), 0));
  KJ_REQUIRE(n == text.size(), "a write to the record was cut");
  KJ_SYSCALL(fsync(file));
}

// Opens an image and checks its length: the kernel would mount a truncated image, and fail when the
// missing end is read.
kj::AutoCloseFd openImage(int folder, Slot slot) {
  auto path = kj::str(nameOf(slot), "/rootfs.sqsh");
  auto file = openFileOf(folder, path, O_RDONLY);
  struct stat info;
  KJ_SYSCALL(fstat(file, &info), path);
  kj::byte head[kSquashfsHead];
  ssize_t n;
  KJ_SYSCALL(n = pread(file, head, sizeof head, 0), path);
  if (n != sizeof head || memcmp(head, kSquashfsMagic, sizeof kSquashfsMagic) != 0) {
    fail(ErrorKind::kFailedPrecondition, kj::str(path, " is not a squashfs"));
  }
  uint64_t length = 0;
  for (size_t i = 0; i < sizeof length; ++i) {
    length |= uint64_t{head[kSquashfsLengthAt + i]} << (8 * i);
  }
  uint64_t size = static_cast<uint64_t>(info.st_size);
  if (length > size) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str(path, " is cut off: it has ", size, " of ", length, " bytes"));
  }
  return file;
}

void copyInto(kj::StringPtr from, kj::StringPtr to) {
  int raw;
  KJ_SYSCALL(raw = open(from.cStr(), O_RDONLY | O_CLOEXEC), from);
  kj::AutoCloseFd source(raw);
  KJ_SYSCALL(raw = open(to.cStr(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), to);
  kj::AutoCloseFd target(raw);
  constexpr size_t kPiece = 16u << 20;
  for (;;) {
    ssize_t n;
    // copy_file_range() fails between different kinds of file systems.
    KJ_SYSCALL(n = sendfile(target, source, nullptr, kPiece), from, to);
    if (n == 0) break;
  }
  KJ_SYSCALL(fsync(target), to);
}

void makeMeta(kj::StringPtr path) {
  int raw;
  KJ_SYSCALL(raw = open(path.cStr(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), path);
  kj::AutoCloseFd file(raw);
  KJ_SYSCALL(ftruncate(file, install::kMetaFileBytes), path);
  KJ_SYSCALL(fsync(file), path);
}

void syncFolder(kj::StringPtr path) {
  auto folder = openFolder(path);
  KJ_SYSCALL(fsync(folder), path);
}

}  // namespace

SlotChoice chooseSlot(kj::Maybe<SlotState> record, kj::FunctionParam<void(const SlotState&)> save) {
  SlotChoice choice;
  KJ_IF_MAYBE (state, record) {
    choice.slot = state->confirmed;
    if (state->attempt == nullptr || state->tries == 0) return choice;
    auto attempt = KJ_ASSERT_NONNULL(state->attempt);
    --state->tries;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { save(*state); })) {
      choice.said.add(kj::str("slot ", nameOf(attempt), " is not tried, as the try cannot be ",
                              "counted: ", messageOf(*e)));
      return choice;
    }
    if (attempt != state->confirmed) choice.trialS = state->healthTimeoutS;
    choice.slot = attempt;
    return choice;
  }
  choice.said.add(kj::str("the record of the slots is missing or damaged; starting slot A"));
  return choice;
}

void makeSlots(kj::StringPtr folder, kj::StringPtr image, kj::StringPtr version) {
  if (access(folder.cStr(), F_OK) == 0) return;
  auto part = kj::str(folder, ".new");
  removeTree(part);  // left by a crash
  for (auto name : {"A"_kj, "B"_kj, "grub"_kj}) makeDirectories(kj::str(part, "/", name), 0700);
  copyInto(image, kj::str(part, "/A/rootfs.sqsh"));
  writeFileAtomically(kj::str(part, "/A/version"), kj::str(version, "\n"), 0600);
  writeFileAtomically(kj::str(part, "/", kRecordFile), install::writeSlots({}), 0600);
  makeMeta(kj::str(part, "/", install::kMetaFile));
  for (auto name : {"/A"_kj, "/grub"_kj, ""_kj}) syncFolder(kj::str(part, name));
  KJ_SYSCALL(rename(part.cStr(), folder.cStr()), folder);
  syncFolder(kj::str(folder, "/.."));
}

SlotChoice startOfSlots(kj::StringPtr path, LoadImage load) {
  auto folder = openFolder(path);
  auto choice =
      chooseSlot(readRecord(folder), [&](const SlotState& state) { saveRecord(folder, state); });
  auto start = [&](Slot slot) {
    return kj::runCatchingExceptions([&]() { load(openImage(folder, slot)); });
  };
  auto other = install::otherThan(choice.slot);
  KJ_IF_MAYBE (e, start(choice.slot)) {
    choice.said.add(kj::str("slot ", nameOf(choice.slot), " cannot be started: ", messageOf(*e),
                            "; starting slot ", nameOf(other)));
    KJ_IF_MAYBE (e2, start(other)) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str(path, ": neither system can be started: ", messageOf(*e), "; ", messageOf(*e2)));
    }
    choice.slot = other;
    choice.trialS = nullptr;
  }
  return choice;
}

namespace {

// Returns the requested slot.
Slot requestedSlot(int folder) {
  auto file = openFileOf(folder, install::kMountRequest, O_RDONLY);
  char text[8];
  ssize_t n;
  KJ_SYSCALL(n = pread(file, text, sizeof text, 0));
  for (auto slot : {Slot::kA, Slot::kB}) {
    if (kj::heapString(text, static_cast<size_t>(n)) == kj::str(nameOf(slot), "\n")) return slot;
  }
  fail(ErrorKind::kInvalidArgument, "the request names no slot");
}

void refuse(int folder, kj::StringPtr reason) {
  unlinkat(folder, install::kMountRefusal.cStr(), 0);
  int raw = openat(folder, install::kMountRefusal.cStr(),
                   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (raw < 0) return;  // the node notices that it gets no answer
  kj::AutoCloseFd file(raw);
  auto ignored = write(file, reason.begin(), reason.size());
  (void)ignored;
}

}  // namespace

kj::Maybe<kj::String> serveMountRequest(kj::StringPtr path, LoadImage mount) {
  auto folder = openFolder(path);
  if (faccessat(folder, install::kMountRequest.cStr(), F_OK, AT_SYMLINK_NOFOLLOW) != 0) {
    return nullptr;
  }
  kj::String line;
  auto failure = kj::runCatchingExceptions([&]() {
    auto slot = requestedSlot(folder);
    mount(openImage(folder, slot));
    line = kj::str("mounted slot ", nameOf(slot), " for the running node");
  });
  unlinkat(folder, install::kMountRequest.cStr(), 0);
  KJ_IF_MAYBE (e, failure) {
    refuse(folder, messageOf(*e));
    return kj::str("the node gets no mount: ", messageOf(*e));
  }
  return kj::mv(line);
}

kj::String argumentsOf(const SlotChoice& choice) {
  auto slot = kj::str("talos.slot=", nameOf(choice.slot));
  KJ_IF_MAYBE (seconds, choice.trialS) return kj::str(slot, " talos.trial=", *seconds);
  return slot;
}

}  // namespace talos::cluster
