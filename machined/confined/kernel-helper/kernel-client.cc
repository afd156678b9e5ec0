#include "machined/confined/kernel-helper/kernel-client.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>

#include "common/base/error.h"

namespace talos::helper {
namespace {

Answer without(int error) {
  Answer answer;
  answer.error = error;
  return answer;
}

// Returns what the kernel has not done while a call waits.
kj::String workOf(Call call, kj::StringPtr name) {
  switch (call) {
    case Call::kInsertModule:
      return kj::str("loaded the module ", name);
    case Call::kSetParameter:
      return kj::str("set the parameter ", name);
    case Call::kAtaStatus:
      return kj::str("reported the SMART status of the disk");
  }
  KJ_UNREACHABLE;
}

// Makes a read of this socket fail with EAGAIN after `timeout`. Returns 0 or an errno.
int limitReads(int socket, kj::Duration timeout) {
  auto us = timeout / kj::MICROSECONDS;
  timeval limit{us / 1'000'000, us % 1'000'000};
  return setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 ? 0 : errno;
}

}  // namespace

void KernelClient::connect(kj::AutoCloseFd fresh) {
  std::lock_guard lock(mutex);
  socket = kj::mv(fresh);
}

// Returns true if an earlier call for this name was not answered in time, and still is not.
bool KernelClient::hangs(kj::StringPtr name) const {
  std::lock_guard lock(mutex);
  KJ_IF_MAYBE (call, hanging.find(name)) {
    pollfd answer{call->get(), POLLIN, 0};
    if (poll(&answer, 1, 0) == 0) return true;
    hanging.erase(name);
  }
  return false;
}

Answer KernelClient::receive(kj::AutoCloseFd own, Call call, kj::StringPtr name) const {
  Answer answer;
  auto received = receivePacket(own, kj::arrayPtr(reinterpret_cast<char*>(&answer), sizeof answer));
  if (received.size < 0 && errno == EAGAIN) {
    if (name.size() > 0) {
      std::lock_guard lock(mutex);
      hanging.upsert(
          kj::str(name), kj::mv(own),
          [](kj::AutoCloseFd& there, kj::AutoCloseFd&& fresh) { there = kj::mv(fresh); });
    }
    fail(ErrorKind::kDeadlineExceeded,
         kj::str("the kernel has not ", workOf(call, name), " within ", timeout / kj::SECONDS,
                 " s; its driver may hang"));
  }
  if (received.size != sizeof answer) return without(ECONNRESET);
  answer.senseSize = std::min<uint32_t>(answer.senseSize, kMostSense);
  return answer;
}

Answer KernelClient::ask(Call call, kj::StringPtr name, kj::StringPtr value, int disk) const {
  if (name.size() + value.size() + 2 > kMostText) return without(E2BIG);
  if (hangs(name)) {
    fail(ErrorKind::kDeadlineExceeded,
         kj::str("the kernel has not ", workOf(call, name), " yet; an earlier call hangs"));
  }
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
  int error = limitReads(own, timeout);
  if (error != 0) return without(error);
  error = sendPacket(own, kj::arrayPtr(reinterpret_cast<const char*>(&request), size), disk);
  if (error != 0) return without(error);
  {
    std::lock_guard lock(mutex);
    if (sendPacket(socket, kj::arrayPtr("", 1), handed) != 0) return without(ECONNRESET);
  }
  handed = nullptr;  // so that the other end closes when its process ends
  return receive(kj::mv(own), call, name);
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
