#include "machined/services/host-window.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/program-window.h"
#include "common/base/sha256.h"

namespace talos::machined {
namespace {

using program_window::Header;
using program_window::Order;

bool reads(kj::StringPtr path, kj::StringPtr wanted) {
  auto text = tryReadFile(path, 64);
  KJ_IF_MAYBE (found, text) return *found == kj::str(wanted, "\n");
  return false;
}

struct Mapped {
  const kj::byte* begin;
  explicit Mapped(int memory) {
    auto at = mmap(nullptr, program_window::kBytes, PROT_READ, MAP_SHARED, memory, 0);
    if (at == MAP_FAILED) KJ_FAIL_SYSCALL("mmap(program window)", errno);
    begin = static_cast<const kj::byte*>(at);
  }
  ~Mapped() { munmap(const_cast<kj::byte*>(begin), program_window::kBytes); }
  KJ_DISALLOW_COPY_AND_MOVE(Mapped);
};

// Returns nullptr if the order is not valid, or is for another service.
kj::Maybe<Header> orderFor(kj::StringPtr id, const Mapped& window) {
  Header header;
  memcpy(&header, window.begin, sizeof header);
  if (memcmp(header.magic, program_window::kMagic, sizeof header.magic) != 0) return nullptr;
  bool ends = memchr(header.service, 0, sizeof header.service) != nullptr;
  if (!ends || id != kj::StringPtr(header.service)) return nullptr;
  if (header.bytes > program_window::kMostProgram) return nullptr;
  return header;
}

// A concurrent start finds the previous program or this one, always whole.
void put(const Mapped& window, const Header& header, kj::StringPtr path) {
  auto temporary = kj::str(path, ".new");
  unlink(temporary.cStr());
  int raw;
  KJ_SYSCALL(
      raw = open(temporary.cStr(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0755),
      temporary);
  kj::AutoCloseFd file(raw);
  KJ_ON_SCOPE_FAILURE(unlink(temporary.cStr()));
  Sha256 digest;
  auto piece = kj::heapArray<kj::byte>(1 << 20);
  for (size_t at = 0; at < header.bytes;) {
    auto size = kj::min(piece.size(), size_t(header.bytes - at));
    // Copied once, so that the digest is computed from the bytes that are written.
    memcpy(piece.begin(), window.begin + program_window::kProgramAt + at, size);
    auto part = piece.slice(0, size);
    digest.add(part);
    kj::FdOutputStream(int(file)).write(part.begin(), part.size());
    at += size;
  }
  KJ_REQUIRE(digest.finish() == kj::arrayPtr(header.digest, Sha256::kBytes),
             "not the program of its digest");
  KJ_SYSCALL(fchmod(file, 0755));
  file = nullptr;
  KJ_SYSCALL(rename(temporary.cStr(), path.cStr()), path);
}

}  // namespace

kj::Maybe<HostWindow> HostWindow::find(kj::StringPtr devices) {
  auto folder = opendir(devices.cStr());
  if (folder == nullptr) return nullptr;
  KJ_DEFER(closedir(folder));
  while (auto entry = readdir(folder)) {
    auto device = kj::str(devices, "/", entry->d_name);
    if (!reads(kj::str(device, "/vendor"), program_window::kVendor) ||
        !reads(kj::str(device, "/device"), program_window::kDevice)) {
      continue;
    }
    int raw = open(kj::str(device, "/resource2").cStr(), O_RDONLY | O_CLOEXEC);
    if (raw < 0) continue;
    kj::AutoCloseFd memory(raw);
    struct stat info;
    // The memory of any other device is smaller or larger.
    if (fstat(memory, &info) < 0 || info.st_size != off_t(program_window::kBytes)) continue;
    return HostWindow(kj::mv(memory));
  }
  return nullptr;
}

void HostWindow::follow(kj::StringPtr id, kj::StringPtr folder) const {
  auto failed = kj::runCatchingExceptions([&] {
    Mapped window(memory);
    auto order = orderFor(id, window);
    KJ_IF_MAYBE (header, order) {
      auto path = kj::str(folder, "/", id);
      if (header->order == Order::kUndo) unlink(path.cStr());
      if (header->order != Order::kReplace) return;
      if (mkdir(folder.cStr(), 0755) != 0 && errno != EEXIST) {
        KJ_FAIL_SYSCALL("mkdir", errno, folder);
      }
      put(window, *header, path);
    }
  });
  KJ_IF_MAYBE (e, failed) {
    log::error("the host's program for a service was not taken",
               {{"service", id}, {"error", e->getDescription()}});
  }
}

}  // namespace talos::machined
