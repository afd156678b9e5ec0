#include "machined/confined/kernel-helper/kernel-request.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

namespace talos::helper {

int sendPacket(int socket, kj::ArrayPtr<const char> bytes, int fd) {
  struct iovec part = {const_cast<char*>(bytes.begin()), bytes.size()};
  alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  struct msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    auto* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  ssize_t sent;
  while ((sent = sendmsg(socket, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
  }
  return sent < 0 ? errno : 0;
}

Packet receivePacket(int socket, kj::ArrayPtr<char> into, int flags) {
  struct iovec part = {into.begin(), into.size()};
  alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  struct msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  Packet packet;
  while ((packet.size = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags)) < 0 &&
         errno == EINTR) {
  }
  if (packet.size < 0) return packet;
  for (auto* h = CMSG_FIRSTHDR(&message); h != nullptr; h = CMSG_NXTHDR(&message, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
    int fd;
    memcpy(&fd, CMSG_DATA(h), sizeof fd);
    packet.fd = kj::AutoCloseFd(fd);
  }
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    packet.size = -1;
    errno = EMSGSIZE;
  }
  return packet;
}

}  // namespace talos::helper
