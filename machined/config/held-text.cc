#include "machined/config/held-text.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/file.h"

namespace talos::machined {
namespace {

constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
constexpr size_t kMagicBytes = 8;

// Ours on both sides: the same machine, the same boot.
struct Header {
  char magic[kMagicBytes];
  uint64_t first, size, second;
};

}  // namespace

HeldText::~HeldText() noexcept(false) {
  zeroize(text);
}

kj::Maybe<HeldText> takeHeldText(Process1& process1, kj::StringPtr name, kj::StringPtr magic,
                                 size_t most) {
  KJ_IF_MAYBE (fd, process1.takeHeld(name)) {
    Header header{};
    if (pread(*fd, &header, sizeof header, 0) != sizeof header ||
        memcmp(header.magic, magic.begin(), kMagicBytes) != 0 || header.size > most) {
      return nullptr;
    }
    HeldText held(header.first, header.second, kj::heapArray<char>(header.size));
    if (pread(*fd, held.text.begin(), held.text.size(), sizeof header) !=
        static_cast<ssize_t>(held.text.size())) {
      return nullptr;
    }
    return kj::mv(held);
  }
  return nullptr;
}

kj::Promise<void> holdText(Process1& process1, kj::StringPtr name, kj::StringPtr magic,
                           const HeldText& held) {
  KJ_REQUIRE(magic.size() == kMagicBytes, magic);
  int fd;
  KJ_SYSCALL(fd = memfd_create("config", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  kj::AutoCloseFd file(fd);
  Header header{{}, held.numbers[0], held.text.size(), held.numbers[1]};
  memcpy(header.magic, magic.begin(), kMagicBytes);
  kj::FdOutputStream out(fd);
  out.write(&header, sizeof header);
  out.write(held.text.begin(), held.text.size());
  KJ_SYSCALL(fcntl(fd, F_ADD_SEALS, kSeals));
  auto holding = process1.hold(name, file.get());
  return holding.attach(kj::mv(file));
}

}  // namespace talos::machined
