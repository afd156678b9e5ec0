#include "machined/config/pending.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "machined/config/sources.h"

namespace talos::machined {
namespace {

constexpr char kMagic[8] = {'p', 'e', 'n', 'd', 'i', 'n', 'g', '1'};
constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

// Ours on both sides: the same machine, the same boot.
struct Header {
  char magic[sizeof kMagic];
  uint64_t mode, size;
};

}  // namespace

Pending::~Pending() noexcept(false) {
  zeroize(text);
}

kj::Maybe<Pending> takePending(Process1& process1) {
  KJ_IF_MAYBE (fd, process1.takeHeld(kPendingName)) {
    Header header{};
    if (pread(*fd, &header, sizeof header, 0) != sizeof header ||
        memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.size > kMostConfigBytes ||
        header.mode > static_cast<uint64_t>(rpc::ApplyMode::STAGED)) {
      return nullptr;
    }
    auto text = kj::heapArray<char>(header.size);
    if (pread(*fd, text.begin(), text.size(), sizeof header) != static_cast<ssize_t>(text.size())) {
      return nullptr;
    }
    return Pending(static_cast<rpc::ApplyMode>(header.mode), kj::mv(text));
  }
  return nullptr;
}

kj::Promise<void> holdPending(Process1& process1, const Pending& pending) {
  int fd;
  KJ_SYSCALL(fd = memfd_create("config-pending", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  kj::AutoCloseFd file(fd);
  Header header{{}, static_cast<uint64_t>(pending.mode), pending.text.size()};
  memcpy(header.magic, kMagic, sizeof kMagic);
  kj::FdOutputStream out(fd);
  out.write(&header, sizeof header);
  out.write(pending.text.begin(), pending.text.size());
  KJ_SYSCALL(fcntl(fd, F_ADD_SEALS, kSeals));
  auto held = process1.hold(kPendingName, file.get());
  return held.attach(kj::mv(file));
}

kj::Promise<void> dropPending(Process1& process1) {
  return process1.drop(kPendingName);
}

}  // namespace talos::machined
