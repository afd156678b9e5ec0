#include "machined/confined/kernel-helper/kernel-client.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>

namespace talos::helper {
namespace {

Answer without(int error) {
  Answer answer;
  answer.error = error;
  return answer;
}

}  // namespace

void KernelClient::connect(kj::AutoCloseFd fresh) {
  std::lock_guard lock(mutex);
  socket = kj::mv(fresh);
}

Answer KernelClient::ask(Call call, kj::StringPtr name, kj::StringPtr value, int disk) const {
  if (name.size() + value.size() + 2 > kMostText) return without(E2BIG);
  Request request = {};
  request.call = call;
  request.niceness = std::max(0, getpriority(PRIO_PROCESS, 0));
  request.nameSize = static_cast<uint32_t>(name.size());
  request.valueSize = static_cast<uint32_t>(value.size());
  memcpy(request.text, name.cStr(), name.size() + 1);
  memcpy(request.text + name.size() + 1, value.cStr(), value.size() + 1);
  size_t size = offsetof(Request, text) + name.size() + value.size() + 2;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return without(errno);
  kj::AutoCloseFd own(ends[0]), handed(ends[1]);
  int error = sendPacket(own, kj::arrayPtr(reinterpret_cast<const char*>(&request), size), disk);
  if (error != 0) return without(error);
  {
    std::lock_guard lock(mutex);
    if (sendPacket(socket, kj::arrayPtr("", 1), handed) != 0) return without(ECONNRESET);
  }
  handed = nullptr;  // so that the other end closes when its process ends
  Answer answer;
  auto received = receivePacket(own, kj::arrayPtr(reinterpret_cast<char*>(&answer), sizeof answer));
  if (received.size != sizeof answer) return without(ECONNRESET);
  answer.senseSize = std::min<uint32_t>(answer.senseSize, kMostSense);
  return answer;
}

int KernelClient::insertModule(kj::StringPtr file, kj::StringPtr parameters) const {
  return ask(Call::kInsertModule, file, parameters).error;
}

int KernelClient::setParameter(kj::StringPtr path, kj::StringPtr value) const {
  return ask(Call::kSetParameter, path, value).error;
}

Answer KernelClient::ataStatus(int disk) const {
  return ask(Call::kAtaStatus, "", "", disk);
}

}  // namespace talos::helper
