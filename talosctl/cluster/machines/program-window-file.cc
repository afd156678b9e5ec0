#include "talosctl/cluster/machines/program-window-file.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <string.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/sha256.h"

namespace talos::cluster {
namespace {

using program_window::Header;

void writeAt(int file, off_t at, kj::ArrayPtr<const kj::byte> bytes) {
  while (bytes.size() > 0) {
    ssize_t written;
    KJ_SYSCALL(written = pwrite(file, bytes.begin(), bytes.size(), at), "program window");
    at += written;
    bytes = bytes.slice(size_t(written), bytes.size());
  }
}

kj::ArrayPtr<const kj::byte> bytesOf(const Header& header) {
  return kj::arrayPtr(reinterpret_cast<const kj::byte*>(&header), sizeof header);
}

}  // namespace

void makeWindow(kj::StringPtr file) {
  if (unlink(file.cStr()) != 0 && errno != ENOENT) KJ_FAIL_SYSCALL("unlink", errno, file);
  int raw;
  KJ_SYSCALL(raw = open(file.cStr(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), file);
  kj::AutoCloseFd made(raw);
  KJ_SYSCALL(ftruncate(made, off_t(program_window::kBytes)), file);
}

void giveOrder(kj::StringPtr file, program_window::Order order, kj::StringPtr service,
               kj::ArrayPtr<const char> program) {
  Header header = {};
  KJ_REQUIRE(service.size() < sizeof header.service &&
             program.size() <= program_window::kMostProgram);
  int raw = open(file.cStr(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (raw < 0 && errno == ENOENT) {
    fail(ErrorKind::kNotFound,
         "it was started by an earlier talosctl, which gave it no way to "
         "take a program; stop and start it");
  }
  if (raw < 0) KJ_FAIL_SYSCALL("open", errno, file);
  kj::AutoCloseFd window(raw);
  memcpy(header.magic, program_window::kMagic, sizeof header.magic);
  memcpy(header.service, service.begin(), service.size());
  header.order = order;
  header.bytes = program.size();
  Sha256 digest;
  digest.add(program.asBytes());
  memcpy(header.digest, digest.finish().begin(), sizeof header.digest);
  // Invalidates the previous order while its program changes.
  writeAt(window, 0, bytesOf(Header()));
  writeAt(window, off_t(program_window::kProgramAt), program.asBytes());
  writeAt(window, 0, bytesOf(header));
}

void clearOrder(kj::StringPtr file) {
  int raw = open(file.cStr(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (raw < 0) return;
  kj::AutoCloseFd window(raw);
  // A header of zeros is no order.
  fallocate(window, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, off_t(program_window::kBytes));
  auto none = Header();
  auto ignored = pwrite(window, &none, sizeof none, 0);  // for file systems without holes
  (void)ignored;
}

}  // namespace talos::cluster
