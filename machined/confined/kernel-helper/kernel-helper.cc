#include "machined/confined/kernel-helper/kernel-helper.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <linux/openat2.h>
#include <scsi/sg.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>

namespace talos::helper {
namespace {

constexpr unsigned kAnswerMs = 10'000;
constexpr unsigned char kAtaPassThrough16 = 0x85, kNoData = 3 << 1, kCheckCondition = 1 << 5;
constexpr unsigned char kSmart = 0xb0, kReturnStatus = 0xda, kSmartMiddle = 0x4f, kSmartHigh = 0xc2;

Answer failure(int error) {
  Answer answer;
  answer.error = error;
  return answer;
}

// Returns the text of `size` bytes at `offset` of the packet; nullptr if no zero terminates it
// there.
kj::Maybe<kj::StringPtr> textAt(kj::ArrayPtr<const char> packet, size_t offset, size_t size) {
  if (size >= kMostText || offset + size >= packet.size()) return nullptr;
  auto text = packet.slice(offset, offset + size + 1);
  if (memchr(text.begin(), 0, text.size()) != text.end() - 1) return nullptr;
  return kj::StringPtr(text.begin(), size);
}

}  // namespace

kj::String modulesFolder(kj::StringPtr root) {
  struct utsname name;
  if (uname(&name) != 0) return kj::str(root);
  return kj::str(root, "/", static_cast<const char*>(name.release));
}

KernelHelper::KernelHelper(kj::StringPtr right, kj::StringPtr modules, kj::StringPtr procSys)
    : right(right) {
  // A kernel with everything built in has no folder, and a kernel without a parameter lacks its
  // file.
  if (right == kModules) {
    folder = kj::AutoCloseFd(open(modules.cStr(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  for (auto& each : kParameters) {
    if (each.helper != right) continue;
    auto path = kj::str(procSys, "/", each.path);
    int file = open(path.cStr(), O_WRONLY | O_CLOEXEC);
    if (file >= 0) parameters.add(Opened{each.path, kj::AutoCloseFd(file)});
  }
}

Answer KernelHelper::answer(kj::ArrayPtr<const char> packet, int disk) const {
  constexpr size_t kHead = offsetof(Request, text);
  Request head = {};
  if (packet.size() < kHead) return failure(EBADMSG);
  memcpy(&head, packet.begin(), kHead);
  auto name = textAt(packet, kHead, head.nameSize);
  auto value = textAt(packet, kHead + head.nameSize + 1, head.valueSize);
  if (head.nameSize >= kMostText || name == nullptr || value == nullptr ||
      packet.size() != kHead + head.nameSize + head.valueSize + 2) {
    return failure(EBADMSG);
  }
  if (head.niceness > 0) setpriority(PRIO_PROCESS, 0, std::min(head.niceness, 19));
  switch (head.call) {
    case Call::kInsertModule:
      if (right != kModules) break;
      return insertModule(KJ_ASSERT_NONNULL(name), KJ_ASSERT_NONNULL(value));
    case Call::kSetParameter:
      return setParameter(KJ_ASSERT_NONNULL(name), KJ_ASSERT_NONNULL(value));
    case Call::kAtaStatus:
      if (right != kRawIo) break;
      return ataStatus(disk);
  }
  return failure(EOPNOTSUPP);
}

// Loads a file of the image's own folder only: neither a link nor a later mount leads elsewhere.
Answer KernelHelper::insertModule(kj::StringPtr name, kj::StringPtr value) const {
  if (folder.get() < 0) return failure(ENOENT);
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV;
  int raw = static_cast<int>(syscall(SYS_openat2, folder.get(), name.cStr(), &how, sizeof how));
  if (raw < 0) return failure(errno);
  kj::AutoCloseFd file(raw);
  return failure(syscall(SYS_finit_module, file.get(), value.cStr(), 0) == 0 ? 0 : errno);
}

Answer KernelHelper::setParameter(kj::StringPtr name, kj::StringPtr value) const {
  for (auto& each : parameters) {
    if (each.path != name) continue;
    // The kernel takes a value that is written at the beginning.
    return failure(pwrite(each.file.get(), value.begin(), value.size(), 0) < 0 ? errno : 0);
  }
  return failure(ENOENT);
}

// SMART RETURN STATUS by ATA PASS-THROUGH (16), which reads nothing of the disk's content.
Answer KernelHelper::ataStatus(int disk) const {
  struct stat info;
  if (disk < 0 || fstat(disk, &info) != 0 || !S_ISBLK(info.st_mode)) return failure(ENOTBLK);
  Answer answer;
  unsigned char command[16] = {kAtaPassThrough16, kNoData, kCheckCondition};
  command[4] = kReturnStatus;
  command[10] = kSmartMiddle;
  command[12] = kSmartHigh;
  command[14] = kSmart;
  sg_io_hdr_t request = {};
  request.interface_id = 'S';
  request.dxfer_direction = SG_DXFER_NONE;
  request.cmdp = command;
  request.cmd_len = sizeof(command);
  request.sbp = answer.sense;
  request.mx_sb_len = kMostSense;
  request.timeout = kAnswerMs;
  if (ioctl(disk, SG_IO, &request) < 0) return failure(errno);
  answer.hostStatus = request.host_status;
  answer.senseSize = std::min<uint32_t>(request.sb_len_wr, kMostSense);
  return answer;
}

void KernelHelper::carryOut(int conversation) const {
  char packet[sizeof(Request)];
  // The request is already in the socket.
  auto request = receivePacket(conversation, kj::arrayPtr(packet, sizeof packet), MSG_DONTWAIT);
  if (request.size < 0) return;
  int disk = -1;
  KJ_IF_MAYBE (fd, request.fd) disk = fd->get();
  auto result = answer(kj::arrayPtr(packet, static_cast<size_t>(request.size)), disk);
  sendPacket(conversation, kj::arrayPtr(reinterpret_cast<const char*>(&result), sizeof result));
}

void KernelHelper::serve(int socket) const {
  signal(SIGCHLD, SIG_IGN);  // the kernel reaps them
  signal(SIGTERM, SIG_IGN);  // the helper lives until the end of the machine, as the brain does
  for (;;) {
    char byte;
    auto packet = receivePacket(socket, kj::arrayPtr(&byte, 1));
    if (packet.size == 0) return;
    KJ_IF_MAYBE (conversation, packet.fd) {
      pid_t child = fork();
      if (child == 0) {
        close(socket);  // this process must not hold the helper's end
        carryOut(conversation->get());
        _exit(0);
      }
    } else if (packet.size < 0) {
      return;
    }
  }
}

}  // namespace talos::helper
