#include "machined/process1/value-in-memory-file.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/error.h"

namespace talos::machined {
namespace {

constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
constexpr uint32_t kVersion = 1;

// In the machine's byte order: only this machine reads it.
struct Header {
  char magic[4];
  uint32_t version;
  uint64_t type, size;  // of the message, in bytes
  uint32_t checksum;    // counted as 0
  uint32_t unused;
};
static_assert(sizeof(Header) % sizeof(capnp::word) == 0);

Header headerOf(kj::StringPtr name, uint64_t type, kj::ArrayPtr<const kj::byte> message) {
  Header header{.magic = {'h', 'e', 'l', 'd'},
                .version = kVersion,
                .type = type,
                .size = message.size(),
                .checksum = 0,
                .unused = 0};
  auto sum = crc32(0, reinterpret_cast<const Bytef*>(&header), sizeof header);
  sum = crc32(sum, name.asBytes().begin(), name.size());
  header.checksum = crc32(sum, message.begin(), message.size());
  return header;
}

bool readAll(int fd, kj::ArrayPtr<kj::byte> into) {
  for (size_t done = 0; done < into.size();) {
    auto n = pread(fd, into.begin() + done, into.size() - done, done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += n;
  }
  return true;
}

}  // namespace

kj::Maybe<HeldMessage> takeHeldMessage(Process1& process1, kj::StringPtr name, uint64_t type) {
  KJ_IF_MAYBE (fd, process1.takeHeld(name)) {
    struct stat status;
    if (fstat(*fd, &status) != 0) return nullptr;
    if (status.st_size < static_cast<off_t>(sizeof(Header)) ||
        status.st_size > static_cast<off_t>(sizeof(Header) + kMostHeldBytes) ||
        status.st_size % sizeof(capnp::word) != 0) {
      return nullptr;
    }
    HeldMessage file(kj::heapArray<capnp::word>(status.st_size / sizeof(capnp::word)));
    auto bytes = file.words.asBytes();
    if (!readAll(*fd, bytes)) return nullptr;
    auto message = bytes.slice(sizeof(Header), bytes.size());
    auto expected = headerOf(name, type, message);
    if (memcmp(bytes.begin(), &expected, sizeof expected) != 0) return nullptr;
    HeldMessage result(kj::heapArray<capnp::word>(message.size() / sizeof(capnp::word)));
    memcpy(result.words.begin(), message.begin(), message.size());
    return kj::mv(result);
  }
  return nullptr;
}

kj::Promise<void> holdMessage(Process1& process1, kj::StringPtr name, uint64_t type,
                              capnp::MessageBuilder& message) {
  HeldMessage content(capnp::messageToFlatArray(message));
  auto bytes = content.words.asBytes();
  if (bytes.size() > kMostHeldBytes) {
    return error(ErrorKind::kResourceExhausted,
                 kj::str("\"", name, "\" cannot be kept over a restart of machined: it has ",
                         bytes.size(), " bytes, at most ", kMostHeldBytes));
  }
  auto header = headerOf(name, type, bytes);
  int fd;
  KJ_SYSCALL(fd = memfd_create(name.cStr(), MFD_CLOEXEC | MFD_ALLOW_SEALING), name);
  kj::AutoCloseFd file(fd);
  kj::FdOutputStream out(fd);
  out.write(&header, sizeof header);
  out.write(bytes.begin(), bytes.size());
  KJ_SYSCALL(fcntl(fd, F_ADD_SEALS, kSeals));
  auto holding = process1.hold(name, file.get());
  return holding.attach(kj::mv(file));
}

}  // namespace talos::machined
